"""The randomness of the children that really run: audits draw from a noise of their own.

The child's step runs here, on words of the operating system that this test made up. What it
releases must be a function of these words and of nothing else that is drawn, of as many of them as
a key has, and of more than the first few: a seed of 20 bits could be tried by anybody.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
import pytest

from discreet.isolation import solving, summing
from discreet.isolation.frames import receive
from discreet.isolation.tasks import Task
from discreet.problems import KINDS
from discreet.problems.base import read_example
from discreet.problems.contents import framed, pack
from discreet.problems.numbers import Budget

KEY_BYTES = 16
FEW_BYTES = 4
CASES = {
    "routing, counts": ("routing", {}),
    "dr_ensemble": ("dr_ensemble", {}),
    "multi_agent": ("multi_agent", {}),
    **{
        f"off_policy_evaluation, {method}": ("off_policy_evaluation", {"method": method, **more})
        for method, more in {
            "moments": {},
            "minibatch": {"steps": 20},
            "gradient": {"steps": 20},
        }.items()
    },
    "off_policy_evaluation, minibatch, replaced": (
        "off_policy_evaluation",
        {"method": "minibatch", "steps": 20},
    ),
}


class Words:
    """What stands in for the operating system; from byte `changed` on the words are others."""

    def __init__(self, changed: int | None = None) -> None:
        self.asked, self._changed = 0, changed
        self._first, self._second = (np.random.default_rng(seed) for seed in (1, 2))

    def __call__(self, count: int) -> bytes:
        first, second = self._first.bytes(count), self._second.bytes(count)
        begin, self.asked = self.asked, self.asked + count
        same = count if self._changed is None else max(0, min(count, self._changed - begin))
        return first[:same] + second[same:]


def released(
    monkeypatch: pytest.MonkeyPatch, name: str, words: Words, *, shares: bool = False
) -> bytes:
    kind, asked = CASES[name]
    model = KINDS[kind]
    _, dataset, _ = read_example(model)
    assert dataset is not None
    public, content = dataset.public, dataset.rows()
    example = {**model.example()["problem"], "dataset": "dst_x", **asked}
    problem = model.model_validate(example)
    if name.endswith(("gradient", "replaced")):
        number = int(content["start"].size - 1)
        public = public.model_copy(update={"trajectories": number, "max_trajectories": None})
    plan = problem.plan(public, Budget(epsilon=10**9, delta=10**12))
    header: dict[str, Any] = {
        "step": "release",
        "kind": kind,
        "problem": problem.model_dump(mode="json"),
        "public": public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "block": None,
        "simulation": False,
        "seed": None,
    }
    payload = pack(content)
    if shares:
        header["shares"] = 1
        payload = framed([pack(problem.part_sums(public, plan, content))])
    ours, theirs = socket.socketpair()
    with ours, theirs, monkeypatch.context() as patch:
        patch.setattr(os, "urandom", words)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        solving.STEPS["release"](Task(theirs, header, payload, ()))
        answer, body = receive(ours)
    assert answer == {"done": True}
    return bytes(body)


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_a_function_of_the_operating_systems_words(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    released(monkeypatch, name, Words())  # kernels are saved, by numba, under names that are drawn
    words = Words()
    one = released(monkeypatch, name, words)
    assert words.asked >= KEY_BYTES
    assert released(monkeypatch, name, Words()) == one, "something else was drawn from"
    assert released(monkeypatch, name, Words(changed=FEW_BYTES)) != one, "few bytes decide all"


def test_so_it_is_for_sums_of_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "routing, counts"
    one = released(monkeypatch, name, Words(), shares=True)
    assert released(monkeypatch, name, Words(), shares=True) == one
    assert released(monkeypatch, name, Words(changed=FEW_BYTES), shares=True) != one
    assert one == released(monkeypatch, name, Words()), "noise meets both in the same way"


def test_a_session_has_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed is a simulation's: without one, none is made up."""
    words = Words()
    monkeypatch.setattr(os, "urandom", words)
    summing.noise_of(simulation=False, seed=None).generator()
    assert words.asked >= KEY_BYTES
    drawn = [summing.noise_of(simulation=True, seed=7).generator().random() for _ in range(2)]
    assert drawn[0] == drawn[1]
