"""The Python SDK where what answers is no discreet, or one that says strange things."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from discreet_client import Client, Unreachable
from discreet_client.forms import forms_in

CONTENT: dict[str, Any] = {"$ref": "#/components/schemas/Content"}


def contract(content: Any, kind: Any = "new", schema: Any = CONTENT) -> dict[str, Any]:
    registration = {"properties": {"kind": {"const": kind}, "public": {}, "content": schema}}
    return {"components": {"schemas": {"Content": content, "Registration": registration}}}


STRANGE: list[Any] = [
    None,
    [],
    "<html>",
    {},
    {"components": []},
    {"components": {"schemas": {"One": [1], "Two": {"properties": 7}}}},
    contract({}),
    contract({"properties": {}}),
    contract([1]),
    contract({"properties": {"rows": {}}}, kind=["new"]),
    contract({"properties": {"rows": {}}}, schema={}),
    contract({"properties": {"rows": {}}}, schema={"$ref": 7}),
    contract(
        {"properties": {"rows": {}}},
        schema={"$ref": "#/components/schemas/Registration/properties"},
    ),
]


def registered(contract: httpx.Response, content: Any) -> bytes:
    """The body of the registration that a client makes which does not know the kind."""
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/openapi.json":
            return contract
        bodies.append(request.content)
        return httpx.Response(201, json={"id": "ds_1"})

    with Client("http://service", "dsc_key", transport=httpx.MockTransport(answer)) as client:
        assert client.register("new", {"unit": "person"}, content, cap=1)["id"] == "ds_1"
    (body,) = bodies
    return body


@pytest.mark.parametrize("said", STRANGE, ids=repr)
def test_a_contract_that_is_none_leaves_it_to_the_service(said: Any) -> None:
    assert forms_in(said) == {}
    assert b'"content":{"rows":[1.0,2.0]}' in registered(
        httpx.Response(200, json=said), {"rows": np.array([1.0, 2.0])}
    )


@pytest.mark.parametrize("arrays", [7, [7], [{}], [{"axes": 7, "value": "x"}], [{"axes": ["a"]}]])
def test_arrays_that_say_nothing_are_none(arrays: Any) -> None:
    said = contract({"properties": {"rows": {}}, "x-arrays": arrays})
    assert forms_in(said) == {"new": {"fields": ["rows"], "arrays": []}}
    with pytest.raises(TypeError, match="no content of new"):
        registered(httpx.Response(200, json=said), np.ones(3))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"a":' * 100_000 + b"1" + b"}" * 100_000], ids=len
)
def test_what_is_no_json_is_not_the_callers_mistake(body: bytes) -> None:
    said = httpx.Response(200, content=body, headers={"Content-Type": "application/json"})
    with pytest.raises(Unreachable, match=r"/openapi\.json was answered with what cannot be read"):
        registered(said, np.ones(3))
