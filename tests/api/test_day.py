"""Datasets whose hours differ, over HTTP: refusals name the field, and releases are asked again
from another hour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet_client.client import ApiError
from discreet_client.errors import InvalidInput
from tests.api.test_asking_again import again, pointers, solved
from tests.conftest import Installation

STATES, STEPS = 3, 49
PUBLIC: dict[str, Any] = {
    "unit": "participant",
    "states": STATES,
    "steps": STEPS,
    "participants": 60,
    "day": {"steps": 24, "blocks": [0, 7, 18]},
}
PROBLEM: dict[str, Any] = {
    "kind": "dr_ensemble",
    "power": [0, 1, 3],
    "price": [1, 2, 1, 3, 1],
    "discomfort_weight": 1,
    "initial": [1, 0, 0],
    "first_step": 23,
}


def dataset(seed: int = 1, **fields: Any) -> dict[str, Any]:
    rows = np.random.default_rng(seed).integers(0, STATES, (60, STEPS)).tolist()
    return {
        "kind": "dr_ensemble",
        "name": f"hours {seed}",
        "mode": "private",
        "public": {**PUBLIC, **fields},
        "content": {"trajectories": rows},
        "cap": {"epsilon": 100, "delta": 0},
    }


def job(registered: str, **fields: Any) -> dict[str, Any]:
    return {"problem": {**PROBLEM, "dataset": registered, **fields}, "privacy": {"epsilon": 10}}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"day": {"steps": 24, "blocks": [0, 18, 7]}}, ["/public/day/blocks"]),
        ({"day": {"steps": 24, "blocks": [0, 7, 7]}}, ["/public/day/blocks"]),
        ({"day": {"steps": 24, "blocks": [7, 18]}}, ["/public/day/blocks/0"]),
        ({"day": {"steps": 24, "blocks": [0, 24]}}, ["/public/day/blocks"]),
        ({"day": {"steps": 24, "blocks": [0, -1]}}, ["/public/day/blocks/1"]),
        ({"day": {"steps": 24, "blocks": [0, 7.5]}}, ["/public/day/blocks/1"]),
        ({"day": {"steps": 10**9, "blocks": [0, 7]}}, ["/public/day/steps"]),
        (
            {"day": {"steps": 10**6, "blocks": list(range(10_000))}, "states": 500},
            ["/public/day/blocks"],
        ),
        (
            {"day": {"steps": 10**6, "blocks": list(range(96))}, "states": 500},
            ["/public/day/blocks"],
        ),
        ({"day": []}, ["/public/day"]),
    ],
)
def test_odd_days_are_refused_by_name(
    service: Installation, fields: dict[str, Any], where: list[str]
) -> None:
    with service.client() as client, pytest.raises(InvalidInput) as refused:
        client.register(dataset(**fields))
    assert pointers(refused.value) == where


def test_odd_hours_are_refused_by_name(service: Installation) -> None:
    with service.client(service.owner_of("odd hours")) as client:
        registered = client.register(dataset(2))["id"]
        for first_step in (24, 10**15, 10**40, -1, 1.5, "7", True):
            with pytest.raises(ApiError) as refused:
                client.plan(job(registered, first_step=first_step))
            assert refused.value.status == 422, first_step
            assert pointers(refused.value) == ["/problem/first_step"], first_step


def test_releases_are_asked_again_from_another_hour_and_combined(service: Installation) -> None:
    """What is combined holds the answer from any hour; jobs of another day are of another
    dataset."""
    with service.client(service.owner_of("hours that differ")) as client:
        registered = client.register(dataset(3))
        first, second = (
            solved(client, job(registered["id"])),
            solved(client, job(registered["id"], first_step=3)),
        )
        spent = client.budget(registered["account"])["spent"]["epsilon"]
        late = solved(client, again(first, job(registered["id"]), first_step=8))
        assert late["result"]["block_transitions"] == first["result"]["block_transitions"]
        assert late["result"]["default_power"] != first["result"]["default_power"]
        both = [one["job"]["id"] for one in (first, second)]
        combined = solved(client, again(first, job(registered["id"]), release=both, first_step=8))[
            "result"
        ]
        assert combined["combined"]["releases"] == 2
        moves = np.array(combined["block_transitions"])
        spread, load = np.array([1.0, 0, 0]), []
        for step in range(5):
            load.append(spread @ [0, 1, 3])
            spread = spread @ moves[np.searchsorted([0, 7, 18], (8 + step) % 24, side="right") - 1]
        assert combined["default_power"] == pytest.approx(load)
        assert client.budget(registered["account"])["spent"]["epsilon"] == spent
        other = client.register(dataset(4, day={"steps": 24, "blocks": [0, 12]}))
        unlike = solved(client, job(other["id"]))["job"]["id"]
        with pytest.raises(ApiError) as refused:
            client.submit(again(first, job(registered["id"]), release=[both[0], unlike]))
        assert 400 <= refused.value.status < 500
        rehearsed = client.rehearse(
            job(registered["id"], first_step=5), epsilons=[10], around=both[0], progress=False
        )
        assert rehearsed["rows"]
        with pytest.raises(ApiError) as refused:
            client.rehearse(job(other["id"]), epsilons=[10], around=both[0], progress=False)
        assert 400 <= refused.value.status < 500
