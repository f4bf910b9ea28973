"""Bodies of datasets above 64 kB: their content is read by the sandboxed reader, with the answers
of small ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discreet.isolation.json_contents import Rows
from discreet.problems import DATASETS, KINDS
from discreet.problems.contents import canonical_bytes
from discreet.problems.datasets import DatasetOfRows
from discreet.web.bodies import THREAD_BYTES
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation

PADDING = b" " * (THREAD_BYTES + 1)
"""White space that makes any body a large one, and means nothing."""


def both_ways(service: Installation, text: bytes) -> tuple[Any, Any]:
    """Status and document of the body, small and padded at its end."""
    answers = []
    with service.http() as http:
        for body in (text, text + PADDING):
            answer = http.post(
                "/v1/datasets", content=body, headers={"Content-Type": "application/json"}
            )
            answers.append((answer.status_code, answer.json()))
    return answers[0], answers[1]


def text_of(change: Callable[[dict[str, Any]], Any]) -> bytes:
    body = bodies.dataset()
    change(body)
    return json.dumps(body).encode()


@pytest.mark.parametrize("first", ["content", "name", "cap"])
def test_a_large_body_is_the_same_dataset(stored: Installation, first: str) -> None:
    body = bodies.dataset()
    text = (
        json.dumps({first: body[first], **body}).encode().replace(b'"content"', rb'"\u0063ontent"')
    )
    small, large = both_ways(stored, text)
    assert (small[0], large[0]) == (201, 200)
    assert large[1]["id"] == small[1]["id"]
    assert large[1]["public"] == small[1]["public"]


WRONG: dict[str, bytes] = {
    "a value": text_of(lambda body: body["content"]["trips"][4].update(count=-1)),
    "an unknown field of a row": text_of(lambda body: body["content"]["trips"][4].update(weight=1)),
    "rows of a wrong type": text_of(lambda body: body["content"].update(trips=[1] * 50)),
    "no array": text_of(lambda body: body["content"].update(trips="none")),
    "no object": text_of(lambda body: body.update(content=[1])),
    "an unknown field of the content": text_of(lambda body: body["content"].update(links=[])),
    "no content": text_of(lambda body: body.pop("content")),
    "a zone that is not there": text_of(lambda body: body["content"]["trips"][4].update(origin=9)),
    "a person where there is none": text_of(
        lambda body: body["content"]["trips"][4].update(person="ann")
    ),
    "no person where there is one": text_of(lambda body: body["public"].update(unit="person")),
    "zones": text_of(lambda body: body["public"].update(zones=0)),
    "cap": text_of(lambda body: body["cap"].update(epsilon="1")),
    "no cap": text_of(lambda body: body.pop("cap")),
    "content twice": text_of(lambda _: None)[:-1] + b', "content": {"trips": []}}',
    "a key of a row twice": text_of(lambda _: None).replace(
        b'"count":', b'"count": 1, "count":', 1
    ),
    "halves of a pair": text_of(lambda body: body["content"]["trips"][4].update(person="\ud800")),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_large_body_is_refused_like_a_small_one(stored: Installation, mistake: str) -> None:
    small, large = both_ways(stored, WRONG[mistake])
    assert small[0] == large[0]
    assert small[0] in (400, 422)
    assert large[1]["code"] == small[1]["code"]
    assert [issue["pointer"] for issue in large[1]["errors"]] == [
        issue["pointer"] for issue in small[1]["errors"]
    ]
    assert large[1]["errors"] == small[1]["errors"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"content": {"trips": [' + b"1, " * THREAD_BYTES, "ends within its content"),
        (b'{"content": "' + b'\\"' * THREAD_BYTES, "ends within its content"),
        (b'{"content": {}, "name" 1}' + PADDING, "beside the content, not JSON at line 1"),
        (b"[" + b"1, " * THREAD_BYTES + b"1]", "a JSON object is needed"),
        (b"[" * THREAD_BYTES * 2, "nested deeper than 64"),
    ],
)
def test_large_bodies_that_are_no_json(stored: Installation, text: bytes, says: str) -> None:
    with stored.http() as http:
        answer = http.post(
            "/v1/datasets", content=text, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code in (400, 422)
    assert says in answer.json()["detail"]


def test_memory_does_not_grow_with_the_rows(stored: Installation) -> None:
    """6 MB of rows pass through the API in less memory than that of their objects, which is 29 MB
    beside the text. What a process happens to hold differs by a few MB from run to run."""
    assert stored.api is not None
    body = bodies.dataset(periods=1000)
    row = body["content"]["trips"][0]
    body["content"]["trips"] = [{**row, "period": i % 1000, "count": i} for i in range(100_000)]
    status = Path(f"/proc/{stored.api.pid}/status")

    def highest() -> int:
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024

    with stored.http() as http:
        text = json.dumps(body).encode()
        assert 6_000_000 < len(text) < 7_000_000
        http.post(
            "/v1/datasets", json={**body, "content": {"trips": [row] * 2000}}
        )  # whatever a first one loads
        Path(f"/proc/{stored.api.pid}/clear_refs").write_text("5")
        before = highest()
        answer = http.post("/v1/datasets", content=text, timeout=DEADLINE_SECONDS)
        assert answer.status_code == 201, answer.text
    assert highest() - before < 20_000_000


@pytest.mark.parametrize(
    "kind", [kind for kind, model in DATASETS.items() if issubclass(model, DatasetOfRows)]
)
def test_pieces_are_the_whole(kind: str) -> None:
    """However the rows are cut, and whatever a public part makes of them."""
    model = DATASETS[kind]
    assert issubclass(model, DatasetOfRows)
    given = model.model_validate(KINDS[kind].example()["problem"]["dataset"])
    whole = b"".join(canonical_bytes(given.rows()))
    [(name, _)] = [
        one for one in model.ROWS.items() if getattr(given.content, one[0], None) is not None
    ]
    rows = getattr(given.content, name)
    for size in (1, 3, 100):
        packed: dict[str, Any] = {}
        taken = Rows(model, name, model.ROWS[name])
        for first in range(0, len(rows), size):
            taken.take(rows[first : first + size], first)
        packed[name] = taken.packed()
        assert b"".join(canonical_bytes(model.read_packed(given.public, packed))) == whole
