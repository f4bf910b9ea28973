"""Heads of federated sessions, agents' receipts and ledger heads as in-toto statements in DSSE:
ours, and the verifier that knows none of our code, say the same of true and of altered ones."""

from __future__ import annotations

import base64
import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.ledger import certificates, envelopes, session_heads
from discreet.ledger.entries import sign_head
from discreet.ledger.session_heads import Beside, check
from discreet_agent import AgentError, Identity, Ledger, canonical, dsse
from discreet_agent.dsse import BadEnvelope
from discreet_agent.federation import receipts, rosters, signing
from tests.ledgers import KEY, OTHER_KEY
from tests.log.test_verifier import FILE, altered, stranger

OPENAPI = Path(__file__).parents[2] / "openapi"
SERVER = base64.b64decode(certificates.public_key(KEY))
SESSION, JOB = "ses_1", "job_1"


def identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


OWNER = identity(9)


class Party:
    """An agent with a ledger of its own, in which it has booked another session before."""

    def __init__(self, folder: Path, number: int) -> None:
        self.identity = identity(number)
        self.ledger = Ledger(folder / f"{number}.ledger", self.identity)
        self.before = self.book("job_0", "300000000")
        self.entry = self.book(JOB, "500000000")

    def book(self, job: str, epsilon: str) -> Any:
        body = {
            "version": 1,
            "session": SESSION,
            "job": job,
            "agent": self.identity.fingerprint,
            "account": f"acc_{self.identity.fingerprint[:4]}",
            "entry": {"seq": 2, "hash": "ab" * 32},
            "price": {"epsilon": epsilon, "delta": "0"},
        }
        charge = canonical.dumps(body)
        return self.ledger.charge(charge, KEY.sign(signing.charge(charge)), SERVER)

    @property
    def kept(self) -> dict[str, Any]:
        """What the service keeps of its receipt."""
        return self.kept_of(self.entry)

    @staticmethod
    def kept_of(entry: Any) -> dict[str, Any]:
        return {
            "charge": entry.body["charge"],
            "seq": entry.seq,
            "link": entry.link.hex(),
            "hash": entry.hash.hex(),
            "signature": base64.b64encode(entry.signature).decode(),
        }


class World:
    """Three agents who have gone through two rounds."""

    def __init__(self, folder: Path) -> None:
        self.parties = [Party(folder, number) for number in (1, 2, 3)]
        listed = [
            {
                "name": f"Ward {place}",
                "fingerprint": one.identity.fingerprint,
                "key": base64.b64encode(one.identity.public_key).decode(),
                "announcement": {},
            }
            for place, one in enumerate(self.parties)
        ]
        roster = rosters.roster_document(SESSION, JOB, "multi_agent", listed)
        self.head = session_heads.head_of(
            {
                "id": SESSION,
                "round": 2,
                "transcript": b"t" * 32,
                "roster": roster,
                "roster_signature": OWNER.sign(signing.roster(roster)),
                "owner_key": OWNER.public_key,
            },
            {"id": JOB, "kind": "multi_agent", "state": "succeeded", "error_code": None},
            [
                {"fingerprint": one.identity.fingerprint, "receipt": one.kept}
                for one in self.parties
            ],
        )
        self.certificate = {
            "job": JOB,
            "federation": {
                "session": SESSION,
                "roster": signing.digest(roster).hex(),
                "owner": OWNER.fingerprint,
                "agents": 3,
                "rounds": 2,
                "transcript": (b"t" * 32).hex(),
            },
            "price": {"epsilon": "500000000", "delta": "0"},
            "ledger_entry": [
                {"account": f"acc_{one.identity.fingerprint[:4]}"} for one in self.parties
            ],
        }
        self.receipts = [one.ledger.receipt(JOB) for one in self.parties]

    def sealed(self, **changed: Any) -> dict[str, Any]:
        return session_heads.seal({**self.head, **changed}, KEY)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("parties"))


def verdicts(checks: list[Any]) -> dict[str, bool | None]:
    return {one.name: one.holds for one in checks}


def schema(name: str) -> Any:
    return json.loads((OPENAPI / f"{name}.schema.json").read_text())


