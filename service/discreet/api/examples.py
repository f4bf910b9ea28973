"""Request bodies that the contract shows. Those of datasets and jobs are the kinds' own
examples, which tests run."""

from __future__ import annotations

import copy
from typing import Any

from discreet.problems import DATASETS, KINDS
from discreet.problems.road_networks.network import RoadNetwork
from discreet.problems.sources import DatasetInBlocks

DATASET_ID = "dst_replace_me"
"""Placeholder in job examples for the id of the registered dataset example of the same name."""

GRANTS: dict[str, Any] = {
    "raise": {
        "cap": {"epsilon": 2, "delta": 1e-6},
        "reason": "second year of the study, approved on 2026-11-02",
    }
}
BUDGET_REQUESTS: dict[str, Any] = {
    "more": {
        "more": {"epsilon": 0.5},
        "reason": "the morning of the bridge's closure, as agreed with the city",
    }
}
DECLINES: dict[str, Any] = {"no": {"answer": "ask the release of May again: that costs nothing"}}
CORRECTIONS: dict[str, Any] = {
    "bound": {"public": {"max_ratio": 5}},
    "none": {"public": {"max_total": None}},
}
AGAIN: dict[str, Any] = {"without_the_missing": {}}
CAPS: dict[str, Any] = {
    "tenant": {
        "scope": "tenant",
        "cap": {"epsilon": 10, "delta": 1e-5},
        "reason": "policy of the house",
    },
    "principal": {
        "scope": "principal",
        "principal": "ann",
        "cap": {"epsilon": 1, "delta": 1e-6},
        "reason": "internship until March",
    },
}
TENANTS: dict[str, Any] = {"tenant": {"name": "north"}}
KEYS: dict[str, Any] = {
    "analyst": {"role": "analyst", "principal": "ann"},
    "expiring": {"role": "auditor", "principal": "bob", "expires_at": "2030-01-01T00:00:00Z"},
}
INVITATIONS: dict[str, Any] = {
    "two_agents": {"owner": "5f" * 32, "count": 2},
    "named": {"owner": "5f" * 32, "names": ["Ward 3", "Ward 4"]},
    "group": {"owner": "5f" * 32, "group": "plants"},
}
ROSTERS: dict[str, Any] = {
    "signed": {
        "roster": '{"agents":[],"job":"job_…","session":"ses_…"}',
        "signature": "A" * 86 + "==",
        "owner_key": "A" * 43 + "=",
    }
}
CERTIFICATES: dict[str, Any] = {
    "forged": {
        "certificate": {
            "guarantee": {"type": "pure_dp", "epsilon": 0.1, "delta": 0.0},
            "signature": "none",
        }
    }
}

PEOPLE: dict[str, Any] = {"remove": {"subject": "248289761001", "active": False}}
WEBHOOKS: dict[str, Any] = {
    "jobs": {
        "url": "https://hooks.example.org/discreet",
        "events": ["job.finished", "job.failed", "budget.exhausted"],
    }
}


def networks() -> dict[str, Any]:
    """A network to store."""
    return {"network": {"name": "Three nodes", "network": RoadNetwork.example()}}


def sources() -> dict[str, Any]:
    """A source of the first kind whose example may come in blocks; empty if there is no such
    kind."""
    if (dataset := _in_blocks()) is None:
        return {}
    said = {name: dataset[name] for name in ("kind", "public", "cap")}
    return {"days": {"name": "One day after the other", **said, "by": "day"}}


def blocks() -> dict[str, Any]:
    """A block of that source, with one record."""
    if (dataset := _in_blocks()) is None:
        return {}
    day = "2026-10-01"
    content = {name: [{"date": day, **items[0]}] for name, items in dataset["content"].items()}
    return {"day": {"block": day, "content": content}}


def rules() -> dict[str, Any]:
    """A rule for two analysts that leaves part of each block to nobody."""
    return {"two": {"shares": {"ada": 0.5, "bo": 0.3}, "lent_days": 28}}


def _in_blocks() -> dict[str, Any] | None:
    """The example of the first kind that may come in blocks; None if there is no such kind."""
    for kind, model in DATASETS.items():
        dataset: dict[str, Any] = _example(kind)["problem"]["dataset"]
        if issubclass(model, DatasetInBlocks) and not model.not_in_blocks(
            model.read_public(dataset["public"])
        ):
            return dataset
    return None


def reads() -> dict[str, Any]:
    """Another look at a file, by a description, as data of the first kind."""
    public = {"reader": {"version": 1, "decimal": ","}, "columns": {"origin": "Von"}}
    return {"again": {"draft": "read_replaceme", "kind": next(iter(DATASETS)), "public": public}}


def datasets() -> dict[str, Any]:
    """A dataset of each kind."""
    return {kind: _example(kind)["problem"]["dataset"] for kind in DATASETS}


def jobs() -> dict[str, Any]:
    """A job of each kind; `DATASET_ID` stands for its dataset."""
    bodies = {kind: _example(kind) for kind in KINDS}
    for kind in DATASETS:
        bodies[kind]["problem"]["dataset"] = DATASET_ID
    return bodies


def rehearsals() -> dict[str, Any]:
    """A rehearsal of each kind that has datasets."""
    return {
        kind: {**body, "epsilons": [0.1, 1, 10]}
        for kind, body in jobs().items()
        if kind in DATASETS
    }


def _example(kind: str) -> dict[str, Any]:
    return copy.deepcopy(KINDS[kind].example())
