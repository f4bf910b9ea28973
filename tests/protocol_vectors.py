"""`protos/vectors.json`: an example of everything in docs/protocol.md with all its bytes, from the
Python agent's code.

python -m tests.protocol_vectors      writes it; a test compares

Keys come from fixed seeds; what programs draw at random is given to them. Bytes are hexadecimal.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from discreet_agent import Identity, Ledger, Link, Round, paillier, secure_sum
from discreet_agent import ledger as ledger_module
from discreet_agent.best_responses import Responder
from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.federation import history, signing, stream_keys
from discreet_agent.federation.errors import BadLink, NotTrusted
from discreet_agent.federation.rosters import roster_document
from discreet_agent.federation.stream_keys import Exchange
from discreet_agent.multi_agent import step_of
from discreet_agent.packing import FixedPoint, OutOfRange, Packing, box_bound
from discreet_agent.priced_rounds import PricedRounds
from discreet_agent.prices import USUAL, Prices, code, exponent, highest, packed
from discreet_agent.secure_sum import masks
from discreet_agent.secure_sum.frames import HEADER, NOTHING, OPERATOR, PROTOCOL, Kind
from discreet_agent.secure_sum.masks import PaillierScheme
from discreet_agent.settling import Asked, Certificate, Own
from discreet_agent.stubs import federation_pb2 as pb
from discreet_agent.updates import Participant, Rounds, Steps
from tests import edwards

PATH = Path(__file__).parents[1] / "protos" / "vectors.json"
SESSION, JOB = "ses_0example", "job_0example"
NOW_MS = 1_795_500_000_000
Json = dict[str, Any]


def written() -> str:
    """The file as it is to be."""
    return json.dumps(vectors(), indent=1) + "\n"


def vectors() -> Json:
    parties = Parties()
    return {
        "about": "docs/protocol.md says what this is; python -m tests.protocol_vectors writes it",
        "keys": parties.told(),
        "signatures": [edge.told() for edge in edwards.edges()],
        "links": links(parties),
        "statements": statements(parties),
        "exchange": exchange(parties),
        "messages": messages(parties),
        "roster": roster(parties),
        "charge": charge(parties),
        "ledger": ledger(parties),
        "multi_agent": multi_agent(parties),
        "fixed_point": fixed_point(),
        "sums": sums(parties),
        "packing": packing(),
        "paillier": encrypted(),
        "steps": steps(),
        "auto": auto(),
    }


def seed(name: str) -> bytes:
    """32 bytes that follow from a name."""
    return hashlib.sha256(b"discreet test vectors: " + name.encode()).digest()


class Parties:
    """Owner, server, and three agents in the order of their fingerprints."""

    def __init__(self) -> None:
        self.seeds = {name: seed(name) for name in ("owner", "server")}
        drawn = [seed(f"agent {letter}") for letter in "abc"]
        self.agents = sorted(map(_identity, drawn), key=lambda one: one.fingerprint)
        self.seeds |= {
            f"agent_{place}": one.private_key.private_bytes_raw()
            for place, one in enumerate(self.agents)
        }
        self.owner, self.server = _identity(self.seeds["owner"]), _identity(self.seeds["server"])

    def named(self, name: str) -> Identity:
        return _identity(self.seeds[name])

    def told(self) -> Json:
        told = {}
        for name, raw in self.seeds.items():
            one = _identity(raw)
            told[name] = {
                "seed": raw.hex(),
                "public": one.public_key.hex(),
                "fingerprint": one.fingerprint,
            }
        return told

    def roster(
        self, kind: str, announcements: Sequence[Any], parameters: Json | None = None
    ) -> bytes:
        listed = [
            {
                "name": f"x{place + 1}",
                "fingerprint": one.fingerprint,
                "key": _base64(one.public_key),
                "announcement": announcements[place],
            }
            for place, one in enumerate(self.agents)
        ]
        return roster_document(SESSION, JOB, kind, listed, parameters)


def _identity(raw: bytes) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(raw))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# Envelopes and what is signed ---------------------------------------------------------------------


def links(parties: Parties) -> Json:
    server, owner = parties.server.fingerprint, parties.owner.fingerprint
    pins = f"server={server}&owner={owner}"
    good = [
        f"dsc://127.0.0.1:9091/ses_1?token=tok_x&{pins}",
        f"dsc://[::1]:9091/ses_1?{pins}",
        f"dsc://grid.example:443/ses_1?token=a%2Bb&{pins}&tls=ca",
        f"dsc://grid.example:443/ses_1?token=t&{pins}&tls={'0a' * 32}",
    ]
    bad = [
        f"https://127.0.0.1:9091/ses_1?token=t&{pins}",
        f"dsc://127.0.0.1/ses_1?token=t&{pins}",
        f"dsc://127.0.0.1:9091/job_1?token=t&{pins}",
        f"dsc://127.0.0.1:9091/ses_1?token=t&server={server}",
        f"dsc://127.0.0.1:9091/ses_1?token=t&server={server[:-1]}&owner={owner}",
        f"dsc://127.0.0.1:9091/ses_1?token=t&{pins}&tls=yes",
    ]
    read = [Link.parse(text) for text in good]
    for text in bad:
        _raises(BadLink, lambda text=text: Link.parse(text))
    names = ("host", "port", "session", "token", "server", "owner", "tls")
    return {
        "read": [
            {
                "text": text,
                **{name: getattr(one, name) for name in names},
                "loopback": one.is_loopback,
            }
            for text, one in zip(good, read, strict=True)
        ],
        "refused": bad,
    }


def statements(parties: Parties) -> list[Json]:
    content, nonce16, nonce32 = b"content", seed("nonce")[:16], seed("challenge")
    digest, entry = seed("digest"), seed("entry")
    made: list[tuple[str, str, Json, bytes]] = [
        (
            "Enroll",
            "agent_0",
            {"session": SESSION, "nonce": nonce16, "timestamp_ms": NOW_MS, "content": content},
            signing.enrolment(SESSION, nonce16, NOW_MS, content),
        ),
        (
            "Enrolled",
            "server",
            {"session": SESSION, "content": content},
            signing.enrolled(SESSION, content),
        ),
        ("Operator", "server", {"session": "", "content": content}, signing.operator("", content)),
        (
            "Participate",
            "agent_0",
            {
                "session": SESSION,
                "nonce": nonce32,
                "sequence": 2,
                "round": 7,
                "timestamp_ms": NOW_MS,
                "content": content,
            },
            signing.message(SESSION, nonce32, 2, 7, NOW_MS, content),
        ),
        ("Roster", "owner", {"document": content}, signing.roster(content)),
        ("Charge", "server", {"document": content}, signing.charge(content)),
        ("LedgerEntry", "agent_0", {"hash": entry}, signing.ledger_entry(entry)),
        (
            "History",
            "agent_0",
            {"roster_digest": digest, "end": entry},
            signing.history(digest, entry),
        ),
    ]
    return [
        {
            "purpose": purpose,
            "signer": signer,
            "fields": {
                name: one.hex() if isinstance(one, bytes) else one for name, one in fields.items()
            },
            "statement": statement.hex(),
            "signature": parties.named(signer).sign(statement).hex(),
        }
        for purpose, signer, fields, statement in made
    ]


def _of_stream(side: str) -> Exchange:
    """The X25519 key of `server` or `agent` for the stream of these vectors."""
    return Exchange(X25519PrivateKey.from_private_bytes(seed(f"exchange {side}")))


def _challenge(parties: Parties) -> bytes:
    challenge = pb.Challenge(
        nonce=seed("challenge"),
        timestamp_ms=NOW_MS,
        public_key=parties.server.public_key,
        exchange=_of_stream("server").public,
    )
    return bytes(pb.OperatorContent(challenge=challenge).SerializeToString())


def _hello(parties: Parties) -> bytes:
    hello = pb.Hello(
        session=SESSION,
        public_key=parties.agents[0].public_key,
        nonce=seed("challenge"),
        exchange=_of_stream("agent").public,
    )
    return bytes(pb.AgentContent(hello=hello).SerializeToString())


def exchange(parties: Parties) -> Json:
    """The key of a stream's contributions, which both sides derive, and public keys that both
    refuse."""
    server, agent = _of_stream("server"), _of_stream("agent")
    contents = SESSION, _challenge(parties), _hello(parties)
    key = agent.key(server.public, *contents)
    assert server.key(agent.public, *contents) == key
    refused = [bytes(32), (1).to_bytes(32, "little"), edwards.P.to_bytes(32, "little"), bytes(31)]
    for public in refused:
        _raises(ValueError, lambda public=public: agent.key(public, *contents))
    return {
        **{
            side: {"private": seed(f"exchange {side}").hex(), "public": one.public.hex()}
            for side, one in (("server", server), ("agent", agent))
        },
        "challenge": contents[1].hex(),
        "hello": contents[2].hex(),
        "info": signing.contribution_key(*contents).hex(),
        "key": key.hex(),
        "refused": [public.hex() for public in refused],
    }


def messages(parties: Parties) -> Json:
    """Whole messages as they travel."""
    agent, server, nonce = parties.agents[0], parties.server, seed("challenge")
    key = _of_stream("agent").key(
        _of_stream("server").public, SESSION, _challenge(parties), _hello(parties)
    )
    enrolment = pb.Enrolment(
        token="tok_x",
        name="x1",
        unit="trajectory",
        cap_epsilon="0.5",
        cap_delta="0",
        announcement=b'{"lower":-1,"upper":1}',
        speaks=["discreet/multi-agent/v1"],
    ).SerializeToString()
    asked = signing.enrolment(SESSION, nonce[:16], NOW_MS, enrolment)
    request = pb.EnrollRequest(
        session=SESSION,
        public_key=agent.public_key,
        nonce=nonce[:16],
        timestamp_ms=NOW_MS,
        content=enrolment,
        signature=agent.sign(asked),
    )
    enrolled = pb.Enrolled(session=SESSION, account="acc_1", nonce=nonce[:16]).SerializeToString()
    response = pb.EnrollResponse(
        public_key=server.public_key,
        content=enrolled,
        signature=server.sign(signing.enrolled(SESSION, enrolled)),
    )
    answer = pb.AgentContent(
        contribution=pb.Contribution(body=b"body", answers=signing.digest(b"broadcast"))
    )

    def from_agent(data: bytes, sequence: int, number: int, **proof: Any) -> str:
        made = pb.AgentMessage(
            content=data, round=number, sequence=sequence, timestamp_ms=NOW_MS, **proof
        )
        return str(made.SerializeToString().hex())

    def from_server(session: str, data: bytes) -> str:
        made = pb.OperatorMessage(
            content=data, signature=server.sign(signing.operator(session, data))
        )
        return str(made.SerializeToString().hex())

    def told(**content: Any) -> str:
        return from_server(SESSION, pb.OperatorContent(**content).SerializeToString())

    hello, contribution = _hello(parties), bytes(answer.SerializeToString())
    greeting = signing.message(SESSION, nonce, 0, 0, NOW_MS, hello)
    answering = signing.message(SESSION, nonce, 2, 5, NOW_MS, contribution)
    asked_round = pb.Round(
        number=5, broadcast=b"broadcast", transcript=seed("transcript"), milliseconds=30_000
    )
    end = pb.End(
        state="succeeded", broadcast=b"last", transcript=seed("transcript"), rounds=6, charged=True
    )
    return {
        "session": SESSION,
        "nonce": nonce.hex(),
        "timestamp_ms": NOW_MS,
        "EnrollRequest": request.SerializeToString().hex(),
        "EnrollResponse": response.SerializeToString().hex(),
        "Hello": from_agent(hello, 0, 0, signature=agent.sign(greeting)),
        "Contribution": from_agent(contribution, 2, 5, mac=stream_keys.mac(key, answering)),
        "Challenge": from_server("", _challenge(parties)),
        "Waiting": told(waiting=pb.Waiting(**{"for": "roster"})),
        "Round": told(round=asked_round),
        "End": told(end=end),
    }


def roster(parties: Parties) -> Json:
    document = parties.roster("multi_agent", [{"lower": -1.0, "upper": 2.5, "radius": 1.0}] * 3)
    return {
        "document": document.decode(),
        "digest": signing.digest(document).hex(),
        "signature": parties.owner.sign(signing.roster(document)).hex(),
    }


def _charge(parties: Parties, job: str, epsilon: str) -> bytes:
    body = {
        "version": 1,
        "session": SESSION,
        "job": job,
        "agent": parties.agents[0].fingerprint,
        "account": "acc_1",
        "price": {"epsilon": epsilon, "delta": "1000000000000"},
        "unit": "trajectory",
        "neighbours": "one agent’s state",
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def charge(parties: Parties) -> Json:
    document = _charge(parties, JOB, "500000000")
    return {
        "document": document.decode(),
        "digest": signing.digest(document).hex(),
        "signature": parties.server.sign(signing.charge(document)).hex(),
        "price": {"epsilon": "0.5", "delta": "0.000001"},
    }


def ledger(parties: Parties) -> Json:
    """Two charges and a release, as the agent's file holds them, and what Accept carries of each
    charge."""
    agent, server = parties.agents[0], parties.server
    receipts = []
    with TemporaryDirectory() as folder:
        book = Ledger(Path(folder) / "agent.ledger", agent)
        with (
            mock.patch.object(ledger_module.time, "time_ns", return_value=NOW_MS * 1_000_000),
            mock.patch.object(
                ledger_module.secrets, "token_hex", lambda size: seed("blind")[:size].hex()
            ),
        ):
            for job, epsilon in ((JOB, "500000000"), ("job_another", "250000000")):
                document = _charge(parties, job, epsilon)
                entry = book.charge(
                    document, server.sign(signing.charge(document)), server.public_key
                )
                receipts.append(
                    {
                        "charge_digest": signing.digest(document).hex(),
                        "ledger_seq": entry.seq,
                        "ledger_link": entry.link.hex(),
                        "hash": entry.hash.hex(),
                        "ledger_signature": entry.signature.hex(),
                    }
                )
            book.release("job_another")
        lines = book.path.read_text().splitlines()
    return {"lines": lines, "receipts": receipts}


# multi_agent --------------------------------------------------------------------------------------


def multi_agent(parties: Parties) -> Json:
    """Three agents, two constraints, three steps: what the first of them answers to each
    broadcast."""
    announcements = [{"lower": -1.0, "upper": 2.5, "radius": 1.0}] * 3
    document = parties.roster("multi_agent", announcements)
    digest = signing.digest(document)
    parameters = {
        "box": [["x1", -1.0, 2.0], ["x2", -1.0, 2.5], ["x3", -1.0, 2.5]],
        "units": [1.0, 1.0, 1.0, 1.0],
        "layout": [[0, None], [1, None], [0, "x1"], [1, "x2"]],
        "schedule": {"gamma": 0.25, "alpha": 0.125, "c1": 0.5, "c2": 0.25, "iterations": 3},
    }
    spoken = [[0.0, 0.0], [0.5, -0.25, 1.5, 2.0, 0.125, 0.0], [0.4, 0.1, 1.25, 2.0, 0.2, 0.05]]
    spoken.append([0.3, 0.0, -1.0, 2.0, 0.25, 0.04])
    broadcasts: list[bytes] = []
    for figures in spoken:
        before = history.after(broadcasts[-1]) if broadcasts else history.BEGINNING
        broadcasts.append(before + struct.pack(f"!{len(figures)}d", *figures))
    step = step_of(lambda x: 2 * (x - 0.75), 1.5)
    answers, states = [], []
    state = b""
    for number, broadcast in enumerate(broadcasts):
        current = _round(parties, document, parameters, number, broadcast, state)
        answers.append(step(current).hex())
        state = current.state
        states.append(json.loads(state)["x"])
    wrong = seed("another broadcast") + broadcasts[2][32:]
    before = _round(
        parties,
        document,
        parameters,
        2,
        wrong,
        _state_after(parties, document, parameters, broadcasts[:2]),
    )
    _raises(NotTrusted, lambda: step(before))
    end = history.after(broadcasts[-1])
    signatures = {one.fingerprint: one.sign(signing.history(digest, end)) for one in parties.agents}
    forged = {**signatures, parties.agents[2].fingerprint: bytes(64)}
    listed = [{"fingerprint": one.fingerprint, "key": one.public_key} for one in parties.agents]
    return {
        "roster": document.decode(),
        "roster_digest": digest.hex(),
        "rounds": len(broadcasts),
        "parameters": parameters,
        "slope": "2 (x - 0.75)",
        "initial": 1.5,
        "agent": "agent_0",
        "spoken": spoken,
        "broadcasts": [one.hex() for one in broadcasts],
        "states": states,
        "answers": answers,
        "does_not_follow": {"number": 2, "broadcast": wrong.hex()},
        "end": {
            "history": end.hex(),
            "broadcast": (broadcasts[-1] + history.packed(signatures)).hex(),
            "unsigned": history.unsigned(digest, listed, end, signatures),
            "forged_broadcast": (broadcasts[-1] + history.packed(forged)).hex(),
            "forged_unsigned": history.unsigned(digest, listed, end, forged),
        },
    }


def _round(
    parties: Parties,
    document: bytes,
    parameters: Json,
    number: int,
    broadcast: bytes,
    state: bytes,
    rounds: int = 4,
) -> Round:
    return Round(
        number=number,
        rounds=rounds,
        broadcast=broadcast,
        state=state,
        seconds=30.0,
        agent=parties.agents[0].fingerprint,
        roster=json.loads(document),
        parameters=parameters,
        transcript=b"",
        roster_digest=signing.digest(document),
        identity=parties.agents[0],
    )


def _state_after(
    parties: Parties, document: bytes, parameters: Json, broadcasts: Sequence[bytes]
) -> bytes:
    step, state = step_of(lambda x: 2 * (x - 0.75), 1.5), b""
    for number, broadcast in enumerate(broadcasts):
        current = _round(parties, document, parameters, number, broadcast, state)
        step(current)
        state = current.state
    return state


# Encrypted sums -----------------------------------------------------------------------------------


def fixed_point() -> list[Json]:
    """What is encoded, or refused; and the largest magnitudes."""
    asked: list[tuple[float, int, int, list[float]]] = [
        (8.0, 4, 4, [0.0, 0.03125, 0.09375, -0.03125, -0.09375, 7.99, -8.0, 0.1]),
        (100.0, 4, 32, [1.0, -1.0, 1 / 3, -2 / 3, 99.999999999, 1e-10, 1.2e-10]),
        (2.0**28, 4, 32, [2.0**28, -(2.0**28), 12345678.9]),
        (0.1, 4, 8, [0.1, -0.05]),
        (1.0, 4, 8, [1.0000001]),
        (1.0, 4, 8, [math.nan]),
        (2.0**30, 4, 32, []),
        (2.0**64, 4, 0, []),
    ]
    made = []
    for bound, terms, fraction_bits, values in asked:
        row: Json = {"bound": bound, "terms": terms, "fraction_bits": fraction_bits}
        row["values"] = [None if math.isnan(one) else one for one in values]
        try:
            point = FixedPoint(bound, terms, fraction_bits)
            row["largest"] = str(point.largest)
            encoded = point.encode(np.array(values))
        except OutOfRange:
            made.append({**row, "refused": True})
            continue
        row["encoded"] = [str(one) for one in encoded]
        row["decoded"] = point.decode(encoded).tolist()
        made.append(row)
    return made


class Given:
    """An optimizer that contributes what it is told to."""

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        self.values, self.seen = values, list[list[float]]()

    def __call__(self, opened: Any) -> Any:
        if opened is not None:
            self.seen.append(opened.tolist())
        return None if len(self.seen) == len(self.values) else np.array(self.values[len(self.seen)])

    def settled(self, tolerance: float) -> bool:
        return tolerance > 0.5


VALUES = [
    [[1.5, -2.0], [0.25, 0.1]],
    [[3.0, 1 / 3], [-7.75, 2.0]],
    [[-0.5, 4.0], [99.0, -0.001]],
]
OWN = [10.0, -4.5]
PARAMETERS = secure_sum.Parameters(
    dimension=2, rounds=2, bound=100.0, scheme="masking", exposure="accepted", tolerance=0.25
)


BOUNDED = replace(PARAMETERS, reach=(4.0, 5.0), most=(28.0, 23.0))
"""The second sum is beyond it: its first entry is 101.5."""


class Run:
    """The operator and three agents, whose secrets are given."""

    def __init__(self, parties: Parties, parameters: secure_sum.Parameters = PARAMETERS) -> None:
        self.parties = parties
        self.operator_identity = _identity(seed("operator"))
        members = tuple(one.public_key for one in parties.agents)
        self.roster = secure_sum.Roster(
            "0123456789abcdef", members, self.operator_identity.public_key, parameters
        )
        self.operator = secure_sum.Operator(
            self.operator_identity.private_key, self._signed, self.roster.document, np.array(OWN)
        )
        self.operator._exchange = _exchange("operator")
        self.agents = [self.agent(place) for place in range(3)]

    def _signed(self, document: bytes) -> bool:
        return document == self.roster.document

    def agent(self, place: int) -> secure_sum.Agent:
        made = secure_sum.Agent(
            self.parties.agents[place].private_key,
            self._signed,
            Given(VALUES[place]),
            secure_sum.MemoryJournal(),
            draws=GroupKey(),
        )
        made._exchange = _exchange(f"agent {place}")
        return made

    def frame(self, kind: Kind, payload: bytes, like: bytes, **changes: Any) -> bytes:
        """A broadcast of the operator's with another payload (or header), well signed, in the place
        of `like`."""
        number, epoch, round_, sender = HEADER.unpack_from(like)
        header = HEADER.pack(
            changes.get("kind", kind),
            changes.get("epoch", epoch),
            changes.get("round", round_),
            changes.get("sender", sender),
        )
        assert number == kind
        fingerprint, previous = changes["context"]
        context = PROTOCOL.encode() + signing.digest(self.roster.job.encode()) + self.roster.hash
        statement = context + header + fingerprint + previous + signing.digest(payload)
        return header + payload + self.operator_identity.sign(statement)


def _exchange(name: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(seed(f"exchange of {name}"))


class GroupKey(secure_sum.Draws):
    """The dealer's only draw."""

    def bytes(self, size: int) -> bytes:
        return seed("group key")[:size]