def test_a_session_says_who_has_signed_what(world: World) -> None:
    envelope = world.sealed()
    beside = Beside(
        public_keys=[certificates.public_key(KEY)],
        owner=OWNER.fingerprint,
        certificate=world.certificate,
        receipts=world.receipts,
    )
    ours = check(envelope, beside)
    assert verdicts(ours).keys() == {
        "envelope",
        "roster",
        "receipts",
        "certificate",
        "agent",
        "charge",
        "entry",
        "receipt",
    }
    assert all(one.holds for one in ours), ours
    theirs = stranger.check_session(
        envelope,
        beside.public_keys,
        owner=beside.owner,
        certificate=world.certificate,
        receipts=world.receipts,
    )
    assert all(one.holds for one in theirs), theirs
    assert {"envelope", "roster", "receipts", "certificate", "receipt"} <= verdicts(theirs).keys()
    said = json.loads(base64.b64decode(envelope["payload"]))
    assert [one["name"] for one in said["subject"]] == ["job_1/roster", "job_1/transcript"]
    jsonschema.validate(said["predicate"], schema("session"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**said["predicate"], "more": 1}, schema("session"))


def test_an_agent_signs_its_receipt_itself(world: World) -> None:
    """Over the encoding that DSSE's protocol writes down, by the key of its fingerprint; of what
    the agent has spent before nothing is in it."""
    envelope = world.receipts[0]
    payload, agent = base64.b64decode(envelope["payload"]), world.parties[0].identity
    (signature,) = envelope["signatures"]
    assert signature["keyid"] == agent.fingerprint
    Ed25519PublicKey.from_public_bytes(agent.public_key).verify(
        base64.b64decode(signature["sig"]),
        b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload,
    )
    receipt = receipts.opened(envelope)
    jsonschema.validate(receipt, schema("receipt"))
    assert receipt["given_back"] is False
    assert b"800000000" not in payload  # both sessions together
    assert b"job_0" not in payload
    ours = check(envelope, Beside(agent=agent.fingerprint))
    assert verdicts(ours) == dict.fromkeys(("envelope", "agent", "charge", "entry"), True)
    assert all(one.holds for one in stranger.check_session(envelope, agent=agent.fingerprint))
    other = world.parties[1].identity.fingerprint
    assert verdicts(check(envelope, Beside(agent=other)))["agent"] is False
    assert any(one.holds is False for one in stranger.check_session(envelope, agent=other))


def test_the_protocols_signature_is_not_relabelled(world: World) -> None:
    """The one that the agent gave in the session is over other bytes: under an envelope it is
    forged."""
    receipt = receipts.opened(world.receipts[0])
    envelope = copy.deepcopy(world.receipts[0])
    envelope["signatures"][0]["sig"] = receipt["entry"]["signature"]
    assert verdicts(check(envelope, Beside()))["envelope"] is False
    assert verdicts(stranger.check_session(envelope))["envelope"] is False


def swapped(world: World, **entry: Any) -> list[dict[str, Any]]:
    first, *rest = world.head["receipts"]
    return [{**first, **entry}, *rest]


