"""Small bodies that tests send."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(1)


def dataset(
    *, zones: int = 3, periods: int = 10, epsilon: float = 1, **values: Any
) -> dict[str, Any]:
    """A small dataset whose content no other has."""
    unique = next(_numbers)
    pairs = [(o, d) for o in range(1, zones + 1) for d in range(1, zones + 1) if o != d]
    trips = [
        {
            "period": period,
            "origin": origin,
            "destination": destination,
            "count": 100 + (unique if period == 0 else 0),
        }
        for period in range(periods)
        for origin, destination in pairs
    ]
    return {
        "name": f"trips {unique}",
        "kind": "routing",
        "public": {"unit": "request", "zones": zones, "periods": periods, "period_minutes": 60},
        "content": {"trips": trips},
        "cap": {"epsilon": epsilon, "delta": 0},
        **values,
    }


def network(nodes: int = 4) -> dict[str, Any]:
    """A complete network."""
    ends = range(1, nodes + 1)
    return {
        "nodes": nodes,
        "links": [
            {"tail": tail, "head": head, "free_flow_time": 1 + abs(tail - head), "capacity": 100}
            for tail in ends
            for head in ends
            if tail != head
        ],
    }


def grid(side: int) -> dict[str, Any]:
    """A square of streets; with a side of 25 and 30 zones, work for a good part of a second."""
    nodes = range(1, side * side + 1)
    streets = [
        (node, node + step) for node in nodes for step in (1, side) if step != 1 or node % side
    ]
    links = [
        ends for street in streets if max(street) <= side * side for ends in (street, street[::-1])
    ]
    return {
        "nodes": side * side,
        "links": [
            {"tail": tail, "head": head, "free_flow_time": 1 + number // 2 % 7, "capacity": 1000}
            for number, (tail, head) in enumerate(links)
        ],
    }


def federated() -> dict[str, Any]:
    """A job whose data two agents hold; it waits for them."""
    return {
        "problem": {
            "kind": "multi_agent",
            "constraints": ["x1 + x2 - 3"],
            "schedule": {"gamma": 0.01, "alpha": 0.2, "c1": 0.3333, "c2": 0.25, "iterations": 10},
            "protocol": "federated",
            "federation": {"agents": 2, "join_seconds": 60},
        },
        "privacy": {"epsilon": 1, "delta": 0.01},
    }


def job(dataset_id: str, epsilon: float = 0.1, **problem: Any) -> dict[str, Any]:
    return {
        "problem": {"kind": "routing", "dataset": dataset_id, "network": network(), **problem},
        "privacy": {"epsilon": epsilon},
    }
