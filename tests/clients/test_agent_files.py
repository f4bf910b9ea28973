"""What an agent keeps on its disk: key, ledger, memory; and the text that invites it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest

from discreet.problems import KINDS
from discreet.problems.federation import FederatedProblem
from discreet_agent import (
    AgentError,
    BadIdentity,
    BadLink,
    Identity,
    Ledger,
    LedgerBroken,
    LimitExceeded,
    Link,
    NotTrusted,
    kinds,
)
from discreet_agent.federation import signing
from discreet_agent.federation.rosters import chosen, told
from discreet_agent.memory import Ended, Memory, Sent

LINK = f"dsc://127.0.0.1:8081/ses_0abc?token=t-_1&server={'a' * 64}&owner={'b' * 64}&tls={'c' * 64}"


def test_a_kinds_program_is_the_module_of_its_name() -> None:
    for problem in KINDS.values():
        if issubclass(problem, FederatedProblem):
            (kind,) = get_args(problem.model_fields["kind"].annotation)
            assert kinds.solver(kind).__module__ == f"discreet_agent.{kind}"
    for name in (
        "nobody",
        "ledger",
        "../kinds",
        "federation.links",
    ):  # of these the second is a module, and no program
        with pytest.raises(AgentError, match="no program for the kind"):
            kinds.solver(name)
    assert kinds.solver("json:loads") is json.loads


def test_links_are_read_and_written() -> None:
    link = Link.parse(LINK)
    assert (link.address, link.session, link.token, link.tls) == (
        "127.0.0.1:8081",
        "ses_0abc",
        "t-_1",
        "c" * 64,
    )
    assert Link.parse(str(link)) == link
    assert "t-_1" not in repr(link)  # a secret, and reprs go into logs
    six = Link("::1", 1, "ses_1", "a" * 64, "b" * 64)
    assert six.address == "[::1]:1"
    assert Link.parse(str(six)) == six
    assert six.is_loopback
    assert not Link.parse(LINK.replace("127.0.0.1", "127.0.0.1.example")).is_loopback


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://127.0.0.1:8081/ses_0abc",
        LINK.replace("dsc:", "http:"),
        LINK.replace(":8081", ""),
        LINK.replace(":8081", ":99999"),
        LINK.replace("ses_0abc", "../etc"),
        LINK.replace("a" * 64, "a" * 63),
        LINK.replace("owner", "holder"),
        LINK.replace("c" * 64, "none"),
    ],
)
def test_texts_that_are_no_links(text: str) -> None:
    with pytest.raises(BadLink) as refused:
        Link.parse(text)
    assert "t-_1" not in str(refused.value)


def test_a_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "agent.key"
    made = Identity.open(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Identity.open(path)
    assert again.fingerprint == made.fingerprint == signing.fingerprint(made.public_key)
    assert signing.is_signed(made.public_key, b"words", again.sign(b"words"))
    assert not signing.is_signed(made.public_key, b"other words", again.sign(b"words"))
    path.chmod(0o640)
    with pytest.raises(BadIdentity, match="chmod 600"):
        Identity.open(path)
    path.chmod(0o600)
    path.write_text("no key")
    with pytest.raises(BadIdentity):
        Identity.open(path)


def test_statements_never_agree_by_accident() -> None:
    """Fields are length-prefixed: moving a byte from one to the next is another statement."""
    nonce = bytes(32)
    made = {
        signing.message("ses_1", nonce, 1, 2, 3, b"x"),
        signing.message("ses_12", nonce, 1, 2, 3, b"x"),
        signing.message("ses_1", b"2" + nonce, 1, 2, 3, b"x"),
        signing.message("ses_1", nonce, 2, 1, 3, b"x"),
        signing.message("ses_1", nonce, 1, 2, 3, b"y"),
        signing.enrolment("ses_1", nonce, 3, b"x"),
        signing.operator("ses_1", b"x"),
        signing.enrolled("ses_1", b"x"),
        signing.roster(b"x"),
        signing.charge(b"x"),
        signing.ledger_entry(b"x"),
    }
    assert len(made) == 11


def test_statements_of_a_stream_are_those_of_its_messages() -> None:
    """And as they were when the protocol began: agents of other versions sign the same bytes."""
    nonce = bytes(range(32))
    statement = signing.messages("ses_x", nonce)
    made = statement(3, 7, 1_700_000_000_123, b"content")
    assert made.hex() == (
        "00000016" + b"discreet/federation/v1".hex() + "0000000b" + b"Participate".hex()
        + "00000005" + b"ses_x".hex() + "00000020" + nonce.hex()
        + "000000080000000000000003" + "000000080000000000000007"
        + "000000080000018bcfe5687b" + "00000020" + hashlib.sha256(b"content").hexdigest()
    )  # fmt: skip
    assert made == signing.message("ses_x", nonce, 3, 7, 1_700_000_000_123, b"content")
    largest = 2**64 - 1
    assert statement(largest, largest, 0, b"") == signing.message(
        "ses_x", nonce, largest, largest, 0, b""
    )


def test_an_owner_signs_the_agents_that_were_meant() -> None:
    """Compared by fingerprint: of a beginning that is short a hostile server finds a key of its
    own."""
    keys = [Identity.generate() for _ in range(3)]
    shown: list[dict[str, Any]] = [
        {
            "name": f"a{n}",
            "fingerprint": key.fingerprint,
            "key": base64.b64encode(key.public_key).decode(),
            "announcement": {},
        }
        for n, key in enumerate(keys)
    ]
    assert chosen(shown, None) == shown
    assert chosen(shown, [keys[1].fingerprint[:16], keys[1].fingerprint]) == [shown[1]]
    for beginning, says in (
        ("", "too short"),
        (keys[0].fingerprint[:15], "too short"),
        ("0" * 64, "0 agents"),
    ):
        with pytest.raises(NotTrusted, match=says):
            chosen(shown, [beginning])
    with pytest.raises(NotTrusted, match="2 agents"):
        chosen([*shown, shown[1]], [keys[1].fingerprint])
    with pytest.raises(NotTrusted, match="another key"):
        chosen([{**shown[0], "key": shown[1]["key"]}], None)
    (line, parameter) = told([{**shown[0], "name": "x\x1b[2K\n"}], {"sums": {"key_bits": 2048}})
    assert line == f"{keys[0].fingerprint}  x?[2K?  {{}}"
    assert parameter == 'sums: {"key_bits": 2048}'


def charged(job: str, epsilon: int, delta: int = 0) -> bytes:
    return json.dumps(
        {"job": job, "price": {"epsilon": str(epsilon), "delta": str(delta)}}
    ).encode()


def book(tmp_path: Path, **limits: Decimal) -> tuple[Ledger, Callable[..., object]]:
    server, agent = Identity.generate(), Identity.open(tmp_path / "agent.key")
    ledger = Ledger(tmp_path / "agent.ledger", agent, **limits)

    def charge(job: str, epsilon: int, delta: int = 0) -> object:
        document = charged(job, epsilon, delta)
        return ledger.charge(document, server.sign(signing.charge(document)), server.public_key)

    return ledger, charge


def test_the_ledger_refuses_what_passes_its_limit(tmp_path: Path) -> None:
    ledger, charge = book(tmp_path, limit_epsilon=Decimal("0.5"), limit_delta=Decimal("1e-6"))
    charge("job_1", 300_000_000)
    assert charge("job_1", 300_000_000) == ledger.entries()[0]  # the same again is the same entry
    with pytest.raises(LimitExceeded, match="after it was booked"):
        charge("job_1", 1)
    with pytest.raises(LimitExceeded, match=r"limit of 0\.5"):
        charge("job_2", 200_000_001)
    with pytest.raises(LimitExceeded, match="delta"):
        charge("job_2", 1, 10**12 + 1)
    with pytest.raises(LimitExceeded, match="negative"):
        charge("job_2", -1)
    charge("job_2", 200_000_000, 10**12)
    assert [entry.spent for entry in ledger.entries()] == [(300_000_000, 0), (500_000_000, 10**12)]
    ledger.release("job_1")
    ledger.release("job_1")
    ledger.release("job_unknown")
    assert [entry.body["kind"] for entry in ledger.entries()] == ["charge", "charge", "release"]
    assert ledger.entries()[-1].spent == (200_000_000, 10**12)
    charge("job_3", 300_000_000)
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_every_change_of_the_ledger_is_found(tmp_path: Path) -> None:
    ledger, charge = book(tmp_path)
    for number in range(3):
        charge(f"job_{number}", 10)
    ledger.release("job_1")
    lines = ledger.path.read_bytes().splitlines(keepends=True)

    def broken(changed: list[bytes]) -> str:
        ledger.path.write_bytes(b"".join(changed))
        with pytest.raises(LedgerBroken) as found:
            ledger.entries()
        return str(found.value)

    assert broken(lines[1:]) == "entry 1 does not hold"
    assert broken([lines[0], lines[2], lines[1], lines[3]]) == "entry 2 does not hold"
    assert broken([*lines, lines[3]]) == "entry 5 does not hold"
    for number, line in enumerate(lines):
        read = json.loads(line)
        for name in read:
            text = read[name]
            other = text[:12] + ("1" if text[12] != "1" else "2") + text[13:]
            changed = [
                *lines[:number],
                json.dumps({**read, name: other}).encode() + b"\n",
                *lines[number + 1 :],
            ]
            assert broken(changed) == f"entry {number + 1} does not hold"
    # Signed anew by another agent, or charged by nobody.
    stranger = Ledger(tmp_path / "other.ledger", Identity.generate())
    document = charged("job_9", 1)
    with pytest.raises(NotTrusted, match="not signed by the server"):
        stranger.charge(document, bytes(64), bytes(32))
    nobody = {
        "server_key": base64.b64encode(bytes(32)).decode(),
        "server_signature": base64.b64encode(bytes(64)).decode(),
    }
    with stranger._locked() as entries:
        stranger._append(
            entries, kind="charge", job="job_9", spent=(1, 0), charge=document.decode(), **nobody
        )
    with pytest.raises(LedgerBroken):
        stranger.entries()
    ledger.path.write_bytes(b"".join(lines))
    assert len(ledger.entries()) == 4


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    ledger, charge = book(tmp_path)
    charge("job_1", 10)
    with ledger.path.open("ab") as file:
        file.write(b'{"body": "half')
    charge("job_2", 10)
    assert [entry.body["job"] for entry in ledger.entries()] == ["job_1", "job_2"]


@pytest.mark.parametrize(
    "document",
    [
        b'{"job": "job_2", "price": {}}',
        b'{"job": "job_2", "price": {"epsilon": "1"}}',
        b'{"job": "job_2", "price": {"epsilon": 0.9, "delta": 0}}',
        b'{"job": "job_2", "price": {"epsilon": "1_0", "delta": "0"}}',
        b'{"job": ["job_2"], "price": {"epsilon": "1", "delta": "0"}}',
        b'{"job": "\\ud800", "price": {"epsilon": "1", "delta": "0"}}',
        '{"job": "job_2", "price": {"epsilon": "1", "delta": "0"}}'.encode("utf-16"),
        b"[" * 100_000,
        b"null",
    ],
)
def test_a_charge_that_would_break_the_ledger_is_not_booked(
    tmp_path: Path, document: bytes
) -> None:
    ledger, charge = book(tmp_path)
    charge("job_1", 10)
    server = Identity.generate()
    with pytest.raises(NotTrusted, match="cannot be read"):
        ledger.charge(document, server.sign(signing.charge(document)), server.public_key)
    assert [entry.body["job"] for entry in ledger.entries()] == ["job_1"]


def test_what_was_given_back_does_not_pay_for_the_same_job_again(tmp_path: Path) -> None:
    """The agent died after the entry and before it knew that the session had ended; the server goes
    on all the same."""
    ledger, charge = book(tmp_path, limit_epsilon=Decimal("0.5"))
    charge("job_1", 300_000_000)
    ledger.release("job_1")
    with pytest.raises(LimitExceeded, match="given back"):
        charge("job_1", 300_000_000)
    assert ledger.entries()[-1].spent == (0, 0)


def test_an_entry_that_the_disk_takes_half_of_is_not_booked(tmp_path: Path) -> None:
    """A full disk takes a part first and refuses the rest: then the next process would find no
    entry at all."""
    ledger, charge = book(tmp_path, limit_epsilon=Decimal("0.5"))
    charge("job_1", 300_000_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ledger.path.stat().st_size + 40, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            charge("job_2", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ledger.path.read_bytes()[-1:] != b"\n"
    charge("job_2", 1)
    assert [entry.body["job"] for entry in ledger.entries()] == ["job_1", "job_2"]


def test_memory_survives(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ses_1.json"
    memory = Memory.load(path)
    assert memory.sent is None
    memory.keep(account="acc_1", state=b"\x00state", roster=b"{}")
    memory.keep(sent=Sent(3, b"\xff" * 10, b"digest"))
    memory.keep(ended=Ended("failed", "agent_missing", 3, b"", b"t"))
    assert Memory.load(path) == memory
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["ses_1.json"]


def test_what_cannot_be_written_is_not_known(tmp_path: Path) -> None:
    """Else the answer would go out, and a new process would decide on another one for the same
    round."""
    memory = Memory.load(tmp_path / "ses_1.json")
    memory.keep(account="acc_1")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(AgentError, match="cannot be written: File too large"):
            memory.keep(sent=Sent(0, bytes(4000), b"digest"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert memory.sent is None
    assert memory == Memory.load(memory.path)


def test_one_process_at_a_time_takes_part_in_a_session(tmp_path: Path) -> None:
    path = tmp_path / "ses_1.json"
    first, second = Memory.load(path), Memory.load(path)
    with first.alone():
        first.keep(sent=Sent(0, b"one", b"digest"))
        with pytest.raises(AgentError, match="another process"), second.alone():
            pass
    with second.alone():  # and it knows what the first had decided
        assert second.sent == first.sent