LIES: dict[str, tuple[str, Callable[[World], dict[str, Any]]]] = {
    "another owner": (
        "roster",
        lambda world: {"owner_key": base64.b64encode(identity(8).public_key).decode()},
    ),
    "another roster": (
        "roster",
        lambda world: {"roster": world.head["roster"].replace("Ward 0", "Ward 7")},
    ),
    "another session": ("roster", lambda world: {"session": "ses_2"}),
    "another job": ("roster", lambda world: {"job": "job_2"}),
    "another charge": (
        "receipts",
        lambda world: {
            "receipts": swapped(
                world, charge=world.head["receipts"][0]["charge"].replace("500000000", "100000000")
            )
        },
    ),
    "another hash": ("receipts", lambda world: {"receipts": swapped(world, hash="ab" * 32)}),
    "the charge of another job, which the agent has booked": (
        "receipts",
        lambda world: {
            "receipts": swapped(world, **world.parties[0].kept_of(world.parties[0].before))
        },
    ),
    "another place": ("receipts", lambda world: {"receipts": swapped(world, seq=1)}),
    "the signature of another": (
        "receipts",
        lambda world: {
            "receipts": swapped(world, signature=world.head["receipts"][1]["signature"])
        },
    ),
    "one twice": (
        "receipts",
        lambda world: {"receipts": [*world.head["receipts"], world.head["receipts"][0]]},
    ),
    "of nobody on the roster": (
        "receipts",
        lambda world: {"receipts": swapped(world, agent="ab" * 32)},
    ),
    "another's receipt": (
        "receipts",
        lambda world: {
            "receipts": [
                {**one, "agent": two["agent"]}
                for one, two in zip(
                    world.head["receipts"], world.head["receipts"][::-1], strict=True
                )
            ]
        },
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_service_that_lies_is_found_out(world: World, lie: str) -> None:
    """It signs whatever it likes; what owner and agents have signed it cannot change."""
    name, change = LIES[lie]
    envelope = world.sealed(**change(world))
    ours, theirs = verdicts(check(envelope, Beside())), verdicts(stranger.check_session(envelope))
    assert ours["envelope"] is theirs["envelope"] is True
    assert ours[name] is theirs[name] is False


def booked(party: Party, charge: str) -> dict[str, Any]:
    """What this agent says that it has booked, signed by it: any text."""
    entry = party.entry
    digest = signing.booked(entry.link, entry.seq, signing.digest(charge.encode()))
    signature = party.identity.sign(signing.ledger_entry(digest))
    changed = {"hash": digest.hex(), "signature": base64.b64encode(signature).decode()}
    return {**party.kept, "charge": charge, **changed}


@pytest.mark.parametrize(
    "beginning", ['{"job":"job_2",', '{"x":NaN,', '{"x":1e999,', '{"x":"\\ud800",']
)
def test_a_text_that_two_readers_take_for_two_things_is_refused(
    world: World, beginning: str
) -> None:
    """Signed by everyone whom it concerns: a roster, a charge in a head, a charge in a receipt."""
    first = world.parties[0]
    roster, charge = (beginning + one[1:] for one in (world.head["roster"], first.kept["charge"]))
    signature = base64.b64encode(OWNER.sign(signing.roster(roster.encode()))).decode()
    entry = {name: one for name, one in booked(first, charge).items() if name != "charge"}
    receipt = {
        **receipts.opened(world.receipts[0]),
        "charge": charge,
        "server_signature": base64.b64encode(KEY.sign(signing.charge(charge.encode()))).decode(),
        "entry": entry,
    }
    for envelope in (
        world.sealed(roster=roster, roster_signature=signature),
        world.sealed(receipts=swapped(world, **booked(first, charge))),
        receipts.seal(receipt, first.identity),
    ):
        for looked in (check(envelope, Beside()), stranger.check_session(envelope)):
            assert looked[0].holds is True, "it is signed as it stands"
            assert any(one.holds is False for one in looked)


@pytest.mark.parametrize("said", [None, 1, "no", []])
def test_a_receipt_says_whether_it_was_given_back(world: World, said: Any) -> None:
    first = world.parties[0].identity
    envelope = receipts.seal({**receipts.opened(world.receipts[0]), "given_back": said}, first)
    for looked in (check(envelope, Beside()), stranger.check_session(envelope)):
        assert [one for one in looked if one.holds is False]
    schema_of = schema("receipt")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(receipts.opened(envelope), schema_of)


def test_several_signatures(world: World) -> None:
    """Those of keys that nobody named are passed over, whoever they are; one that is named and does
    not fit breaks the envelope, at any place."""
    true = world.sealed()
    message = dsse.encoding(dsse.PAYLOAD, base64.b64decode(true["payload"]))
    (own,) = true["signatures"]

    def by(key: Any, of: Any) -> dict[str, str]:
        public = base64.b64decode(certificates.public_key(of))
        return {
            "keyid": dsse.key_id(public),
            "sig": base64.b64encode(key.sign(message)).decode(),
        }

    other, forged, agents = by(OTHER_KEY, OTHER_KEY), by(OTHER_KEY, KEY), identity(1)
    role = {"keyid": agents.fingerprint, "sig": base64.b64encode(agents.sign(message)).decode()}
    keys = [certificates.public_key(one) for one in (KEY, OTHER_KEY)]
    for signatures, given, holds in (
        ([own, other], [], True),
        ([role, own], keys[:1], True),
        ([own, own], keys, True),
        ([own, forged], [], False),
        ([forged, own], keys, False),
        ([other], [], False),
        ([role], keys[:1], False),  # an agent signs no head
        ([own], keys[1:], False),
        ([], [], False),
        ([{**own, "keyid": own["keyid"].upper()}], [], False),
        ([{"sig": own["sig"]}], [], False),
        ([own, None], [], False),
    ):
        envelope = {**true, "signatures": signatures}
        ours = verdicts(check(envelope, Beside(public_keys=given)))["envelope"]
        theirs = verdicts(stranger.check_session(envelope, given))["envelope"]
        assert (bool(ours), bool(theirs)) == (holds, holds), (signatures, given)


@pytest.mark.parametrize("change", ["key", "twice", "no list"])
def test_a_roster_that_an_owner_has_signed_and_that_is_none(world: World, change: str) -> None:
    roster = json.loads(world.head["roster"])
    if change == "key":
        roster["agents"][0]["key"] = roster["agents"][1]["key"]
    elif change == "twice":
        roster["agents"].append(roster["agents"][0])
    else:
        roster["agents"] = 5
    text = json.dumps(roster)
    signature = base64.b64encode(OWNER.sign(signing.roster(text.encode()))).decode()
    envelope = world.sealed(roster=text, roster_signature=signature)
    for found in (verdicts(check(envelope, Beside())), verdicts(stranger.check_session(envelope))):
        assert (found["envelope"], found["roster"], "receipts" in found) == (True, False, False)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("agent", lambda world: {"agent": world.parties[1].identity.fingerprint}),
        ("charge", lambda world: {"session": "ses_2"}),
        ("charge", lambda world: {"server_key": base64.b64encode(identity(7).public_key).decode()}),
        ("entry", lambda world: {"entry": receipts.opened(world.receipts[1])["entry"]}),
    ],
)
def test_an_agent_that_lies_is_found_out(
    world: World, name: str, change: Callable[[World], dict[str, Any]]
) -> None:
    """It signs its receipt itself; the server's signature and its own ledger's it cannot bend."""
    receipt = {**receipts.opened(world.receipts[0]), **change(world)}
    envelope = receipts.seal(receipt, world.parties[0].identity)
    ours, theirs = verdicts(check(envelope, Beside())), verdicts(stranger.check_session(envelope))
    assert ours["envelope"] is theirs["envelope"] is True
    assert ours[name] is False
    assert theirs["receipt"] is False


