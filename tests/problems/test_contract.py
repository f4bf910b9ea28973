"""What every kind of problem must keep, whichever it is: a forgotten part fails here."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
import rfc8785
from pydantic import TypeAdapter

from discreet import problems
from discreet.api.app import create_app
from discreet.errors import InvalidInput
from discreet.isolation.solving import encode
from discreet.privacy.noise import Noise
from discreet.privacy.units import Price
from discreet.problems import reuse
from discreet.problems.base import ALWAYS, Neighbours, Problem, read_example, rehearse
from discreet.problems.contents import Content, canonical_bytes, pack, unpack
from discreet.problems.federation import FederatedProblem
from discreet.problems.numbers import Budget
from discreet.problems.results import Result, ResultFields, properties_of
from discreet.settings import Settings
from discreet.usecases.requests import DatasetRequest, JobRequest
from tests.conftest import worst_cases

KINDS = sorted(problems.KINDS)
WITH_DATASETS = sorted(problems.DATASETS)
ROOT = Path(__file__).parents[2]


def example(kind: str) -> tuple[Problem, Any, Content, Budget]:
    """Problem, public part and content of its dataset, budget; the middle two are None and empty
    where it has none."""
    problem, dataset, budget = read_example(problems.KINDS[kind])
    if dataset is None:
        return problem, None, {}, budget
    return problem, dataset.public, dataset.rows(), budget


def test_every_folder_is_registered() -> None:
    """A folder of `problems` stands in KINDS under its own literal, and in the union."""
    folders = {
        path.parent.name for path in (ROOT / "service/discreet/problems").glob("*/problem.py")
    }
    assert folders == set(KINDS)
    for union, registered in (
        (problems.AnyProblem, problems.KINDS),
        (problems.AnyDataset, problems.DATASETS),
    ):
        members = get_args(union)[0]
        assert set(get_args(members) or [members]) == set(registered.values())
    for name, kind in problems.KINDS.items():
        assert get_args(kind.model_fields["kind"].annotation) == (name,)
        assert kind.title


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_page(kind: str) -> None:
    page = (ROOT / "docs" / "problems" / f"{kind}.md").read_text()
    for part in ("## Neighbours", "## Mechanism", "## Result"):
        assert part in page


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_runs(kind: str) -> None:
    result = rehearse(problems.KINDS[kind])
    body, _ = encode(result.to_json(), result.tables(every=True))
    assert body == rfc8785.dumps(
        json.loads(body)
    )  # the digest of these bytes is that of the canonical result
    assert result.to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_the_price_fits_the_budget_and_follows_from_the_events(kind: str) -> None:
    problem, public, _, budget = example(kind)
    plan = problem.plan(public, budget)
    assert plan.total == sum((event.price() for event in plan.events), Price.zero())
    assert plan.total.epsilon <= budget.epsilon
    assert plan.total.delta <= budget.delta
    assert type(plan).model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize("kind", KINDS)
def test_finish_depends_on_what_was_released_alone(kind: str) -> None:
    """The same released bytes give the same result; `finish` is given nothing else that could tell
    about the data."""
    problem, public, content, budget = example(kind)
    plan = problem.plan(public, budget)
    released = pack(problem.release(public, plan, content, Noise.seeded(1)))
    steps: list[tuple[int, int]] = []
    first = problem.finish(
        public, plan, unpack(released), lambda *step: steps.append(step)
    ).to_json()
    assert problem.finish(public, plan, unpack(released), lambda *step: None).to_json() == first
    assert all(0 < step <= total == plan.resources.steps for step, total in steps)
    parameters = inspect.signature(problem.finish).parameters
    assert list(parameters) == ["public", "plan", "released", "progress"]
    assert list(inspect.signature(problem.plan).parameters) == ["public", "budget"]


@pytest.mark.parametrize("kind", WITH_DATASETS)
def test_two_releases_differ(kind: str) -> None:
    problem, public, content, budget = example(kind)
    plan = problem.plan(public, budget)
    # Ten, since two of routing's two counts with noise of scale 10 may be equal: of ten all are
    # with probability 1e-11 at most, as the likeliest noise of a count has tanh(1/20) < 0.05.
    assert (
        len({pack(problem.release(public, plan, content, Noise.secure())) for _ in range(10)}) > 1
    )
    seeded = [pack(problem.release(public, plan, content, Noise.seeded(3))) for _ in range(2)]
    assert seeded[0] == seeded[1]


@pytest.mark.parametrize("kind", WITH_DATASETS)
def test_private_fields_are_marked(kind: str) -> None:
    """`content` is the one private field of a dataset, and it says so in the schema; a job has
    none."""
    schema = DatasetRequest.model_json_schema()["$defs"][problems.DATASETS[kind].__name__][
        "properties"
    ]
    assert {name for name, field in schema.items() if field.get("x-private")} == {"content"}
    assert "x-private" not in str(JobRequest.model_json_schema())
    assert problems.DATASETS[kind].model_fields["content"].json_schema_extra == {"x-private": True}


@pytest.mark.parametrize("kind", WITH_DATASETS)
def test_the_digest_sees_content_only(kind: str) -> None:
    _, _, content, _ = example(kind)
    assert b"".join(canonical_bytes(content)) == b"".join(canonical_bytes(unpack(pack(content))))


@pytest.mark.parametrize("kind", WITH_DATASETS)
def test_registration_publishes_nothing_of_a_content(kind: str) -> None:
    """What is not given of the public part is not taken from the data, but whether rows of
    trajectories have probabilities, which their columns say."""
    model = problems.DATASETS[kind]
    _, example, _ = read_example(problems.KINDS[kind])
    assert example is not None
    found = [(example.public, example.rows())]
    for given, columns in model.sample_tables():
        public = model.read_public(given)
        with contextlib.suppress(InvalidInput):  # some are samples of what is refused
            found.append((public, model.read_table(public, pa.table(columns))))
    for public, content in found:
        before, after = (
            one.model_dump(mode="json") for one in (public, model.describe(public, content))
        )
        changed = {name for name in after if before.get(name) != after[name]}
        assert changed <= {"off_policy"}


@pytest.mark.parametrize("kind", WITH_DATASETS)
def test_a_budget_of_the_least_epsilon_is_planned_or_refused_by_name(kind: str) -> None:
    problem, public, _, _ = example(kind)
    try:
        epsilon, pointer = problem.plan(public, Budget(epsilon=1, delta=0)).total.epsilon, ""
    except InvalidInput as refused:
        epsilon, pointer = 0, refused.issues[0].pointer
    assert epsilon == 1 or pointer.startswith("/privacy")


@pytest.mark.parametrize("kind", WITH_DATASETS)
def test_a_plan_means_the_same_when_its_objects_lose_their_order(kind: str) -> None:
    """Plans are stored as jsonb, which sorts keys: nothing may go by the order of an object's
    fields."""
    problem, public, content, budget = example(kind)
    plan = problem.plan(public, budget)
    stored = json.loads(json.dumps(json.loads(plan.model_dump_json()), sort_keys=True))
    mixed = type(plan).model_validate(dict(reversed(stored.items())))
    mixed = mixed.model_copy(update={"parameters": dict(reversed(mixed.parameters.items()))})
    same = [pack(problem.release(public, each, content, Noise.seeded(4))) for each in (plan, mixed)]
    assert same[0] == same[1]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(WITH_DATASETS)))
def test_a_kind_without_datasets_says_what_protects_the_data(kind: str) -> None:
    """Its certificate has a section `cryptographic`, and no two runs have the same messages,
    whatever the seed."""
    problem, public, content, budget = example(kind)
    plan = problem.plan(public, budget)
    found = []
    for _ in range(2):
        released = problem.release(public, plan, content, Noise.seeded(3))
        result = problem.finish(public, plan, released, lambda *step: None).to_json()
        found.append(problem.evidence(plan, json.dumps(result).encode()))
    first, second = found
    assert first is not None
    assert second is not None
    assert first["type"] == "cryptographic"
    assert {"agents", "operator"} <= first["reveals"].keys()
    assert first["transcript"] != second["transcript"]


# What is published of a kind's results and of its requests ----------------------------------------

CASES = [
    pytest.param(kind, place, id=f"{kind}-{place}")
    for kind in WITH_DATASETS
    for place in range(1 + len(worst_cases(kind)))
]
NOT_ASKED = {"kind", "dataset", "asked_of", "source", "masks", "colluding"} | (
    FederatedProblem.model_fields.keys() - Problem.model_fields.keys()
)
"""What a request says of where the data are, and how agents meet: nothing that a release could
fix."""


def case(kind: str, place: int) -> Neighbours:
    """A release of every method and unit of a kind: its worst cases, and then its example."""
    cases = worst_cases(kind)
    if place < len(cases):
        return cases[place]
    problem, public, content, budget = example(kind)
    return Neighbours("example", problem, public, problem.plan(public, budget), content, content)


def finished(one: Neighbours, *, simulated: bool = False) -> Result:
    released = one.problem.release(one.public, one.plan, one.left, Noise.seeded(1))
    if simulated:
        released |= one.problem.diagnose(one.public, one.plan, one.left, Noise.seeded(1))
    return one.problem.finish(one.public, one.plan, released, lambda *step: None)


def check_fields(kind: str, result: Result) -> set[str]:
    """A result has the fields that its kind declares, of the types that it says, and the tables."""
    fields = problems.KINDS[kind].Fields
    body = json.loads(json.dumps(result.to_json()))
    TypeAdapter(fields).validate_python(body, strict=True, extra="forbid")
    properties = properties_of(fields)
    tables = {name: table.column_names for name, table in result.tables(every=True).items()}
    assert tables == {
        name: properties[name]["x-table"] for name in body if "x-table" in properties[name]
    }
    for name, columns in tables.items():
        if "$ref" not in properties[name]["items"]:  # an array: its axes, then the number
            assert (
                np.array(body[name]).ndim
                == len(columns) - 1
                == str(properties[name]).count("'items'")
            )
    return body.keys() - {"tables"}


def asked_otherwise(cases: list[Neighbours]) -> Iterator[Neighbours]:
    """The first of them with another value of each field that is free to ask again."""
    one = cases[0]
    free = one.problem.free(one.public)
    for name, update in one.problem.alternative_values(one.public).items():
        if name in free:
            other = type(one.problem).model_validate(
                {**one.problem.model_dump(mode="json"), **update}
            )
            budget = Budget(epsilon=one.plan.total.epsilon, delta=one.plan.total.delta)
            yield replace(one, problem=other, plan=other.plan(one.public, budget))


def on_equal_roads(one: Neighbours) -> Neighbours:
    """A routing case where nothing says which of two roads is taken."""
    link = {"free_flow_time": 1, "capacity": 100, "b": 0, "power": 0}
    ways = [{**link, "tail": tail, "head": head} for tail, head in ((1, 2), (1, 2), (2, 1))]
    asked = {"network": {"nodes": 2, "links": ways}, "latency": {"type": "bpr"}}
    other = type(one.problem).model_validate({**one.problem.model_dump(mode="json"), **asked})
    budget = Budget(epsilon=100 * 10**9, delta=0)  # so that there are trips at all
    return replace(one, problem=other, plan=other.plan(one.public, budget))


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_what_the_kind_declares(kind: str) -> None:
    """Over all methods, in private and in simulation: nothing else, and nothing declared that never
    comes."""
    fields = problems.KINDS[kind].Fields
    properties = properties_of(fields)
    if kind in WITH_DATASETS:
        cases = [case(kind, place) for place in range(1 + len(worst_cases(kind)))]
        if "network" in problems.KINDS[kind].model_fields:
            cases.append(on_equal_roads(cases[0]))
    else:
        problem, public, content, budget = example(kind)
        cases = [
            Neighbours("example", problem, public, problem.plan(public, budget), content, content)
        ]
    private = set().union(
        *(check_fields(kind, finished(one)) for one in [*cases, *asked_otherwise(cases)])
    )
    simulated = set().union(*(check_fields(kind, finished(one, simulated=True)) for one in cases))
    for name in simulated - private:
        assert "for simulations" in properties[name]["description"]
    federated = {
        name
        for name in properties
        if "of protocol federated" in properties[name].get("description", "")
    }
    several = {
        name
        for name in properties
        if "For several releases" in properties[name].get("description", "")
    }
    assert private | simulated | federated | several | {"tables"} == properties.keys()
    assert all(properties[name].get("description") for name in properties)
    always = set(TypeAdapter(fields).json_schema()["required"])
    for one in cases:
        assert always <= finished(one).to_json().keys()
    assert not any(
        "x-table" in properties[name] for name in always
    )  # what may be a table may be left out


@pytest.mark.parametrize("kind", KINDS)
def test_the_contract_and_the_page_have_the_fields(kind: str) -> None:
    problem = problems.KINDS[kind]
    assert problem.Fields is not ResultFields
    published = create_app(Settings()).openapi()["components"]["schemas"]
    declared = json.loads(
        json.dumps(properties_of(problem.Fields)).replace("#/$defs/", "#/components/schemas/")
    )
    reference = published["Results"]["properties"][kind]["$ref"]
    assert published[reference.rpartition("/")[2]]["properties"] == declared
    request = published[problem.__name__]["properties"]
    marked = {
        name: said["x-asked-again"] for name, said in request.items() if "x-asked-again" in said
    }
    assert marked == problem.asked_again
    page = (ROOT / "docs" / "problems" / f"{kind}.md").read_text()
    missing = [name for name in declared if f"`{name}" not in page and name != "tables"]
    assert not missing


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_what_may_be_asked_again_was_not_fixed_at_the_release(kind: str, place: int) -> None:
    """A free field with another value: the same plan of mechanisms, and the same release is
    finished with it. A fixed one: another plan, another release, or no such problem."""
    one = case(kind, place)
    problem, public, plan = one.problem, one.public, one.plan
    free, others = problem.free(public), problem.alternative_values(public)
    assert others.keys() == type(problem).model_fields.keys() - NOT_ASKED

    def releases(by: Problem) -> list[bytes]:
        return [
            pack(by.release(public, plan, content, Noise.seeded(1)))
            for content in (one.left, one.right)
        ]

    released = releases(problem)
    budget = Budget(
        epsilon=plan.total.epsilon, delta=plan.total.delta
    )  # what was paid may be less than was asked for
    repeated, body = problem.plan(public, budget), problem.model_dump(mode="json")
    for name, update in others.items():
        assert update[name] != body[name], name
        try:
            other = type(problem).model_validate({**body, **update})
            again = other.plan(public, budget)
        except InvalidInput:
            assert name not in free, name
            continue
        same = (again.events, again.parameters) == (repeated.events, repeated.parameters)
        same = same and releases(other) == released
        assert same == (name in free), name
        if same:
            check_fields(kind, other.finish(public, again, unpack(released[0]), lambda *step: None))


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_asked_again_is_said_where_it_holds(kind: str) -> None:
    problem = problems.KINDS[kind]
    assert problem.asked_again.keys() <= problem.model_fields.keys() - NOT_ASKED
    found = [one.problem.free(one.public) for one in worst_cases(kind)]
    for name, when in problem.asked_again.items():
        where = [name in free for free in found]
        assert all(where) if when == ALWAYS else any(where) > all(where)
    assert set().union(*found) <= problem.asked_again.keys()


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_several_releases_are_finished_as_their_mean(kind: str, place: int) -> None:
    """Of the same sums once with the plan's noise and once with twice that: weights 4 to 1, and so
    much less noise."""
    one = case(kind, place)
    plan, names = one.plan, one.problem.noised_sums(one.plan)
    louder = plan.model_copy(
        update={"events": tuple(event.less_noise(0.5) for event in plan.events)}
    )
    parts = [
        one.problem.release(one.public, made, one.left, Noise.seeded(2)) for made in (plan, louder)
    ]
    if not names:  # two such releases have no mean that means anything
        return
    (event,) = plan.events
    assert set(parts[0]) == names
    shares = reuse.weights([plan, louder])
    assert shares == pytest.approx([0.8, 0.2], rel=0.1)  # discrete noise is not quite of its scale
    together = reuse.combine(one.problem, plan, list(zip(shares, parts, strict=True)))
    for name in names:
        assert together[name] == pytest.approx(
            shares[0] * parts[0][name] + shares[1] * parts[1][name]
        )
    asked = reuse.plan_of(one.problem, one.public, [louder, plan], ["job_a", "job_b"])
    assert asked.events[0].scale == pytest.approx(event.scale * shares[0] ** 0.5)
    assert asked.events[0].deviation() == pytest.approx(
        event.deviation() * shares[0] ** 0.5, rel=0.1
    )
    assert asked.total == Price.zero()
    assert type(asked).model_validate_json(asked.model_dump_json()) == asked
    gain = reuse.gain(asked, shares)
    assert gain["least_alone"] == pytest.approx(plan.noise[0].standard_deviation)
    assert gain["standard_deviation"] == pytest.approx(
        plan.noise[0].standard_deviation * shares[0] ** 0.5
    )
    result = one.problem.finish(one.public, asked, together, lambda *step: None).beside(
        "combined", gain
    )
    check_fields(kind, result)


# Whole kinds --------------------------------------------------------------------------------------

QUOTED = re.compile(rf"""["'`]({"|".join(KINDS)})["'`]""")
MADE = "Made from openapi/openapi.json by `make sdk`"


def kinds_named_in(path: Path) -> list[str]:
    """Kinds that a file names in a text or as a keyword, alone: to choose by, or as a key of a
    table."""
    text = path.read_text()
    if MADE in text:
        return []
    if path.suffix != ".py":
        return QUOTED.findall(text)
    if not any(kind in text for kind in KINDS):
        return []
    nodes = list(ast.walk(ast.parse(text)))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [
        name
        for name in [*texts, *(node.arg for node in nodes if isinstance(node, ast.keyword))]
        if name in KINDS
    ]


def test_nothing_is_chosen_by_a_kind_outside_its_folder() -> None:
    """Neither service nor SDKs name a kind: what differs from kind to kind is asked of the kind, or
    of the contract.

    Each study of a paper is of one kind; its folder and the registry name it, and so do an SDK's
    own tests, and the registry of the client's readers with what they propose: what tables a field
    keeps is of its kind alone.
    """
    service, clients = ROOT / "service/discreet", ROOT / "clients"
    own = (
        *(service / "problems" / kind for kind in KINDS),
        service / "reproduce",
        service / "problems/__init__.py",
    )
    package = clients / "python/discreet_client"
    readers = (package / "readers.py", package / "proposals.py")
    apart = (
        *own,
        *readers,
        clients / "typescript/test",
        clients / "typescript/node_modules",
        clients / "typescript/src/schema.d.ts",
    )
    files = [
        path
        for top in (
            service,
            clients / "agent",
            clients / "python",
            clients / "typescript/src",
        )
        for path in top.rglob("*")
        if path.suffix in (".py", ".ts", ".html", ".js")
        and not any(path.is_relative_to(one) for one in apart)
    ]
    assert len(files) > 200
    assert {
        str(path.relative_to(ROOT)): named for path in files if (named := kinds_named_in(path))
    } == {}
    assert set(KINDS) <= set(
        kinds_named_in(service / "problems/__init__.py")
    )  # it sees what is there


CHOSEN = re.compile(r"\bkind\s*(==|!=|in\b|not\b|is\b|<|>)|(==|!=|\bin|\bis|\bnot|<|>)\s*kind\b")
"""What a comparison of `kind` looks like: other files need not be parsed."""


def test_tests_choose_nothing_by_a_kind() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        if CHOSEN.search(text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        and any(
            isinstance(side, ast.Name) and side.id == "kind"
            for side in (node.left, *node.comparators)
        )
        and any(
            isinstance(side, ast.Constant) and side.value in KINDS
            for side in (node.left, *node.comparators)
        )
    ]
    assert not found, "\n".join(found)
