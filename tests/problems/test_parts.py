"""Parts of contents: no unit is cut, and sums of any parts are those of the whole, to the bit."""

from __future__ import annotations

import io
import random
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.isolation import summing
from discreet.isolation.spooled import in_memory
from discreet.privacy.noise import Noise
from discreet.problems import KINDS
from discreet.problems.base import Problem
from discreet.problems.contents import Content, framed, pack
from discreet.problems.numbers import Privacy
from discreet.problems.parts import StoredContent, SumsOverParts, add, share_of
from discreet.problems.plans import Plan
from discreet.problems.routing.counts_plan import counts_plan
from discreet.problems.routing.request import RoutingRequest

PEOPLE = 60


def trips(unit: str, **public: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    rows = [
        {
            "period": int(rng.integers(2)),
            "origin": int(rng.integers(1, 4)),
            "destination": int(rng.integers(1, 4)),
            "count": int(rng.integers(1, 30)),
            **({"person": int(rng.integers(PEOPLE))} if unit == "person" else {}),
            **(
                {"user_class": str(rng.choice(["car", "truck"]))}
                if "user_classes" in public
                else {}
            ),
        }
        for _ in range(300)
    ]
    return {
        "kind": "routing",
        "public": {"unit": unit, "zones": 3, "periods": 2, "period_minutes": 60, **public},
        "content": {"trips": rows},
    }


def loads(**public: Any) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    length = public.get("steps")
    series = [
        rng.integers(3, size=length or int(rng.integers(2, 40))).tolist() for _ in range(PEOPLE)
    ]
    return {
        "kind": "dr_ensemble",
        "public": {"unit": "participant", "states": 3, **public},
        "content": {"trajectories": series},
    }


def episodes(*, states: int | None, off_policy: bool, **public: Any) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    rows = []
    for person in range(PEOPLE):
        length = int(rng.integers(1, 8))
        for step in range(length):
            row: dict[str, Any] = {
                "trajectory": person,
                "step": step,
                "reward": float(rng.uniform(-1, 1)),
                "terminal": step == length - 1,
            }
            if states is None:
                row |= {"x": rng.uniform(size=2).tolist(), "x_next": rng.uniform(size=2).tolist()}
            else:
                row |= {name: int(rng.integers(states)) for name in ("state", "next_state")}
            if off_policy:
                row |= {name: float(rng.uniform(0.1, 1)) for name in ("behaviour", "target")}
            rows.append(row)
    shape = {"features": 2} if states is None else {"states": states}
    return {
        "kind": "off_policy_evaluation",
        "public": {"unit": "trajectory", "reward_bound": 1, "horizon": 8, **shape, **public},
        "content": {"transitions": rows},
    }


def asked_of(kind: str) -> dict[str, Any]:
    """What the example of a kind asks, of any dataset."""
    problem: dict[str, Any] = KINDS[kind].example()["problem"]
    return {name: value for name, value in problem.items() if name != "dataset"}


ROUTED, STEERED = asked_of("routing"), asked_of("dr_ensemble")
EVALUATED = {"kind": "off_policy_evaluation", "discount": 0.9}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "requests": (trips("request"), ROUTED),
    "requests in classes": (trips("request", user_classes=["car", "truck"]), ROUTED),
    "persons": (trips("person"), {**ROUTED, "max_trips_per_person": 4}),
    "persons by norm": (
        trips("person"),
        {**ROUTED, "max_trips_per_person": 40, "max_norm_per_person": 6},
    ),
    "loads": (loads(), STEERED),
    "clipped loads": (loads(participants=PEOPLE, steps=12), {**STEERED, "clip": 0.4}),
    "tabular moments": (
        episodes(states=4, off_policy=True),
        {**EVALUATED, "method": "moments", "max_importance": 3},
    ),
    "stacked moments": (
        episodes(states=None, off_policy=True),
        {**EVALUATED, "method": "moments", "max_importance": 3, "clip": 0.05}
        | {"features": {"type": "identity", "bound": 2.0}},
    ),
    "importance sampling": (
        episodes(states=4, off_policy=True, trajectories=PEOPLE),
        {**EVALUATED, "method": "importance_sampling"},
    ),
    "importance sampling of a private number": (
        episodes(states=4, off_policy=True),
        {**EVALUATED, "method": "importance_sampling"},
    ),
    "per decision of a private number": (
        episodes(states=4, off_policy=True),
        {**EVALUATED, "method": "per_decision"},
    ),
    "per decision": (
        episodes(states=4, off_policy=True, trajectories=PEOPLE),
        {**EVALUATED, "method": "per_decision", "max_importance": 4},
    ),
}


