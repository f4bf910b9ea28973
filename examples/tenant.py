"""Fills a tenant: datasets and jobs of all five kinds by an owner and an analyst, a grant, and a
refusal.

`make screenshots` and the browser tests use it. All data are SYNTHETIC.
"""

from __future__ import annotations

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from ev_charging import job as charging

from discreet.reproduce.event_capacity import job_body
from discreet.reproduce.load_ensemble import generate
from discreet.reproduce.simulators import (
    CHAIN_DISCOUNT,
    CHAIN_STATES,
    chain,
    chain_cell_rewards,
    chain_topology,
)
from discreet_agent import Agent
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.rosters import roster_document
from discreet_agent.federation.signing import roster
from discreet_agent.multi_agent import Minimum, minimize
from discreet_client.client import Client

HERE = Path(__file__).parent
MORNINGS = (0.05, 0.1, 0.02, 0.05)
"""The epsilon of each routing job in turn; the owner and the analyst alternate."""


def fill(owner: Client, analyst: Client) -> dict[str, str]:
    """Run jobs of all five kinds; returns the ids of jobs by name. `analyst` belongs to the owner's
    tenant."""
    jobs = {
        **_routing(owner, analyst),
        "dr_ensemble": run(owner, _loads("private", participants=400)),
        "dr_simulation": run(owner, _loads("simulation", participants=200)),
        "off_policy_evaluation": run(owner, _patients(), client=analyst),
        "multi_agent": run(owner, _feeders("private")),
        "multi_agent_simulation": run(owner, _feeders("simulation")),
        "coupled_qp": run(owner, charging(vehicles=8, iterations=150)),
    }
    ids = {
        budget["datasets"][0]["name"]: budget["id"]
        for budget in owner.budgets()
        if budget["datasets"]
    }
    owner.grant(
        ids["morning trips"],
        epsilon=0.5,
        delta=0,
        reason="second study of the corridor, approved by the data board",
    )
    # It exceeds the cap: nothing is charged, and the dashboard does not show it.
    refused = _routing_body(owner.job(jobs["routing"])["dataset"], 5.0)
    if owner.plan(refused)["admitted"]:
        raise RuntimeError("a job over the cap was admitted")
    return jobs


def run(owner: Client, body: dict[str, Any], client: Client | None = None) -> str:
    """Register the dataset in the body, submit the job and wait for it; returns the job's id."""
    client = client or owner
    problem = dict(body["problem"])
    if isinstance(problem.get("dataset"), dict):
        problem["dataset"] = owner.register(problem["dataset"])["id"]
    job_id = str(client.submit({**body, "problem": problem})["id"])
    ended = client.wait(job_id)
    if ended["state"] != "succeeded":
        raise RuntimeError(f"{problem['kind']}: {ended}")
    return job_id


DAYS = 12
"""The number of the source's blocks."""


def more(owner: Client, analyst: Client, jobs: dict[str, str]) -> dict[str, str]:
    """A source with a block for each day and two jobs on it, a rehearsal, and a request for more
    budget; returns ids by name."""
    source = owner.sources.create(
        {
            "name": "City trips",
            "kind": "routing",
            "by": "day",
            "public": {"unit": "request", "zones": 4, "periods": 1, "period_minutes": 60},
            "cap": {"epsilon": 1, "delta": 0},
        }
    )["id"]
    zones = range(1, 5)
    for number in range(DAYS):
        day = str(date(2026, 11, 1) + timedelta(number))
        trips = [
            {
                "date": day,
                "period": 0,
                "origin": origin,
                "destination": destination,
                "count": 20 + number + origin,
            }
            for origin in zones
            for destination in zones
            if origin != destination
        ]
        owner.sources.add(source, day, {"trips": trips})
    ring = [way for end in ((1, 2), (2, 3), (3, 4), (4, 1)) for way in (end, end[::-1])]
    links = [
        {"tail": tail, "head": head, "free_flow_time": 5, "capacity": 400} for tail, head in ring
    ]
    for last, epsilon in ((4, 0.3), (8, 0.2)):
        problem = {
            "kind": "routing",
            "source": {"id": source, "last": last},
            "network": {"nodes": 4, "links": links},
        }
        run(owner, {"problem": problem, "privacy": {"epsilon": epsilon}})
    rehearsal = analyst.rehearse(owner.job(jobs["off_policy_evaluation"])["problem"]).job["id"]
    account = owner.dataset(owner.job(jobs["routing"])["dataset"])["account"]
    analyst.request_budget(account, epsilon=0.2, reason="the evening study needs as much again")
    return {"source": source, "rehearsal": rehearsal}


# Bodies -------------------------------------------------------------------------------------------


def _routing_body(dataset: str, epsilon: float) -> dict[str, Any]:
    body = json.loads((HERE / "routing-sioux-falls.json").read_text())
    problem = {**body["problem"], "dataset": dataset, "relative_gap": 1e-6}
    return {"problem": problem, "privacy": {"epsilon": epsilon}}