def test_what_is_missing_stays_open(world: World) -> None:
    """An agent that has not accepted yet, and a receipt from before they committed to the
    charge."""
    first, *rest = world.head["receipts"]
    old = {name: figure for name, figure in first.items() if name != "link"}
    for kept in (rest, [old, *rest]):
        envelope = world.sealed(receipts=kept)
        assert verdicts(check(envelope, Beside()))["receipts"] is None
        assert verdicts(stranger.check_session(envelope))["receipts"] is None
        jsonschema.validate(session_heads.opened(envelope), schema("session"))


@pytest.mark.parametrize("name", ["session", "roster", "owner", "agents", "rounds", "transcript"])
def test_a_certificate_of_another_session_does_not_fit(world: World, name: str) -> None:
    said = {**world.certificate["federation"], name: 7}
    for other in (
        {**world.certificate, "federation": said},
        {**world.certificate, "job": "job_2"},
        {"job": JOB},
    ):
        assert verdicts(check(world.sealed(), Beside(certificate=other)))["certificate"] is False
        assert (
            verdicts(stranger.check_session(world.sealed(), certificate=other))["certificate"]
            is False
        )
    for field, figure in (("price", {"epsilon": "1", "delta": "0"}), ("ledger_entry", [])):
        other = {**world.certificate, field: figure}
        assert verdicts(check(world.sealed(), Beside(certificate=other)))["certificate"] is False
        assert (
            verdicts(stranger.check_session(world.sealed(), certificate=other))["certificate"]
            is False
        )


def test_a_receipt_of_another_session_is_not_the_one_in_this(world: World) -> None:
    other = world.parties[0].ledger.receipt("job_0")
    assert all(one.holds for one in check(other, Beside()))
    assert verdicts(check(world.sealed(), Beside(receipts=[other])))["receipt"] is False
    assert verdicts(stranger.check_session(world.sealed(), receipts=[other]))["receipt"] is False


def test_whose_key_it_is(world: World) -> None:
    wrong = [certificates.public_key(OTHER_KEY)]
    for envelope, name in ((world.sealed(), "envelope"), (world.receipts[0], "charge")):
        ours, theirs = (
            verdicts(check(envelope, Beside(public_keys=wrong))),
            verdicts(stranger.check_session(envelope, wrong)),
        )
        assert ours[name] == theirs[name]
        assert ours[name] is not True
    assert verdicts(check(world.sealed(), Beside(owner="ab" * 32)))["roster"] is False
    assert verdicts(stranger.check_session(world.sealed(), owner="ab" * 32))["roster"] is False


