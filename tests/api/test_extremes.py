"""Every number of the contract at its extremes: an answer that the contract describes, never an
internal error.

The numbers are those of the contract's own examples, one at a time, each replaced in the text of
the body: what a float cannot hold (1e-999999999) must not have been made one on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from discreet.api import examples
from discreet.api.contract import contract
from tests.conftest import Installation

DOCUMENT: dict[str, Any] = json.loads(contract())
EXTREMES = (
    "0",
    "-0.0",
    "5e-324",
    "1e-999999999",
    "-1e-999999999",
    "1e-30",
    "1000000000",
    "9223372036854775808",
    "1e308",
    "-1e308",
    "1e999999999",
    "1" + "0" * 400,
    "0." + "0" * 400 + "1",
)
MARK = "\u0001number\u0001"


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers stand; of a list, in its first item."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from numbers(child, (*path, name))
    elif isinstance(value, list) and value:
        yield from numbers(value[0], (*path, 0))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def replaced(value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return MARK
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = replaced(changed[path[0]], path[1:])
    return changed


def bodies() -> Iterator[tuple[str, str, str, Any]]:
    """Method, path, name and body of every example."""
    for path, calls in DOCUMENT["paths"].items():
        for method, call in calls.items():
            content = call.get("requestBody", {}).get("content", {}).get("application/json", {})
            for name, example in content.get("examples", {}).items():
                yield method, path, name, example["value"]


def fields() -> Iterator[tuple[str, str, str, Any, tuple[Any, ...]]]:
    for method, path, name, body in bodies():
        if path == "/v1/jobs":  # planned as `/v1/plans` is, and then charged
            continue
        full = {**OPTIONAL.get(name, {}), **body}
        if isinstance(body.get("problem"), dict):
            full["problem"] = {**OPTIONAL_OF_PROBLEM.get(name, {}), **body["problem"]}
        for place in numbers(full):
            yield method, path, name, full, place


OPTIONAL: dict[str, dict[str, Any]] = {"analyst": {"expires_days": 3}}
OPTIONAL_OF_PROBLEM: dict[str, dict[str, Any]] = {
    "off_policy_evaluation": {
        "method": "minibatch",
        "clip": 1.0,
        "steps": 10,
        "step_size": 0.1,
        "sampling": 0.1,
        "max_importance": 10,
    },
}
FIELDS = list(fields())


@pytest.fixture(scope="module")
def owner_key(api_only: Installation) -> str:
    """Of a tenant of its own: caps and grants that are accepted bind no other test."""
    return api_only.owner_of("extremes")


@pytest.fixture(scope="module")
def datasets(api_only: Installation, owner_key: str) -> dict[str, str]:
    with api_only.client(owner_key) as owner:
        return {kind: owner.register(body)["id"] for kind, body in examples.datasets().items()}


def test_the_fields_are_those_of_every_body() -> None:
    assert {path for _, path, *_ in FIELDS} >= {"/v1/plans", "/v1/datasets", "/v1/caps"}
    assert len(FIELDS) > 60


@pytest.mark.parametrize(
    ("method", "path", "name", "body", "place"),
    FIELDS,
    ids=[f"{path} {name} /{'/'.join(map(str, place))}" for _, path, name, _, place in FIELDS],
)
def test_extremes_of(
    api_only: Installation,
    owner_key: str,
    datasets: dict[str, str],
    method: str,
    path: str,
    name: str,
    body: Any,
    place: tuple[Any, ...],
) -> None:
    text = json.dumps(replaced(body, place))
    if name in datasets:
        text = text.replace(examples.DATASET_ID, datasets[name])
    roles = DOCUMENT["paths"][path][method]["x-roles"]
    key = owner_key if "owner" in roles else api_only.operator_key
    with api_only.http(key) as http:
        for number in EXTREMES:
            answer = http.request(
                method,
                path.replace("{account_id}", "acc_none").replace("{job_id}", "job_none"),
                content=text.replace(json.dumps(MARK), number),
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code < 500, (number[:20], answer.text)
            assert str(answer.status_code) in DOCUMENT["paths"][path][method]["responses"], (
                answer.text
            )


@pytest.mark.parametrize("number", EXTREMES)
@pytest.mark.parametrize(
    "path", ["/v1/budgets?delta=", "/v1/jobs?page_size=", "/v1/datasets?page_size="]
)
def test_extremes_in_addresses(api_only: Installation, path: str, number: str) -> None:
    with api_only.http() as http:
        answer = http.get(path + number)
    assert answer.status_code in (200, 422), answer.text