def sums(parties: Parties) -> Json:
    """A run of three agents over two sums, whole, and broadcasts that end an agent."""
    group_key = seed("group key")
    run = Run(parties)
    broadcasts: list[bytes] = []
    answers: list[list[bytes]] = []
    keys: list[Json] = []
    broadcast: bytes | None = run.operator.open()
    while broadcast is not None:
        broadcasts.append(broadcast)
        answers.append([agent.answer(broadcast) for agent in run.agents])
        kind = secure_sum.parse(broadcast)[0]
        if kind in (Kind.START, Kind.SUM) and not run.operator.finished:
            keys.append(_round_keys(run))
        for answer in answers[-1]:
            run.operator.collect(answer)
        broadcast = run.operator.advance()
    refused = refusals(run, broadcasts)
    complained = complaint(parties)
    optimizers = [agent._update for agent in run.agents]
    opened = optimizers[0].seen  # type: ignore[attr-defined]
    assert all(agent.finished for agent in run.agents)
    dealer = run.agents[0]
    info = [dealer._sealing(0, other)[1].hex() for other in (1, 2)]
    return {
        "parameters": PARAMETERS.fields,
        "roster": run.roster.document.decode(),
        "roster_hash": run.roster.hash.hex(),
        "operator": {
            "seed": seed("operator").hex(),
            "public": run.operator_identity.public_key.hex(),
        },
        "exchange": {
            name: {
                "private": _exchange(name).private_bytes_raw().hex(),
                "public": _public(_exchange(name)),
            }
            for name in ("operator", "agent 0", "agent 1", "agent 2")
        },
        "shared": {
            f"{one} {other}": run.agents[one]._shared[other].hex()
            for one, other in ((0, 1), (0, 2), (0, OPERATOR))
        },
        "group_key": group_key.hex(),
        "public_part": masks.commitment(group_key).hex(),
        "sealing": {"info": info, "stream_of_group_key": masks.stream(group_key, 80).hex()},
        "own": OWN,
        "values": VALUES,
        "rounds": keys[:2],
        "broadcasts": [one.hex() for one in broadcasts],
        "answers": [[one.hex() for one in of] for of in answers],
        "opened": opened,
        "verdict": "unsettled",
        "transcript": run.agents[0].transcript.hex(),
        "refusals": refused,
        "complaint": complained,
    }


