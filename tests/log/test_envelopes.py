"""Certificates as in-toto statements in DSSE: what was put in comes out, and nothing else is taken
for it."""

from __future__ import annotations

import base64
import copy
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.ledger import certificates, envelopes, offline
from discreet.ledger.envelopes import BadEnvelope, check_envelope, opened, sign
from discreet_agent import canonical
from tests import bodies
from tests.cli import test_cli
from tests.conftest import Installation
from tests.ledgers import KEY, OTHER_KEY
from tests.log.test_verifier import World, altered, stranger

SCHEMA = json.loads((Path(__file__).parents[2] / "openapi" / "certificate.schema.json").read_text())


@pytest.fixture(scope="module")
def certificate() -> dict[str, Any]:
    found: dict[str, Any] = World("laplace").answers[0]["certificate"]
    return found


def test_the_envelope_is_dsses(certificate: dict[str, Any]) -> None:
    """The pre-authentication encoding of the protocol's own example, and a signature over it."""
    assert envelopes.encoding("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    envelope = sign(certificate, KEY)
    payload = base64.b64decode(envelope["payload"])
    (signature,) = envelope["signatures"]
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(certificate["public_key"]))
    public.verify(
        base64.b64decode(signature["sig"]),
        b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload,
    )
    said = json.loads(payload)
    assert (said["_type"], said["predicate"]) == ("https://in-toto.io/Statement/v1", certificate)
    assert said["subject"] == [
        {"name": "job_1/result", "digest": {"sha256": certificate["result_digest"]}},
        {"name": "job_1/result/policy", "digest": {"sha256": "ab" * 32}},
    ]
    assert opened(envelope) == certificate


def test_whose_signature_it_is(certificate: dict[str, Any]) -> None:
    other = certificates.public_key(OTHER_KEY)
    assert check_envelope(sign(certificate, KEY)).holds is True
    assert check_envelope(sign(certificate, OTHER_KEY)).holds is None
    assert check_envelope(sign(certificate, OTHER_KEY), [other]).holds is True  # after a rotation
    both = sign(certificate, KEY)
    both["signatures"] += sign(certificate, OTHER_KEY)["signatures"]
    assert check_envelope(both).holds is True
    both["signatures"][0]["sig"] = both["signatures"][1]["sig"]
    assert check_envelope(both).holds is False


def test_every_change_is_found_by_both(certificate: dict[str, Any]) -> None:
    """Of members, of a bit of the payload, of the statement signed anew by a stranger: refused, or
    not held; ours and the verifier that knows none of our code say the same."""
    chance = random.Random(1)
    true = sign(certificate, KEY)
    for case in range(600):
        envelope = altered(true, chance)
        if case % 3 == 1:
            payload = bytearray(base64.b64decode(true["payload"]))
            payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)
            envelope = {**true, "payload": base64.b64encode(payload).decode()}
        elif case % 3 == 2:
            said = altered(envelopes.statement(certificate), chance)
            try:
                payload = bytearray(canonical.dumps(said))
            except (ValueError, OverflowError):
                continue
            sealed = base64.b64encode(
                OTHER_KEY.sign(envelopes.encoding(envelopes.PAYLOAD, bytes(payload)))
            ).decode()
            signatures = [{**true["signatures"][0], "sig": sealed}]
            envelope = {
                **true,
                "payload": base64.b64encode(payload).decode(),
                "signatures": signatures,
            }
        if not isinstance(envelope, dict) or "payloadType" not in envelope or envelope == true:
            continue
        try:
            body = opened(envelope)
            ours = offline.check_all(body, offline.Beside(envelope=envelope))
        except BadEnvelope:
            ours = None
        try:
            theirs = stranger.check_whole(stranger.read_json(json.dumps(envelope).encode()))
        except stranger.Bad:
            theirs = None
        assert (ours is None) == (theirs is None), (case, envelope)
        if ours is not None and theirs is not None:
            assert (
                ours[0].holds == theirs[0].holds is not True
                or envelope["signatures"] != true["signatures"]
            ), case


