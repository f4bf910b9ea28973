"""Wrong fields are named by a pointer, once, in a sentence that says what is needed."""

from __future__ import annotations

import copy
import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from discreet.errors import InvalidInput
from discreet.intake import items
from discreet.intake.field_issues import issues_of
from discreet.intake.items import InPieces
from discreet.intake.strict_json import loads
from discreet.problems import KINDS
from discreet.usecases.requests import DatasetRequest, JobRequest, KeyRequest, WebhookRequest
from discreet.web.bodies import validate
from tests.growth import LINEAR, growth

JOB: TypeAdapter[Any] = TypeAdapter(JobRequest)
DATASET: TypeAdapter[Any] = TypeAdapter(DatasetRequest)
GONE = object()
THEIRS = ("Input", "should", "valid ", "instance", "Tuple")
"""Words of pydantic's sentences."""


def refused(adapter: TypeAdapter[Any], body: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as error:
        validate(adapter, body)
    found = {issue.pointer: issue.detail for issue in error.value.issues}
    assert len(found) == len(error.value.issues)
    return found


def with_value(body: Any, path: str, value: Any) -> Any:
    """A copy of the body with another value at this path, or without it."""
    body = copy.deepcopy(body)
    *before, last = path.split("/")
    here = body
    for part in before:
        here = here[int(part) if isinstance(here, list) else part]
    if value is GONE:
        del here[last]
    else:
        here[int(last) if isinstance(here, list) else last] = value
    return body


def body_of(kind: str) -> Any:
    """The example of a kind as it is submitted."""
    body = KINDS[kind].example()
    if "dataset" in body["problem"]:
        body["problem"]["dataset"] = "dst_1"
    return body


LINK = "problem/network/links/0"


@pytest.mark.parametrize(
    ("kind", "path", "value", "issues"),
    [
        ("routing", "problem", [], {"/problem": "a JSON object is needed; found an array"}),
        (
            "routing",
            "problem/kind",
            GONE,
            {"/problem/kind": "this field is needed: one of 'coupled_qp', "},
        ),
        ("routing", "problem/kind", "rooting", {"/problem/kind": "must be one of 'routing', "}),
        ("routing", "problem/network", GONE, {"/problem/network": "this field is needed"}),
        (
            "dr_ensemble",
            "problem/initial",
            GONE,
            {"/problem/initial": "this field is needed: Distribution of the loads over the states"},
        ),
        (
            "dr_ensemble",
            "problem/initial",
            GONE,
            {"/problem/initial": '(for example "released")'},
        ),
        (
            "off_policy_evaluation",
            "problem/discount",
            GONE,
            {"/problem/discount": "Weight of a reward one step later relative to one now (for "},
        ),
        ("routing", "problem/objektive", 1, {"/problem/objektive": "did you mean `objective`?"}),
        (
            "routing",
            f"{LINK}/length",
            1,
            {f"/{LINK}/length": "the fields are b, capacity, fixed_cost, free_flow_time, head"},
        ),
        (
            "routing",
            "problem/latency",
            {"type": "bpr", "factor": 1},
            {"/problem/latency/factor": "b, power, type"},
        ),
        (
            "routing",
            f"{LINK}/capacity",
            "1",
            {f"/{LINK}/capacity": "a number is needed; found text"},
        ),
        (
            "routing",
            f"{LINK}/capacity",
            True,
            {f"/{LINK}/capacity": "a number is needed; found true"},
        ),
        ("routing", f"{LINK}/tail", 1.5, {f"/{LINK}/tail": "an integer is needed; found 1.5"}),
        (
            "routing",
            f"{LINK}/capacity",
            1e13,
            {f"/{LINK}/capacity": "must be at most 1000000000000"},
        ),
        (
            "routing",
            "problem/method",
            "best",
            {"/problem/method": "must be 'auto', 'counts' or 'gradient'"},
        ),
        (
            "routing",
            "problem/network/links",
            {},
            {"/problem/network/links": "an array is needed; found an object"},
        ),
        ("routing", "privacy/epsilon", 0, {"/privacy/epsilon": "must be greater than 0"}),
        (
            "routing",
            "problem/dataset",
            {"name": "x"},
            {"/problem/dataset": "the id of a registered dataset"},
        ),
        (
            "dr_ensemble",
            "problem/power",
            [],
            {"/problem/power": "at least 2 items are needed; found 0"},
        ),
        (
            "multi_agent",
            "problem/constraints",
            [3],
            {"/problem/constraints/0": "text is needed; found 3"},
        ),
        (
            "multi_agent",
            "problem/protocol",
            "federated",
            {"/problem/dataset": "not with protocol `federated`"},
        ),
        (
            "multi_agent",
            "problem/dataset",
            GONE,
            {"/problem/dataset": "either a dataset or `release`"},
        ),
        (
            "multi_agent",
            "problem/release",
            "job_1",
            {"/problem/release": "not together with `dataset`"},
        ),
        # Unions: the branch that was meant, and one sentence where none comes further.
        (
            "coupled_qp",
            "problem/agents/0/upper",
            GONE,
            {"/problem/agents/0/upper": "this field is needed"},
        ),
        (
            "coupled_qp",
            "problem/steps/primal",
            -1,
            {"/problem/steps/primal": "must be greater than 0"},
        ),
        (
            "coupled_qp",
            "problem/steps/primal",
            "x",
            {"/problem/steps/primal": "a number or an array is needed; found text"},
        ),
    ],
)
def test_jobs(kind: str, path: str, value: Any, issues: dict[str, str]) -> None:
    found = refused(JOB, with_value(body_of(kind), path, value))
    assert found.keys() == issues.keys()
    for pointer, says in issues.items():
        assert says in found[pointer]


def test_the_true_cause_of_what_is_nothing_and_of_what_is_empty() -> None:
    assert refused(JOB, loads(b'{"problem": NaN}')) == {
        "/problem": "a JSON object is needed; found NaN"
    }
    assert refused(JOB, loads(b'{"problem": -1e999}')) == {
        "/problem": "a JSON object is needed; found an infinite number"
    }
    body = with_value(
        with_value(body_of("routing"), "problem/dataset", GONE), "problem/release", []
    )
    assert refused(JOB, body) == {"/problem/release": "at least 1 item is needed; found 0"}
    body = with_value(body_of("routing"), f"{LINK}/tail", 0)
    assert refused(JOB, body) == {f"/{LINK}/tail": "must be at least 1: nodes are numbered from 1"}


def test_a_session_needs_its_terms() -> None:
    body = with_value(
        with_value(body_of("multi_agent"), "problem/dataset", GONE), "problem/protocol", "federated"
    )
    assert "the terms of the session" in refused(JOB, body)["/problem/federation"]


@pytest.mark.parametrize(
    ("kind", "path", "value", "pointer"),
    [
        ("dr_ensemble", "public/unit", "row", "/public/row_change"),
        ("dr_ensemble", "public/support", [[0, 9]], "/public/support"),
        ("dr_ensemble", "public/row_change", 0.1, "/public/min_probability"),
        ("off_policy_evaluation", "public/states", GONE, "/public/states"),
        ("off_policy_evaluation", "public/topology", [[0, 9]], "/public/topology"),
        ("off_policy_evaluation", "public/neighbours", "replace", "/public/trajectories"),
        (
            "off_policy_evaluation",
            "content/transitions/0/reward",
            "1",
            "/content/transitions/0/reward",
        ),
        ("multi_agent", "public/agents/0/lower", 9, "/public/agents/0/lower"),
        ("multi_agent", "content/initial", {"left": "1"}, "/content/initial/left"),
        ("routing", "delete_after_job", "yes", "/delete_after_job"),
        ("routing", "name", " ", "/name"),
    ],
)
def test_datasets_name_the_field_that_does_not_fit(
    kind: str, path: str, value: Any, pointer: str
) -> None:
    dataset = KINDS[kind].example()["problem"]["dataset"]
    assert refused(DATASET, with_value(dataset, path, value)).keys() == {pointer}


def test_no_sentence_of_the_library_comes_through() -> None:
    """Every field of several bodies replaced by values of every type: what is refused speaks our
    language."""
    hook = {"url": "https://example.org/x", "events": ["job.failed"], "secret": "whsec_"}
    key = {"role": "analyst", "principal": "ada", "expires_at": "2027-01-01T00:00:00Z"}
    bodies = [(JOB, body_of(kind)) for kind in KINDS]
    bodies += [(TypeAdapter(WebhookRequest), hook), (TypeAdapter(KeyRequest), key)]
    tried = 0
    for adapter, body in bodies:
        for path in paths(body):
            for value in (
                None,
                True,
                -7,
                1.5,
                1e300,
                "",
                "x" * 5000,
                [],
                [[]],
                {},
                {"no": 1},
                loads(b"[NaN]")[0],
            ):
                try:
                    validate(adapter, with_value(body, path, value) if path else value)
                except InvalidInput as error:
                    for issue in error.issues:
                        tried += 1
                        said = json.dumps(issue.detail)
                        assert not any(
                            word in said
                            for word in ("Input", "should", "valid ", "instance", "Tuple")
                        ), said
    assert tried > 1000


def paths(value: Any, path: str = "") -> list[str]:
    """The paths of a body, of arrays the first item only."""
    items: list[tuple[object, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))[:1]
    return [
        path,
        *(found for name, child in items for found in paths(child, f"{path}/{name}".strip("/"))),
    ]


def routing_job(links: list[Any], **more: Any) -> Any:
    body = body_of("routing")
    body["problem"]["network"]["links"] = links
    return {**body, "problem": {**body["problem"], **more}}


GOOD_LINK = {"tail": 1, "head": 2, "free_flow_time": 1.0, "capacity": 1.0}


def test_the_same_mistake_of_many_items_is_said_once() -> None:
    links: list[Any] = [dict(GOOD_LINK) for _ in range(8000)]
    for link in links:
        link["capacity"] = "100"
    at = "/problem/network/links"
    assert refused(JOB, routing_job(links)) == {
        f"{at}/0/capacity": "a number is needed; found text (and 7,999 more like this, up to "
        f"{at}/7999/capacity)"
    }
    links = [dict(GOOD_LINK) for _ in range(3000)]
    links[700] = links[2900] = {**GOOD_LINK, "capacity": 0}
    links[1200] = 5
    assert refused(JOB, routing_job(links)) == {
        f"{at}/700/capacity": f"must be greater than 0 (and 1 more like this, at "
        f"{at}/2900/capacity)",
        f"{at}/1200": "a JSON object is needed; found 5",
    }


def test_rows_of_rows_are_counted_too() -> None:
    body = body_of("dr_ensemble")
    body["problem"]["utility"] = [
        [1.0, 2.0, 3.0],
        [1.0, "x", "y"],
        ["x", 2.0, 3.0],
        [1.0, "x", "z"],
    ]
    del body["problem"]["price"]
    at = "/problem/utility"
    assert refused(JOB, body) == {
        f"{at}/1/1": f"a number is needed; found text (and 4 more like this, up to {at}/3/2)"
    }


def test_an_answer_has_at_most_twenty_issues() -> None:
    found = refused(JOB, routing_job([GOOD_LINK] * 4, **{f"unknown{i}": 1 for i in range(500)}))
    assert len(found) == 20
    assert list(found.values())[-1].endswith("(there are more mistakes, which are not listed here)")


def test_items_beyond_any_doubt_are_not_looked_at() -> None:
    [says] = refused(JOB, routing_job([1] * 200_000)).values()
    assert (
        says == "a JSON object is needed; found 1 (and at least 9,999 more like this, up to "
        "/problem/network/links/9999)"
    )
    assert refused(JOB, routing_job([1] * 1_000_001)) == {
        "/problem/network/links": "at most 1000000 items are allowed"
    }


WRONG: dict[str, Any] = {
    "items of a wrong type": lambda n: routing_job([1] * n),
    "texts for numbers": lambda n: routing_job([{**GOOD_LINK, "capacity": "1"}] * n),
    "the last of many": lambda n: routing_job([*([GOOD_LINK] * n), 1]),
    "unknown fields": lambda n: routing_job([GOOD_LINK], **{f"unknown{i}": 1 for i in range(n)}),
    "a long field": lambda n: routing_job([GOOD_LINK], **{"k" * 100 * n: 1}),
    "different unknown fields of items": lambda n: routing_job(
        [{**GOOD_LINK, f"unknown{i}": 1} for i in range(n)]
    ),
    "branches of a union": lambda n: with_value(
        body_of("coupled_qp"), "problem/steps/primal", ["x"] * n
    ),
    "nested rows": lambda n: with_value(
        body_of("dr_ensemble"), "problem/utility", [["x"] * 10] * n
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_refusing_takes_time_in_proportion(mistake: str) -> None:
    def refuse(body: Any) -> None:
        with pytest.raises(InvalidInput) as error:
            validate(JOB, body)
        assert len(error.value.issues) <= 20

    assert growth(WRONG[mistake], refuse, 500) < LINEAR


def test_every_long_array_is_validated_in_pieces() -> None:
    """Pydantic keeps an error an item; no array of a request may let it do that."""
    models = (JobRequest, DatasetRequest, WebhookRequest)
    arrays = 0
    for model in models:
        for array, wrapped in arrays_of(TypeAdapter(model).core_schema, wrapped=False):
            arrays += 1
            assert wrapped or array.get("fail_fast"), array
    assert arrays > 20


def arrays_of(schema: Any, *, wrapped: bool) -> list[tuple[Any, bool]]:
    """The arrays of any length in a core schema, and whether a function stands around each."""
    found: list[tuple[Any, bool]] = []
    if isinstance(schema, dict):
        kind = schema.get("type")
        if kind in ("list", "set") or (kind == "tuple" and "variadic_item_index" in schema):
            found.append((schema, wrapped))
        around = kind == "function-wrap" and schema["function"]["function"].__name__ == "_validated"
        for child in schema.values():
            found += arrays_of(child, wrapped=around)
    elif isinstance(schema, list):
        for child in schema:
            found += arrays_of(child, wrapped=False)
    return found


def test_arrays_in_pieces_are_what_they_were() -> None:
    pieces: TypeAdapter[Any] = TypeAdapter(
        Annotated[tuple[int, ...], InPieces(min_length=1, max_length=5000)]
    )
    assert pieces.validate_python(list(range(2000))) == tuple(range(2000))
    assert pieces.validate_python((1, 2)) == (1, 2)
    assert pieces.json_schema() == {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 1,
        "maxItems": 5000,
    }
    lists: TypeAdapter[Any] = TypeAdapter(Annotated[list[int], InPieces()])
    assert lists.validate_python([]) == []
    assert lists.validate_python([1] * 1001) == [1] * 1001
    with pytest.raises(TypeError):
        TypeAdapter(Annotated[list[int], Field(max_length=3), InPieces()])


def test_mistakes_that_are_held_at_once_do_not_grow_with_the_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Objects of many members that nobody knows: each is an error, which takes a kilobyte."""
    held: list[int] = []
    add = items.Mistakes.add

    def counted(self: items.Mistakes, error: ValidationError, first: int) -> None:
        held.append(error.error_count())
        add(self, error, first)

    class Link(BaseModel, extra="forbid"):
        origin: int

    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[list[Link], InPieces()])
    monkeypatch.setattr(items.Mistakes, "add", counted)
    strange = {f"k{number}": 1 for number in range(4000)}
    most = []
    for count in (10, 40):
        held.clear()
        with pytest.raises(ValidationError) as failed:
            adapter.validate_python([{"origin": 1}, *[strange] * count, {"origin": "x"}])
        most.append(max(held))
        body: list[Any] = [{"origin": 1}, *[strange] * count, {"origin": "x"}]
        issues = issues_of(failed.value.errors(include_url=False), body)
        assert f"and {count - 1} more like this" in issues[0].detail
    assert most[0] == most[1] < 2 * items.PIECE_MEMBERS
    assert adapter.validate_python([{"origin": 1}] * 1200) == [Link(origin=1)] * 1200
    assert adapter.validate_python([]) == []