def complaint(parties: Parties) -> Json:
    """The same contributions under bounds that the second sum passes: what agents answer to it."""
    run = Run(parties, BOUNDED)
    broadcasts, answers = [run.operator.open()], list[list[bytes]]()
    while len(broadcasts) < 6:
        answers.append([agent.answer(broadcasts[-1]) for agent in run.agents])
        for answer in answers[-1]:
            run.operator.collect(answer)
        broadcast = run.operator.advance()
        assert broadcast is not None
        broadcasts.append(broadcast)
    answers.append([agent.answer(broadcasts[-1]) for agent in run.agents])
    for answer in answers[-1]:
        run.operator.collect(answer)
    _raises(secure_sum.Complained, run.operator.advance)
    return {
        "parameters": BOUNDED.fields,
        "broadcasts": [one.hex() for one in broadcasts],
        "answers": [[one.hex() for one in of] for of in answers],
        "says": [agent.complaint for agent in run.agents],
    }


def _round_keys(run: Run) -> Json:
    """Keys of the masks and pads that the agents have just used."""
    first = run.agents[0]
    if not first._expected or first._expected[0] != Kind.SUM:
        return {}
    return {
        "previous": first.last_broadcast.hex(),
        "transcript": first._bound.hex(),
        "masks": {
            f"{one} {other}": run.agents[one]._mask_key(one, other).hex()
            for one, other in ((0, 1), (0, 2), (1, 2), (0, OPERATOR))
        },
        "pads": [key.hex() for key in first._pads(range(3))],
    }


