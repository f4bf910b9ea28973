"""The law by which travel times grow with flows: as a sentence in the terms of the field, and as
choices of forms.

Intervals cover only the noise, and the choice of the law moves answers more than noise does: the
trips of a town took a quarter longer with one than with the other. So plans, answers and forms all
name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork

CHOICES: list[Any] = [
    {
        "says": "BPR: 0.15, power 4 of flow over capacity",
        "value": {"type": "bpr", "b": 0.15, "power": 4},
    },
    {
        "says": "travel time grows in proportion to the flow (a road at its capacity takes twice "
        "as long as empty)",
        "value": {"type": "affine", "factor": 1},
    },
]
"""The choices that forms offer, first the one that traffic engineers expect if capacities are
known; the contract's default, which applies to bodies without a law, remains the other."""


def stated(network: Mapping[str, Any]) -> bool:
    """Whether a network in JSON states the law of each of its links itself."""
    links = network.get("links") or ()
    return bool(links) and all(
        link.get("b") is not None and link.get("power") is not None for link in links
    )


def sentence(roads: RoadNetwork, latency: AffineLatency | BprLatency) -> str:
    """The law of all links as a sentence without the full stop."""
    own = [
        (link.b, link.power)
        for link in roads.links
        if link.b is not None and link.power is not None
    ]
    partly = sum((link.b is None) != (link.power is None) for link in roads.links)
    if len(own) == len(roads.links) and own:
        if len(set(own)) == 1 and (figures := own[0])[0] is not None:
            return f"Travel times grow by {_bpr(*figures)}, as the network says of every link"
        return (
            "Travel times grow by the BPR law, with the b and power that the network says of "
            "each link"
        )
    says = f"Travel times grow {_common(latency)}"
    if own or partly:
        links = len(own) + partly
        says += (
            f", but for {links:,} of {len(roads.links):,} links, of which the network says its "
            "own figures"
        )
    return says


def _common(latency: AffineLatency | BprLatency) -> str:
    if isinstance(latency, BprLatency):
        return f"by {_bpr(latency.b, latency.power)}"
    return (
        f"in proportion to the flow: at capacity {latency.factor:g} times the time on the empty "
        "road is added"
    )


def _bpr(b: float | None, power: float | None) -> str:
    return f"the BPR law: {b:g}, power {power:g} of flow over capacity"