def _routing(owner: Client, analyst: Client) -> dict[str, str]:
    dataset = json.loads((HERE / "routing-sioux-falls.json").read_text())["problem"]["dataset"]
    registered = owner.register(
        {**dataset, "name": "morning trips", "cap": {"epsilon": 0.4, "delta": 0}}
    )["id"]
    last = ""
    for place, epsilon in enumerate(MORNINGS):
        last = run(owner, _routing_body(registered, epsilon), client=(owner, analyst)[place % 2])
    return {"routing": last}


def _loads(mode: str, participants: int) -> dict[str, Any]:
    body = job_body(generate(participants, days=2, seed=len(mode)), mode=mode)
    body["problem"]["dataset"]["name"] = f"office buildings ({mode})"
    return body


def _patients() -> dict[str, Any]:
    rows = chain(300, np.random.default_rng(7))
    names = ("trajectory", "step", "state", "reward", "next_state", "terminal")
    columns = zip(*(getattr(rows, name).tolist() for name in names), strict=True)
    return {
        "problem": {
            "kind": "off_policy_evaluation",
            "dataset": {
                "name": "patients of one ward",
                "kind": "off_policy_evaluation",
                "public": {
                    "unit": "trajectory",
                    "states": CHAIN_STATES,
                    "reward_bound": 1,
                    "horizon": 1000,
                    "topology": chain_topology().tolist(),
                    "rewards": chain_cell_rewards().tolist(),
                },
                "content": {"transitions": [dict(zip(names, row, strict=True)) for row in columns]},
                "cap": {"epsilon": 2, "delta": 0},
            },
            "features": {"type": "tabular"},
            "discount": CHAIN_DISCOUNT,
            "initial": [1 / CHAIN_STATES] * CHAIN_STATES,
        },
        "privacy": {"epsilon": 1},
    }


def _feeders(mode: str) -> dict[str, Any]:
    names = ("north", "east", "south", "west")
    wishes = (3, 4, 2, 2.5) if mode == "private" else (2, 5, 2, 2.5)
    return {
        "problem": {
            "kind": "multi_agent",
            "dataset": {
                "name": f"four feeders ({mode})",
                "kind": "multi_agent",
                "public": {
                    "unit": "trajectory",
                    "agents": [
                        {"name": name, "lower": 0, "upper": 5, "radius": 0.2} for name in names
                    ],
                },
                "content": {
                    "objectives": {
                        name: f"({name} - {wish})^2"
                        for name, wish in zip(names, wishes, strict=True)
                    }
                },
                "mode": mode,
                "cap": {"epsilon": 4, "delta": 0.01},
            },
            "constraints": ["north + east - 4", "south + west - 3", "north^2 + south - 6"],
            "schedule": {"gamma": 0.3, "alpha": 0.02, "c1": 0.34, "c2": 0.25, "iterations": 2000},
        },
        "privacy": {"epsilon": 2, "delta": 0.001},
    }


# Sessions -----------------------------------------------------------------------------------------


def federated_body(agents: int = 3) -> dict[str, Any]:
    """The body of a session whose agents share 4 units through the cloud."""
    names = [f"x{k + 1}" for k in range(agents)]
    return {
        "problem": {
            "kind": "multi_agent",
            "constraints": [f"{' + '.join(names)} - 4"],
            "schedule": {"gamma": 0.3, "alpha": 0.02, "c1": 0.34, "c2": 0.25, "iterations": 60},
            "protocol": "federated",
            "federation": {"agents": agents},
        },
        "privacy": {"epsilon": 2, "delta": 1e-3},
    }


def session(owner: Client, folder: Path) -> dict[str, str]:
    """A session that three agents complete, and one that waits for its agents; returns ids of jobs
    by name."""
    job_id = str(owner.submit(federated_body())["id"])
    signer = Identity.open(folder / "owner.pem")
    links = owner.session_tokens(job_id, owner=signer.fingerprint, count=3)["links"]
    wishes = {"x1": 3.0, "x2": 4.0, "x3": 2.0}

    def take_part(link: str, name: str, wish: float) -> Minimum:
        announcement = {"lower": 0, "upper": 5, "radius": 0.05}
        limits = {"limit_epsilon": "2", "limit_delta": "0.01"}
        agent = Agent.from_token(
            link, folder / f"{name}.key", name=name, **limits, announcement=announcement
        )
        return minimize(agent, slope=lambda x: 2 * (x - wish))

    with ThreadPoolExecutor(3) as pool:
        agents = [
            pool.submit(take_part, link, *pair)
            for link, pair in zip(links, wishes.items(), strict=True)
        ]
        while len(owner.session(job_id)["agents"]) < 3:
            time.sleep(0.1)
        shown = owner.session(job_id)
        document = roster_document(shown["id"], job_id, shown["kind"], shown["agents"])
        signature = base64.b64encode(signer.sign(roster(document))).decode()
        key = base64.b64encode(signer.public_key).decode()
        owner.approve_session(job_id, roster=document.decode(), signature=signature, owner_key=key)
        for agent in agents:
            agent.result()
    owner.wait(job_id)
    waiting = str(owner.submit(federated_body(agents=5))["id"])
    owner.session_tokens(waiting, owner=signer.fingerprint, count=5)
    return {"session": job_id, "session_waiting": waiting}