def _public(key: X25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def refusals(run: Run, broadcasts: Sequence[bytes]) -> list[Json]:
    """Broadcasts that agent 1 does not answer after so many good ones, and whether its machine has
    then ended."""
    opening, keys, dealt, start, first, second, close = broadcasts
    roster_hash = run.roster.hash
    fingerprint = signing.digest(masks.commitment(seed("group key")))
    early, late = (NOTHING, roster_hash), (fingerprint, roster_hash)
    payload = {one: secure_sum.parse(one)[4] for one in broadcasts}
    other = _public_raw("nobody")
    swapped = payload[keys][:96] + other + payload[keys][128:]
    stolen = payload[keys][:192] + other + payload[keys][224:]
    deal = payload[dealt]
    words = np.frombuffer(payload[first], dtype="<u8").copy()
    words[-1:] += np.uint64(1)
    far = np.frombuffer(payload[first], dtype="<u8").copy()
    far[:1] += np.uint64(1 << 62)
    asked: list[tuple[str, int, bytes]] = [
        ("a frame that is too short", 0, opening[:70]),
        ("a kind that does not exist", 0, b"\x63" + opening[1:]),
        ("OPEN with a signature that does not hold", 0, _flipped(opening, -1)),
        ("OPEN with another parameter", 0, opening.replace(b'"rounds":2', b'"rounds":3')),
        ("KEYS before OPEN", 0, keys),
        ("OPEN once more", 1, opening),
        (
            "KEYS of another round",
            1,
            run.frame(Kind.KEYS, payload[keys], keys, context=early, round=1),
        ),
        (
            "KEYS of another epoch",
            1,
            run.frame(Kind.KEYS, payload[keys], keys, context=early, epoch=1),
        ),
        (
            "KEYS from an agent",
            1,
            run.frame(Kind.KEYS, payload[keys], keys, context=early, sender=2),
        ),
        (
            "KEYS with a key of agent 2 that it has not signed",
            1,
            run.frame(Kind.KEYS, stolen, keys, context=early),
        ),
        (
            "KEYS with another key for this agent",
            1,
            run.frame(Kind.KEYS, swapped, keys, context=early),
        ),
        (
            "KEYS without the last agent",
            1,
            run.frame(Kind.KEYS, payload[keys][:-96], keys, context=early),
        ),
        (
            "DEALT whose DEAL is not signed by the dealer",
            2,
            run.frame(Kind.DEALT, _flipped(deal, 20), dealt, context=early),
        ),
        ("DEALT with a secret that does not open", 2, _forged_deal(run, deal, dealt, early)),
        (
            "START with an ACK that does not hold",
            3,
            run.frame(Kind.START, _flipped(payload[start], 70), start, context=late),
        ),
        (
            "SUM with wrong check words",
            4,
            run.frame(Kind.SUM, words.tobytes(), first, context=late),
        ),
        (
            "SUM beyond what its terms can make",
            4,
            run.frame(Kind.SUM, far.tobytes(), first, context=late),
        ),
        (
            "SUM with a word too few",
            4,
            run.frame(Kind.SUM, payload[first][:-8], first, context=late),
        ),
        ("SUM with a signature that does not hold", 4, _flipped(first, -1)),
        ("the SUM of the round before once more", 5, first),
        ("CLOSE before the last SUM", 5, close),
        (
            "CLOSE with a signature over another verdict",
            6,
            _other_verdict(run, close, fingerprint, signing.digest(second)),
        ),
    ]
    told = []
    for name, after, broadcast in asked:
        agent = run.agent(1)
        for good in broadcasts[:after]:
            agent.answer(good)
        error = _raises(
            secure_sum.SecureSumError,
            lambda agent=agent, broadcast=broadcast: agent.answer(broadcast),
        )
        told.append(
            {
                "name": name,
                "after": after,
                "broadcast": broadcast.hex(),
                "error": {"Refused": "not_due", "Tampered": "tampered"}[type(error).__name__],
                "ended": agent.ended is not None,
            }
        )
    return told


def _public_raw(name: str) -> bytes:
    return bytes.fromhex(_public(_exchange(name)))


def _flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def _forged_deal(run: Run, deal: bytes, dealt: bytes, context: tuple[bytes, bytes]) -> bytes:
    """The dealer itself seals something else for agent 1."""
    inner = _flipped(secure_sum.parse(deal)[4], 40)
    dealer = run.parties.agents[0]
    header = HEADER.pack(Kind.DEAL, 0, 0, 0)
    base = PROTOCOL.encode() + signing.digest(run.roster.job.encode()) + run.roster.hash
    statement = base + header + context[0] + context[1] + signing.digest(inner)
    return run.frame(Kind.DEALT, header + inner + dealer.sign(statement), dealt, context=context)


def _other_verdict(run: Run, close: bytes, fingerprint: bytes, previous: bytes) -> bytes:
    """Agent 2 has signed `settled`, the others `unsettled`."""
    base = PROTOCOL.encode() + signing.digest(run.roster.job.encode()) + run.roster.hash
    said = run.agents[2].transcript + b"settled"
    header = HEADER.pack(Kind.TRANSCRIPT, 0, 2, 2)
    signature = run.parties.agents[2].sign(
        base + header + fingerprint + previous + signing.digest(said)
    )
    payload = secure_sum.parse(close)[4][:128] + signature
    return run.frame(Kind.CLOSE, payload, close, context=(fingerprint, previous))


# Packed slots and Paillier ------------------------------------------------------------------------


def packing() -> list[Json]:
    made = []
    for bits, slot, values in (
        (2048, 64, [1, -1, 2**62, -(2**62), 0, 7]),
        (2048, 32, [5, -6, 2**30]),
        (256, 64, [1, -1, 2**40, -7, 3]),
    ):
        packed = Packing(len(values), bits, slot)
        words = packed.pack(np.array(values, dtype=np.int64))
        assert packed.unpack(words).tolist() == values
        made.append(
            {
                "modulus_bits": bits,
                "slot_bits": slot,
                "values": [str(one) for one in values],
                "slots": packed.slots,
                "plaintexts": [str(one) for one in words],
            }
        )
    return made


class Fixed:
    """Obfuscators that are given."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.given = list(given)

    def draw(self, count: int) -> list[Any]:
        drawn, self.given = self.given[:count], self.given[count:]
        return drawn


def encrypted() -> Json:
    """Two agents' contributions under one key, masked against each other, and their opened sum. The
    key is of 1024 bits, which no agent accepts, to be short."""
    p, q = (_prime(f"prime {name}", 512) for name in "pq")
    key = paillier.private_key(p, q)
    parameters = secure_sum.Parameters(dimension=3, rounds=1, bound=100.0, key_bits=1024)
    mask = seed("mask")
    bases = [
        [int.from_bytes(seed(f"r {agent} {word}") * 4, "big") for word in range(1)]
        for agent in (0, 1)
    ]
    public = key.public_key
    contributions, told = [], []
    vectors_ = [np.array([5, -7, 2**40], dtype=np.int64), np.array([-1, 9, 1], dtype=np.int64)]
    for agent, values in enumerate(vectors_):
        powers = [paillier.powmod(paillier.mpz(r), public.n, public.nsquare) for r in bases[agent]]
        scheme = PaillierScheme(parameters, public, key, Fixed(powers))  # type: ignore[arg-type]
        signs = ([mask], []) if agent == 0 else ([], [mask])
        payload = scheme.contribute(values, scheme.masks(*signs))
        contributions.append(scheme.accept(payload))
        told.append(
            {
                "values": values.tolist(),
                "r": [hex(r) for r in bases[agent]],
                "contribution": payload.hex(),
            }
        )
    total = paillier.to_bytes(public, paillier.product(public, contributions))
    opened = PaillierScheme(parameters, public, key, Fixed([])).open(total)  # type: ignore[arg-type]
    return {
        "p": str(key.p),
        "q": str(key.q),
        "n": str(public.n),
        "slot_bits": 64,
        "mask": mask.hex(),
        "agents": told,
        "product": total.hex(),
        "opened": opened.tolist(),
    }


def _prime(name: str, bits: int) -> int:
    """The first prime from a seeded number on, its two top bits set."""
    drawn = b"".join(seed(f"{name} {part}") for part in range(bits // 256))
    candidate = int.from_bytes(drawn, "big") | 3 << (bits - 2) | 1
    while not paillier.is_prime(paillier.mpz(candidate), paillier.PRIMALITY_REPETITIONS):
        candidate += 2
    return candidate


# Steps --------------------------------------------------------------------------------------------


def steps() -> Json:
    """An agent's x and multipliers over sums that are given, and what it says of them."""
    data: Mapping[str, Any] = {
        "A_u": [[1.0, 0.5], [0.0, -1.0]],
        "A_g": [[2.0, 1.0]],
        "A_q": [[1.0, 0.25], [0.0, 0.5]],
        "a_l": [-1.0, 0.75],
        "lower": [0.1, -1.0],
        "upper": [2.0, 1.0],
    }
    chosen = {"primal": 0.1, "dual": 0.3, "shrink": 0.9, "regularization": 0.01, "iterations": 14}
    taken = Steps(*(chosen[name] for name in ("primal", "dual", "shrink", "regularization")))
    asked = Asked(1e-3, 3, 1024.0, 2.0**-31, np.array([9.0, 9.0, 9.0]))
    begin = np.array([1.0, -0.5])
    given = [[1.0 + 0.5**k, -0.5 + 0.25**k, 0.125 - 0.3 * 0.5**k] for k in range(14)]
    given += [[4.0, 2.0, 6.0], [1024.0, 0.0, 0.0]]  # sizes, and one vote against

    def rounds_of(own: Mapping[str, Any], start: Any, steps: Steps, iterations: int) -> Rounds:
        part = {name: np.array(one, dtype=np.float64) for name, one in own.items()}
        cost = QuadraticCost(part["A_q"].reshape(-1, part["a_l"].size), part["a_l"])
        box = Box(part["lower"], part["upper"])
        one = Participant(part["A_u"], part["A_g"], cost, box, steps)
        made = Rounds(one, iterations, asked, lambda size: np.full(size, 0.75))
        made.participant.x = np.array(start)
        return made

    rounds = rounds_of(data, begin, taken, int(chosen["iterations"]))
    seen, opened = [], None
    for one in [None, *given]:
        opened = None if one is None else np.array(one)
        sent = rounds(opened)
        seen.append(
            {
                "contribution": None if sent is None else sent.tolist(),
                "x": rounds.participant.x.tolist(),
                "multipliers": rounds.participant.multipliers.tolist(),
            }
        )
    # What an agent votes: at its best point, beside it, with a cost that is flat, at a bound.
    plain = {**chosen, "shrink": 1.0, "iterations": 1}
    steady = Steps(0.1, 0.3, 1.0, 0.01)
    sums = np.array([1.25, -0.25, -0.5])
    sizes = [4.0, 2.0, 6.0]
    votes = []
    for changes in ({}, {"A_q": []}, {"a_l": [5.0, -9.0]}):
        own = {**data, **changes}
        one = rounds_of(own, begin, steady, 1).participant
        part = Own(one.A_u, one.A_g, one.cost, one.domain, 0.01)
        best = begin
        for _ in range(200):
            best = part._best(sums[:2], np.zeros(1), best)[0]
        for start in (best, best * 1.01 + 0.01):
            voting = rounds_of(own, start, steady, 1)
            for opened in (None, sums, np.array(sizes)):
                sent = voting(opened)
            assert sent is not None
            votes.append({**changes, "begin": start.tolist(), "against": bool(sent[0] > 0)})
    assert [one["against"] for one in votes[:2]] == [False, True]
    verdicts = []
    for excess, price, size, against in (
        (-1.0, 0.0, 4.0, 0),
        (-1.0, 0.5, 4.0, 0),
        (2.0**-9, 0.5, 4.0, 0),
        (2.0**-8, 0.5, 4.0, 0),
        (-(2.0**-9), 0.5, 4.0, 0),
        (2.0**-9, 0.5, 4.0, 1),
        (0.0, 0.5, 0.0, 0),
        (1.0, 0.0, 0.0, 0),
        (2.0**-30, 0.0, 2.0**-24, 0),
        (-1.0, 0.0, -1.0, 0),
        (-1.0, 0.0, 10.0, 0),
    ):
        end = Certificate(asked, 2)
        end.sizes, end.votes = np.array([4.0, 2.0, size]), against
        said = end.settled(np.array([1.0, 1.0, excess]), np.array([price]))
        verdicts.append(
            {"excess": excess, "price": price, "size": size, "votes": against, "settled": said}
        )
    return {
        **data,
        "steps": chosen,
        "begin": begin.tolist(),
        "asked": {
            "tolerance": asked.tolerance,
            "agents": asked.agents,
            "bound": asked.bound,
            "rounding": asked.rounding,
            "ceiling": [9.0, 9.0, 9.0],
        },
        "draw": 0.75,
        "sums": given,
        "after": seen,
        "settled": rounds.settled(1e-3),
        "violations": rounds.violations.tolist(),
        "votes": {"steps": plain, "sums": sums.tolist(), "sizes": sizes, "agents": votes},
        "verdicts": verdicts,
    }


def auto() -> Json:
    """Three agents of method auto from their first sum to their end, with what they draw."""
    data: list[Json] = [
        {"A": [[0.5, 0.25], [1.0, 0.0]], "A_q": [[1.0, 0.5], [0.0, 1.0]], "a_l": [-4.0, -1.0]},
        {"A": [[0.25, -0.5], [1.0, 1.0]], "A_q": [[1.5, 0.0], [0.25, 1.0]], "a_l": [-6.0, 0.5]},
        {"A": [[1.0, 0.0], [0.5, 1.0]], "A_q": [[0.75, 0.0], [0.0, 2.0]], "a_l": [-3.0, -9.0]},
    ]
    lower, upper, own = [0.0, -1.0], [5.0, 4.0], np.array([1.5, -3.0])
    bits, bound, figures = 32, 2.0**26, np.array([2.0, 4.0])
    box = Box(np.array(lower), np.array(upper))
    reach = [box_bound(np.array(one["A"]), *box.sides) for one in data]
    largest = np.max([*reach, figures], axis=0)
    exponents = [exponent(bound, float(one)) for one in largest]
    grid = 2.0**-bits
    agents, drawn = [], []
    for place, one in enumerate(data):
        draws: list[list[float]] = []

        def uniform(
            size: int, place: int = place, draws: list[list[float]] = draws
        ) -> NDArray[np.float64]:
            raw = hashlib.shake_256(seed(f"auto {place} {len(draws)}")).digest(8 * size)
            found = (np.frombuffer(raw, dtype="<u8") >> np.uint64(11)) * 2.0**-53
            draws.append(found.tolist())
            return found

        cost = QuadraticCost(np.array(one["A_q"]), np.array(one["a_l"]))
        responder = Responder(np.array(one["A"]), cost, box, 1, figures, uniform)
        prices = Prices(1, figures, bound, grid, 3, exponents)
        agents.append(PricedRounds(responder, prices, 80))
        drawn.append(draws)
    rounds, sums = [], None
    while True:
        told = [agent(sums) for agent in agents]
        first = agents[0].prices
        if told[0] is None:
            break
        sent = [np.rint(np.asarray(one) / grid) for one in told]
        total = np.sum(sent, axis=0)
        if not agents[0].alone:
            total = total + np.rint(np.append(np.ldexp(own, exponents), 0.0) / grid)
        sums = total * grid
        rounds.append(
            {
                "due": first.due.value,
                "asked": first.asked.tolist(),
                "slope_exponents": first.slope_exponents.tolist(),
                "contributions": [[str(int(entry)) for entry in one] for one in sent],
                "sum": [str(int(entry)) for entry in total],
            }
        )
    return {
        "agents": data,
        "lower": lower,
        "upper": upper,
        "operator": own.tolist(),
        "coupled": 1,
        "bound": bound,
        "fraction_bits": bits,
        "tolerance": USUAL,
        "rows": {"exponents": exponents, "figures": figures.tolist()},
        "draws": drawn,
        "rounds": rounds,
        "x": [agent.x.tolist() for agent in agents],
        "multipliers": agents[0].multipliers.tolist(),
        "settled": first.settled,
        "codes": {
            "figures": [0.0, 1e-9, 0.25, 1.0, 1.5, 1e12],
            "codes": [code(one) for one in (0.0, 1e-9, 0.25, 1.0, 1.5, 1e12)],
            "packed": [str(packed(one)) for one in (0, 1, 64, 127)],
            "highest": [
                [str(total), highest(total)]
                for total in (0, packed(70), 3 * packed(70), packed(60) + packed(70) + packed(90))
            ],
        },
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _raises(expected: type[Exception], work: Callable[[], Any]) -> Exception:
    try:
        work()
    except expected as error:
        return error
    raise AssertionError(f"no {expected.__name__} was raised")


if __name__ == "__main__":
    PATH.write_text(written())
