"""Whatever is sent: no internal error, no answer that the contract does not describe, no charge for
what is refused.

Short in `make test`; `make fuzz` sends many times as much (`DISCREET_FUZZ=long`). Three ways of
making requests: from the contract's schemas (schemathesis), by sequences of calls that use each
other's answers (schemathesis, stateful), and by spoiling bodies that are known to run, which gets
deeper than schemas do.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import hypothesis
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig

from discreet.api import examples
from discreet.api.contract import contract
from discreet.installation.postgres import EmbeddedPostgres
from tests.conftest import DEADLINE_SECONDS, Installation, settings_for
from tests.postgres_fixture import fresh_database

LONG = os.environ.get("DISCREET_FUZZ") == "long"
DOCUMENT: dict[str, Any] = json.loads(contract())
# Coverage means enumerating each schema's borders: minutes, and so for the long run alone.
CONFIG = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": LONG}}})
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


def effort(short: int, long: int, **values: Any) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=long if LONG else short,
        deadline=None,
        derandomize=not LONG,
        database=None,
        phases=[Phase.explicit, Phase.generate] if not LONG else list(Phase),
        suppress_health_check=list(HealthCheck),
        **values,
    )


@dataclass
class Target:
    """A running API with a key for each role and a registered dataset of each kind."""

    running: Installation
    keys: dict[str, str]
    http: httpx.Client
    datasets: dict[str, dict[str, Any]]

    def head(self) -> str:
        """The hash over the whole ledger: it changes with every entry."""
        answer = self.http.get(
            "/v1/ledger/head", headers={"Authorization": f"Bearer {self.keys['auditor']}"}
        )
        return str(answer.raise_for_status().json()["hash"])

    def headers(self, call: dict[str, Any]) -> dict[str, str]:
        roles = call["x-roles"]
        role = "owner" if "owner" in roles else roles[0] if roles else None
        return {} if role is None else {"Authorization": f"Bearer {self.keys[role]}"}


@pytest.fixture(scope="module")
def target(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """An installation of its own: keys get revoked here."""
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        running = Installation(settings_for(database, tmp_path_factory.mktemp("fuzz")))
        running.extra["DISCREET_RPC_ADDRESS"] = (
            "127.0.0.1:1"  # goes into invitations; nobody listens
        )
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        with running.client() as owner:
            roles = ("owner", "analyst", "auditor")
            keys = {role: owner.create_key(role=role, principal=role)["key"] for role in roles}
            datasets = {kind: owner.register(body) for kind, body in examples.datasets().items()}
        keys["operator"] = running.operator_key
        with httpx.Client(base_url=running.url, timeout=DEADLINE_SECONDS, trust_env=False) as http:
            yield Target(running, keys, http, datasets)


def check(call: dict[str, Any], answer: Any) -> None:
    """The answer is one that this call declares, in status, media type, code and schema."""
    status = answer.status_code
    assert status < 500, answer.text
    declared = call["responses"].get(str(status))
    assert declared is not None, f"{status} is not declared: {answer.text}"
    sent = answer.headers.get("content-type", "")
    media_type = (sent if isinstance(sent, str) else sent[0]).partition(";")[
        0
    ]  # schemathesis keeps a list
    content = declared.get("content", {})
    assert (media_type in content) or not (content or answer.content), (
        f"{media_type} is not declared"
    )
    if media_type.endswith("json"):
        validator(content[media_type]["schema"]).validate(answer.json())
    if status >= 400:
        body = answer.json()
        assert body["status"] == status
        assert body["type"] == f"urn:discreet:problem:{body['code']}"
        assert body["code"] in declared["x-codes"], (
            f"{status} {body['code']} is not declared: {body['detail']}"
        )
        for issue in body.get("errors", ()):
            assert issue["pointer"] == "" or issue["pointer"].startswith("/"), issue


@functools.cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**DOCUMENT, **json.loads(schema)})


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    return _validator(json.dumps(schema))


# From the schemas ---------------------------------------------------------------------------------


@SCHEMA.parametrize()
@effort(5, 500)
def test_what_the_contract_allows_and_what_not(case: schemathesis.Case, target: Target) -> None:
    call = case.operation.definition.raw
    before = target.head()
    answer = case.call(base_url=target.running.url, headers=target.headers(call))
    if case.method.upper() != case.operation.method.upper():
        assert answer.status_code in (404, 405)
    else:
        check(call, answer)
    if answer.status_code >= 400:
        assert target.head() == before, "a refused request wrote to the ledger"


# Sequences of calls -------------------------------------------------------------------------------


def test_calls_that_use_each_other_s_answers(target: Target) -> None:
    # An event stream of a job that nobody runs has no end.
    machine = SCHEMA.exclude(operation_id="watch_job").as_state_machine()

    class Sequences(machine):  # type: ignore[misc, valid-type]
        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
            self.head = target.head()
            return {
                "base_url": target.running.url,
                "headers": target.headers(case.operation.definition.raw),
            }

        def validate_response(self, response: Any, case: schemathesis.Case, **_: Any) -> None:
            check(case.operation.definition.raw, response)
            if response.status_code >= 400:
                assert target.head() == self.head, "a refused request wrote to the ledger"

    Sequences.run(settings=effort(4, 300, stateful_step_count=8))


# Spoiled bodies -----------------------------------------------------------------------------------

WEIRD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(
        [2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, 1e-18, 0.1 + 0.2]
    ),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            "\0",
            "a\0b",
            "\ud800",
            "x" * 300,
            "dst_none",
            "../..",
            "x1^2",
            "exp(exp(exp(9)))",
            "\u202e",
        ]
    ),
    st.lists(st.integers(-1, 3), max_size=3),
    st.just({}),
    st.just([[]]),
    st.dictionaries(st.sampled_from(["a", "kind", "type", "\0"]), st.integers(), max_size=2),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:3])
        if isinstance(value, list)
        else ()
    )
    return [path, *(found for name, child in items for found in places(child, (*path, name)))]


def spoiled(draw: st.DrawFn, body: Any) -> str:
    """JSON text of `body` with some places replaced, removed, doubled or renamed."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(body)))
        if not path:
            continue
        *ahead, last = path
        here = body
        for part in ahead:
            here = here[part]
        match draw(
            st.sampled_from(["replace", "replace", "replace", "remove", "double", "beside"])
        ):
            case "replace":
                here[last] = draw(WEIRD)
            case "remove":
                del here[last]
            case "double" if isinstance(here, list):
                here.append(copy.deepcopy(here[last]))
            case _ if isinstance(here, dict):
                here[draw(st.sampled_from(["extra", "\0", "kind", "seed"]))] = draw(WEIRD)
            case _:
                pass
    return json.dumps(body)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, str]:
    """A call, the kind, and the text of a body that was good."""
    kind, body = draw(st.sampled_from(sorted(examples.jobs().items())))
    bodies = {
        "/v1/plans": body,
        "/v1/jobs": body,
        "/v1/datasets": examples.datasets().get(kind, {}),
    }
    path = draw(st.sampled_from(sorted(bodies)))
    return path, kind, spoiled(draw, bodies[path])


_numbers = itertools.count()


@hypothesis.given(requests())
@effort(120, 20_000)
def test_spoiled_bodies(target: Target, request: tuple[str, str, str]) -> None:
    path, kind, text = request
    if kind in target.datasets:
        text = text.replace(examples.DATASET_ID, target.datasets[kind]["id"])
    call = DOCUMENT["paths"][path]["post"]
    headers = {
        **target.headers(call),
        "Content-Type": "application/json",
        "Idempotency-Key": f"fuzz {next(_numbers)}",
    }
    before = target.head()
    answer = target.http.post(path, content=text.encode("utf-8", "surrogatepass"), headers=headers)
    check(call, answer)
    if not answer.is_success or path == "/v1/plans":
        assert target.head() == before, "nothing was accepted, and the ledger was written to"