def opened(name: str) -> tuple[Problem, Any, Plan, Content]:
    return prepared(*CASES[name])


def prepared(
    given_data: dict[str, Any], asked: dict[str, Any], epsilon: float = 1
) -> tuple[Problem, Any, Plan, Content]:
    kind = KINDS[given_data["kind"]]
    assert kind.Dataset is not None
    body = {"name": "parts", "cap": {"epsilon": 100, "delta": 1e-3}, **given_data}
    dataset = kind.Dataset.model_validate(body).described()
    problem = kind.model_validate({**asked, "dataset": "example"})
    budget = problem.budget(Privacy.model_validate({"epsilon": epsilon, "delta": 1e-6}))
    return problem, dataset.public, problem.plan(dataset.public, budget), dataset.rows()


def stored(problem: Problem, content: Content) -> StoredContent:
    assert problem.Dataset is not None
    return StoredContent(partial(io.BytesIO, pack(content)), problem.Dataset.RECORDS)


def units_of(problem: Problem, content: Content) -> list[bytes]:
    """Each unit's rows, of a content that is read in parts or as a whole."""
    assert problem.Dataset is not None
    arrays = {name: content[name] for name in sorted(content) if name != problem.Dataset.RECORDS}
    rows = len(next(iter(arrays.values())))
    start = content.get(problem.Dataset.RECORDS, np.arange(rows + 1))
    return [
        b"".join(array[first:last].tobytes() for array in arrays.values())
        for first, last in pairwise(start.tolist())
    ]


@pytest.mark.parametrize("name", CASES)
def test_sums_of_parts_are_those_of_the_whole(name: str) -> None:
    """In any number of shares, parts of any size and any order, of one content or of several."""
    problem, public, plan, content = opened(name)
    assert plan.parts_by is not None
    released = problem.release(public, plan, content, Noise.seeded(9))
    shown = problem.diagnose(public, plan, content, Noise.seeded(9))
    whole = problem.part_sums(public, plan, content)
    assert any(sums.any() for sums in whole.values())
    rng = random.Random(name)
    for shares, part_bytes in ((1, 1), (2, 100), (3, 1 << 20), (4, 400), (7, 1), (90, 64)):
        number = rng.randint(1, 3)
        contents = [partial(stored, problem, content)] * number
        parts = [
            part
            for share in range(shares)
            for part in share_of(contents, share, shares, part_bytes)
        ]
        units = sorted(unit for part in parts for unit in units_of(problem, part))
        assert units == sorted(units_of(problem, content) * number), "every unit once, as a whole"
        rng.shuffle(parts)
        total, diagnosed = dict[str, Any](), dict[str, Any]()
        for part in parts:
            add(total, problem.part_sums(public, plan, part))
            add(diagnosed, problem.diagnose(public, plan, part, Noise.seeded(0)))
        assert pack(total) == pack({one: sums * number for one, sums in whole.items()})
        assert pack(diagnosed) == pack({one: sums * number for one, sums in shown.items()})
        if number == 1:
            again = problem.release_sums(public, plan, total, Noise.seeded(9))
            assert pack(again) == pack(released), "and the noise is drawn once, as of the whole"


@pytest.mark.parametrize("name", CASES)
def test_parts_without_records_add_nothing(name: str) -> None:
    problem, public, plan, content = opened(name)
    (part,) = stored(problem, content).parts(0, 0, 1 << 20)
    assert units_of(problem, part) == []
    sums = problem.part_sums(public, plan, part)
    assert {one: each.shape for one, each in sums.items()} == {
        one: each.shape for one, each in problem.part_sums(public, plan, content).items()
    }
    assert not any(each.any() for each in sums.values())


CHOSEN = [name for name in CASES if name.endswith("private number")]


@pytest.mark.parametrize("name", CHOSEN)
def test_clips_are_chosen_once_of_the_sums_of_all_parts(name: str) -> None:
    """By the child that adds noise, whatever the shares: so much is spent here that not one clip
    alone is drawn."""
    problem, public, plan, content = prepared(*CASES[name], epsilon=10)
    assert isinstance(problem, SumsOverParts)
    header = {
        "kind": "off_policy_evaluation",
        "problem": problem.model_dump(mode="json"),
        "public": public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "simulation": False,
        "part_bytes": 200,
    }
    places = set()
    with in_memory(pack(content)) as (place, descriptor):
        header["contents"] = [place]
        for seed in range(10):
            shares = [
                summing.sums_of_share({**header, "share": [one, 3]}, descriptor) for one in range(3)
            ]
            noise = Noise.seeded(seed)
            released = summing.release_of_shares(header, framed(map(pack, shares)), noise)
            assert pack(released) == pack(
                problem.release(public, plan, content, Noise.seeded(seed))
            )
            places.add(int(released["clip"][0]))
    assert len(places) > 1