def test_every_change_is_found_by_both(world: World) -> None:
    """Members of the envelope, bits of the payload, statements that another key has signed: none
    holds as a whole, and both say so. What stays open in the one is open or refused in the
    other."""
    chance = random.Random(3)
    for case in range(400):
        true = world.sealed() if case % 2 else world.receipts[0]
        envelope = altered(true, chance)
        if case % 4 >= 2:
            said = altered(json.loads(base64.b64decode(true["payload"])), chance)
            try:
                payload = canonical.dumps(said)
            except (ValueError, OverflowError, TypeError):
                continue
            sealed = base64.b64encode(OTHER_KEY.sign(dsse.encoding(dsse.PAYLOAD, payload))).decode()
            signatures = [{**true["signatures"][0], "sig": sealed}]
            envelope = {
                **true,
                "payload": base64.b64encode(payload).decode(),
                "signatures": signatures,
            }
        if (
            not isinstance(envelope, dict)
            or envelope == true
            or envelope.get("signatures") == true["signatures"] == []
        ):
            continue
        try:
            ours = all(one.holds for one in check(envelope, Beside()))
        except BadEnvelope:
            ours = False
        try:
            theirs = all(one.holds for one in stranger.check_session(envelope))
        except stranger.Bad:
            theirs = False
        assert ours == theirs, (case, envelope)
        if ours:  # a signature of somebody else was put beside the true one, which is no lie
            assert envelope["payload"] == true["payload"], case


def test_what_a_ledger_cannot_prove_it_does_not_say(world: World, tmp_path: Path) -> None:
    party = world.parties[0]
    with pytest.raises(AgentError, match="no charge"):
        party.ledger.receipt("job_9")
    party = Party(tmp_path, 5)
    party.ledger.release(JOB)
    assert receipts.opened(party.ledger.receipt(JOB))["given_back"] is True
    lines = party.ledger.path.read_text().splitlines()[:1]
    line = json.loads(lines[0])
    body = {name: figure for name, figure in json.loads(line["body"]).items() if name != "blind"}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    found = signing.digest(bytes(32) + text.encode())
    signature = base64.b64encode(party.identity.sign(signing.ledger_entry(found))).decode()
    party.ledger.path.write_text(
        json.dumps({**line, "body": text, "hash": found.hex(), "signature": signature}) + "\n"
    )
    assert len(party.ledger.entries()) == 1  # of an older version, and it verifies as before
    with pytest.raises(AgentError, match="older version"):
        party.ledger.receipt("job_0")


def test_a_head_of_the_ledger_in_an_envelope() -> None:
    head = sign_head("ten_1", [("acc_1", 2, b"h" * 32)], KEY)
    envelope = envelopes.sign_head(head, KEY)
    assert envelopes.opened_head(envelope) == head
    jsonschema.validate(head, schema("ledger-head"))
    rotated = envelopes.sign_head(head, OTHER_KEY)
    with pytest.raises(BadEnvelope):
        envelopes.opened_head(rotated)
    assert envelopes.opened_head(rotated, [certificates.public_key(OTHER_KEY)]) == head
    for wrong in (
        {**envelope, "payloadType": "x"},
        {**envelope, "signatures": []},
        {**envelope, "payload": "e30="},
    ):
        with pytest.raises(BadEnvelope):
            envelopes.opened_head(wrong)
        with pytest.raises(stranger.Bad):
            stranger._head(wrong, ())
    assert stranger._head(envelope, ()) == head


def test_the_commands_read_them(world: World, tmp_path: Path) -> None:
    """Both commands with the files beside one another, and with what is neither: exit 1 and a line,
    no trace."""
    session, receipt, other = (
        tmp_path / name for name in ("session.json", "receipt.json", "other.json")
    )
    session.write_text(json.dumps(world.sealed()))
    receipt.write_text(json.dumps(world.receipts[0]))
    other.write_text(json.dumps({"payloadType": dsse.PAYLOAD, "payload": "W10=", "signatures": 5}))
    for program in (
        [sys.executable, "-m", "discreet", "session", "verify"],
        [sys.executable, str(FILE), "session"],
    ):

        def run(*arguments: str, program: list[str] = program) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*program, *arguments], capture_output=True, text=True, check=False
            )

        done = run(str(session), "--owner", OWNER.fingerprint, "--receipt", str(receipt), "--json")
        assert (done.returncode, json.loads(done.stdout)["valid"]) == (0, True), done.stderr
        done = run(str(session), "--owner", "ab" * 32)
        assert (done.returncode, "BROKEN roster" in done.stdout) == (1, True)
        for wrong in ([other], [session, "--receipt", other], [session, "--receipt", session]):
            done = run(*map(str, wrong))
            assert (done.returncode, "Traceback" in done.stderr) == (1, False), wrong