def test_proofs_of_both_forms_are_of_the_schema() -> None:
    world = World("laplace")
    for answer in (world.answers[0], world.older[0]):
        certificate = answer["certificate"]
        jsonschema.validate(certificate, SCHEMA)
        proofs = certificate["proofs"]
        (parts,) = {"leaves", "entries"} & set(proofs)
        for wrong in (
            {**proofs, "more": 1},
            {**proofs, parts: [{**proofs[parts][0], "number": -1}]},
            {**proofs, parts: [{**proofs[parts][0], "more": 1}]},
            {"leaves": [], "nodes": "", "entries": [], **proofs},
        ):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**certificate, "proofs": wrong}, SCHEMA)


@pytest.mark.parametrize(
    "envelope",
    [
        {"payloadType": 5},
        {"payloadType": envelopes.PAYLOAD, "payload": "", "signatures": []},
        {
            "payloadType": envelopes.PAYLOAD,
            "payload": base64.b64encode(b"[" * 100_000).decode(),
            "signatures": [],
        },
        {
            "payloadType": envelopes.PAYLOAD,
            "payload": base64.b64encode(b"[]").decode(),
            "signatures": 5,
        },
        {
            "payloadType": envelopes.PAYLOAD,
            "payload": base64.b64encode(b'{"predicate":{}}').decode(),
            "signatures": [],
        },
    ],
)
def test_what_is_no_envelope_is_told_so(envelope: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadEnvelope):
        opened(envelope)
    file = tmp_path / "envelope.json"
    file.write_text(json.dumps(envelope))
    done = test_cli.discreet("certificate", "verify", str(file))
    assert (done.returncode, "Traceback" in done.stderr, "envelope" in done.stderr) == (
        1,
        False,
        True,
    )


def test_the_service_signs_envelopes(service: Installation, tmp_path: Path) -> None:
    """Over HTTP, with the command, and looked at without a server; every certificate is of the
    schema."""
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))["id"]
        client.wait(job)
        answer = client.result(job)
        envelope = client.certificate(job)
        head, sealed = client.ledger_head(), client.ledger_head_statement()
    assert envelopes.opened_head(sealed, [head["public_key"]]) == head
    certificate = opened(envelope)
    assert certificate == answer["certificate"]
    jsonschema.validate(certificate, SCHEMA)
    for wrong in (
        {**certificate, "more": 1},
        {**certificate, "price": {}},
        {**certificate, "result_digest": "x"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)
    file, result = tmp_path / "envelope.json", tmp_path / "result.json"
    result.write_text(json.dumps(answer["result"]))

    def discreet(*arguments: str) -> subprocess.CompletedProcess[str]:
        return test_cli.discreet("certificate", *arguments)

    got = discreet(
        "get", job, "--out", str(file), "--server", service.url, "--key", service.owner_key
    )
    assert got.returncode == 0, got.stderr
    assert json.loads(file.read_text()) == envelope
    kept, export = tmp_path / "head.json", tmp_path / "export.jsonl"
    reached = ("--server", service.url, "--key", service.owner_key)
    for group, *words in (
        ("head", "--out", str(kept), *reached),
        ("export", str(export), *reached),
    ):
        command = [sys.executable, "-m", "discreet", "ledger", group, *words]
        subprocess.run(command, env=service.environment(), capture_output=True, check=True)
    command = [
        sys.executable,
        "-m",
        "discreet",
        "ledger",
        "verify",
        str(export),
        "--head",
        str(kept),
    ]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    with export.open("rb") as lines:
        kept_head = stranger._head(json.loads(kept.read_text()), ())
        assert all(one.holds is not False for one in stranger.check_ledger(lines, head=kept_head))
    forged = json.loads(kept.read_text())
    forged["signatures"][0]["sig"] = envelope["signatures"][0]["sig"]
    kept.write_text(json.dumps(forged))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    verified = discreet("verify", str(file), "--result", str(result), "--json")
    held = {one["name"]: one["holds"] for one in json.loads(verified.stdout)["checks"]}
    assert [held[name] for name in ("envelope", "signature", "price", "result", "log")] == [
        True
    ] * 5
    found = stranger.check_whole(copy.deepcopy(envelope))
    assert {one.name: one.holds for one in found}["envelope"] is True