@given(
    lengths=st.lists(st.integers(1, 9), max_size=30),
    shares=st.integers(1, 6),
    part_bytes=st.integers(1, 300),
)
def test_cuts_lie_between_units(lengths: list[int], shares: int, part_bytes: int) -> None:
    start = np.cumsum([0, *lengths])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    content = {"rows": rows, "start": start}
    open_again = partial(StoredContent, partial(io.BytesIO, pack(content)), "start")
    found = []
    for share in range(shares):
        for part in share_of([open_again], share, shares, part_bytes):
            assert part["start"][0] == 0
            assert part["start"][-1] == part["rows"].size
            assert (np.diff(np.flatnonzero(np.diff(part["rows"], prepend=-1))) > 0).all()
            whole = {int(unit): lengths[unit] for unit in part["rows"]}
            assert sum(whole.values()) == part["rows"].size, "no unit is in two parts"
            longest = max(whole.values(), default=0)
            assert 8 * part["rows"].size <= max(part_bytes, 8) + 8 * longest
            found.append(part["rows"])
    assert np.concatenate(found).tolist() == rows.tolist()


def test_what_is_no_canonical_content_is_refused() -> None:
    good = {"rows": np.arange(6), "start": np.array([0, 2, 6])}
    for wrong in (
        {**good, "start": np.array([0, 2, 5])},
        {**good, "other": np.arange(5)},
        {**good, "rows": np.asfortranarray(np.ones((6, 2)))},
    ):
        with pytest.raises(ValueError, match="rows"):
            StoredContent(partial(io.BytesIO, pack(wrong)), "start")
    with pytest.raises(EOFError):
        next(StoredContent(partial(Short, pack(good)), "start").parts(0, 6, 1 << 20))


class Short(io.BytesIO):
    """A file that ends early once it is read for its rows."""

    def readinto(self, buffer: Any) -> int:
        return 0


def test_only_integers_are_added() -> None:
    """Sums of floats would go by the order of the parts."""
    with pytest.raises(TypeError, match="integers"):
        add({}, {"sums": np.ones(2)})


def test_sums_that_wrap_do_so_in_any_order() -> None:
    most = np.array([np.iinfo(np.int64).max])
    parts = [{"sums": most}, {"sums": most}, {"sums": -most}, {"sums": np.array([3])}]
    found = set()
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        total = dict[str, Any]()
        for place in order:
            add(total, parts[place])
        found.add(int(total["sums"][0]))
    assert len(found) == 1


def test_plans_say_what_is_never_divided() -> None:
    """And what is no sum is read as a whole."""
    for name, unit in (("requests", "request"), ("persons", "person"), ("loads", "participant")):
        assert opened(name)[2].parts_by == unit
    for data, asked in (
        (
            trips("request", max_total=10**6, max_pair=10**5),
            {**ROUTED, "method": "gradient", "regularization": 0.1},
        ),
        (episodes(states=4, off_policy=False), {**EVALUATED, "method": "dp_lsw"}),
    ):
        _, _, plan, _ = prepared(data, asked)
        assert plan.parts_by is None, plan.parameters["method"]


@pytest.mark.parametrize("unit", ["request", "person"])
def test_sums_too_large_for_several_children_are_made_by_one(unit: str) -> None:
    """By public figures alone: whether the sums of all children fit into memory must not depend on
    how large the content is."""
    data = trips(unit, user_classes=[f"class {number}" for number in range(8)])
    data["content"]["trips"] = [
        {**trip, "user_class": "class 1"} for trip in data["content"]["trips"]
    ]
    asked = {**ROUTED, **({"max_trips_per_person": 4} if unit == "person" else {})}
    problem, public, plan, _ = prepared(data, asked)
    assert plan.parts_by == unit
    assert isinstance(problem, RoutingRequest)
    budget = problem.budget(Privacy.model_validate({"epsilon": 1, "delta": 1e-6}))
    for zones, parts_by in ((1400, unit), (1500, None), (3000, None)):
        larger = public.model_copy(update={"zones": zones})
        assert counts_plan(problem, larger, budget).parts_by == parts_by
