"""The secure sum: right sums, what it refuses, and what every kind of failure and deviation ends
in.

Small keys (512 bits) where a key's size is beside the point.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import phe
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray
from scipy.stats import chi2, chisquare

from discreet.solvers.saddle.spds import solve
from discreet_client import paillier, secure_sum
from discreet_client.packing import OutOfRange
from discreet_client.secure_sum import (
    OPERATOR,
    Agent,
    Draws,
    Ended,
    Excluded,
    FileJournal,
    Journal,
    Kind,
    MemoryJournal,
    Missing,
    Operator,
    Outcome,
    Parameters,
    Refused,
    Reused,
    Roster,
    Scheme,
    SecureSumError,
    Tampered,
    Unacceptable,
    Wire,
    discrete_gaussian,
    parse,
    run_in_process,
)
from discreet_client.secure_sum.frames import bitmap
from discreet_client.secure_sum.masks import expand, extract
from discreet_client.updates import Participant, Rounds, Steps
from tests.conftest import first_of
from tests.solvers.test_spds import paper

Floats = NDArray[np.float64]
BITS = 512
SCHEMES: tuple[Scheme, ...] = ("paillier", "masking")
OWN = np.array([100.0, -50.0, 0.25])
RESOLUTION = 2.0**-32


@dataclass
class Vehicle:
    """An agent's optimizer for tests: contributes another vector each round, keeps the sums it is
    shown."""

    index: int
    rounds: int
    sums: list[Floats] = field(default_factory=list)
    done: int = 0

    def value(self, round_: int) -> Floats:
        return np.array([self.index + 1.0, 10.0 * round_, -0.125 * self.index])

    def __call__(self, sums: Floats | None) -> Floats | None:
        if sums is not None:
            self.sums.append(sums)
            self.done += 1
        return None if self.done == self.rounds else self.value(self.done)


@dataclass
class Alone(Vehicle):
    """The sums of its first `alone_for` rounds are of the agents alone."""

    alone_for: int = 1

    @property
    def alone(self) -> bool:
        return self.done < self.alone_for

    def natural(self, entry: int, value: float) -> float:
        return value


def parameters(scheme: Scheme = "paillier", rounds: int = 3, **changes: Any) -> Parameters:
    return replace(Parameters(3, rounds, 1000.0, scheme, BITS, **({"slot_bits": 64} | changes)))


def run(
    agents: int, chosen: Parameters, wire: Wire | None = None, **more: Any
) -> tuple[Outcome, list[Vehicle]]:
    vehicles = [Vehicle(index, chosen.rounds) for index in range(agents)]
    outcome = run_in_process(
        vehicles, OWN, chosen, wire=wire, window=4, _smallest_key_bits=BITS, **more
    )
    return outcome, vehicles


def expected(agents: Sequence[int], round_: int) -> Floats:
    return OWN + np.sum([Vehicle(agent, 0).value(round_) for agent in agents], axis=0)


def assert_opened(vehicles: Sequence[Vehicle], rounds: Sequence[Sequence[int]]) -> None:
    """Each vehicle has seen the right sums over these agents, and no other."""
    for vehicle in vehicles:
        assert len(vehicle.sums) == len(rounds)
        for round_, agents in enumerate(rounds):
            np.testing.assert_allclose(
                vehicle.sums[round_], expected(agents, round_), atol=4 * RESOLUTION, rtol=0
            )


# It works -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("allow_dropout", [False, True])
@pytest.mark.parametrize("agents", [3, 7])
def test_sums(scheme: Scheme, allow_dropout: bool, agents: int) -> None:
    outcome, vehicles = run(agents, parameters(scheme, allow_dropout=allow_dropout, dealer=1))
    assert_opened(vehicles, [range(agents)] * 3)
    assert all(agent.finished for agent in outcome.agents)
    assert outcome.operator.finished
    certificate = outcome.certificate
    assert certificate["rounds"] == 3
    assert {agent.transcript.hex() for agent in outcome.agents} == {certificate["transcript"]}
    assert len(certificate["signatures"]) == agents
    assert ("declared gone" in certificate["reveals"]["agents"]) == allow_dropout
    assert outcome.operator.advance() is None


def test_the_signed_transcript_can_be_checked_by_anybody() -> None:
    """Rebuilt from the frames and the description alone, not with the module's own functions."""
    heard: list[bytes] = []

    def tap(kind: Kind, agent: int, frame: bytes) -> bytes:
        if agent == 0 and kind % 2:
            heard.append(frame)
        return frame

    outcome, _ = run(3, parameters(), tap)
    transcript = hashlib.sha256(b"discreet/secure-sum/v2").digest()
    for frame in heard[:-1]:  # all but CLOSE
        transcript = hashlib.sha256(transcript + hashlib.sha256(frame).digest()).digest()
    assert transcript.hex() == outcome.certificate["transcript"]
    document = heard[0][11 : -64 - 32 - 64]
    modulus = heard[2][11:][11 : 11 + BITS // 8]
    last_sum = hashlib.sha256(heard[-2]).digest()
    for index, agent in enumerate(outcome.agents):
        header = (
            bytes([14]) + (0).to_bytes(4, "big") + (3).to_bytes(4, "big") + index.to_bytes(2, "big")
        )
        statement = (
            b"discreet/secure-sum/v2"
            + hashlib.sha256(b"simulation").digest()
            + hashlib.sha256(document).digest()
            + header
            + hashlib.sha256(modulus).digest()
            + last_sum
            + hashlib.sha256(transcript).digest()
        )
        public = agent.identity.public_key().public_bytes_raw()
        signature = bytes.fromhex(outcome.certificate["signatures"][public.hex()])
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_paper_example_encrypted_and_in_the_clear(scheme: Scheme) -> None:
    """200 rounds, a key of 2048 bits: less than 1e-8 between the encrypted run and its plaintext
    twin."""
    parts, c, d = paper()
    steps, rounds = Steps(0.016, 0.8), 200
    agents = [Participant(part.A_u, part.A_g, part.cost, part.domain, steps) for part in parts]

    run_in_process(
        [Rounds(agent, rounds) for agent in agents],
        np.concatenate([c, d]),
        Parameters(4, rounds, 12.0, scheme, 2048),
        window=4,
    )
    twin = solve(parts, c, d, steps=steps, iterations=rounds)
    rounded = solve(parts, c, d, steps=steps, iterations=rounds, resolution=RESOLUTION)
    for agent, exact, same in zip(agents, twin.x, rounded.x, strict=True):
        assert np.max(np.abs(agent.x - exact)) < 1e-8
        np.testing.assert_array_equal(
            agent.x, same
        )  # the rounded twin is the encrypted run, bit by bit
        assert np.max(np.abs(agent.multipliers - twin.multipliers)) < 1e-8


@pytest.mark.parametrize("scheme", first_of(reversed(SCHEMES)))
def test_two_sums_without_the_operators_part_tell_how_it_ended(scheme: Scheme) -> None:
    """The sizes of rows and the votes, from agents alone: were c in them, here a million times what
    agents use, they would say nothing."""
    parts, _, d = paper()
    asked = Parameters(
        4,
        302,
        2.0**20,
        scheme,
        2048,
        tolerance=1e-3,
        reach=(3.0,) * 4,
        most=(2e6,) * 4,
    )
    updates = [
        Rounds(Participant(p.A_u, p.A_g, p.cost, p.domain, Steps(0.016, 0.8)), 300, asked.asked(3))
        for p in parts
    ]
    far = np.array([1e6, -1e6])
    outcome = run_in_process(updates, np.concatenate([far, d]), asked, window=4)
    assert outcome.operator.opened == 302
    for update in updates:
        assert update._end is not None
        sizes = update._end.sizes
        assert sizes is not None
        x = [one.x for one in updates]
        used = sum(
            np.vstack([abs(p.A_u), abs(p.A_g)]) @ abs(one) for p, one in zip(parts, x, strict=True)
        )
        assert np.all((used / 2 <= sizes + 1e-8) & (sizes <= used + 1e-8))
        assert update.opened == 302


def test_masks_come_from_hkdf_as_rfc_5869_has_it() -> None:
    key = HKDF(SHA256(), 32, salt=None, info=b"info").derive(b"secret")
    assert expand(extract(b"secret"), b"info") == key


def test_frames_tell_nothing_of_magnitudes() -> None:
    """Every frame has the same length whatever the values are."""
    lengths = []
    for scale in (1e-9, 1.0, 900.0):
        seen: list[tuple[Kind, int]] = []

        def tap(kind: Kind, _: int, frame: bytes, seen: list[tuple[Kind, int]] = seen) -> bytes:
            seen.append((kind, len(frame)))
            return frame

        updates = [lambda sums, s=scale: np.full(3, s) if sums is None else None] * 3
        run_in_process(updates, OWN, parameters(), wire=tap, window=4, _smallest_key_bits=BITS)
        lengths.append(seen)
    assert lengths[0] == lengths[1] == lengths[2]


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agents", "changes", "message"),
    [
        (2, {}, "2 agents: with fewer than three"),
        (3, {"key_bits": 1024}, "at least 2048 bits"),
        (3, {"bound": 2.0**30}, "a slot has 64"),
        (3, {"bound": float("nan")}, "no sum"),
        (3, {"colluding": 2}, "of 3 agents 1 to 1 may collude"),
        (3, {"colluding": 0}, "may collude"),
        (3, {"dealer": 3}, "dealer is one of the agents"),
        (3, {"dimension": 0}, "at least 1"),
        (3, {"rounds": 0}, "at least 1"),
        (3, {"scheme": "rot13"}, "no scheme"),
        (3, {"scheme": "masking", "slot_bits": 32}, "slot_bits must be 64"),
        (3, {"noise_sigma": 1.0}, "noise needs"),
        (3, {"noise_sigma": 1e9, "clip": 1.0}, "a slot has 64"),
    ],
)
def test_parameters_that_nobody_accepts(agents: int, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Unacceptable, match=message):
        run_in_process(
            [Vehicle(i, 1) for i in range(agents)],
            OWN,
            replace(Parameters(3, 1, 1000.0), **changes),
        )


def test_quorum() -> None:
    """Two sets of that size share more than t agents; one holds two honest ones at least; without
    dropout it is all."""
    for n in range(3, 40):
        for t in range(1, n - 1):
            quorum = parameters(allow_dropout=True, colluding=t).quorum(n)
            assert 2 * quorum - n > t
            assert quorum >= t + 2
            assert quorum <= n
            assert parameters(colluding=t).quorum(n) == n


@pytest.mark.parametrize("value", [1000.1, -1001, float("nan"), float("inf")])
def test_a_value_over_the_bound_is_an_error(value: float) -> None:
    updates: list[Any] = [Vehicle(0, 1), Vehicle(1, 1), lambda _: np.full(3, value)]
    with pytest.raises(OutOfRange, match="beyond the bound"):
        run_in_process(updates, OWN, parameters(), window=4, _smallest_key_bits=BITS)
    with pytest.raises(OutOfRange, match="beyond the bound"):
        run_in_process(updates, np.full(3, value), parameters(), _smallest_key_bits=BITS)


def test_dimensions_that_disagree() -> None:
    updates: list[Any] = [Vehicle(0, 1), Vehicle(1, 1), lambda _: np.ones(4)]
    with pytest.raises(Unacceptable, match="3 entries"):
        run_in_process(updates, OWN, parameters(), window=4, _smallest_key_bits=BITS)
    with pytest.raises(ValueError, match="3 entries"):
        run_in_process(updates, np.ones(2), parameters(), _smallest_key_bits=BITS)


def test_no_more_sums_than_planned() -> None:
    vehicles = [Vehicle(index, 5) for index in range(3)]
    with pytest.raises(Unacceptable, match="opens at most 2 sums"):
        run_in_process(vehicles, OWN, parameters("masking", rounds=2))
    assert_opened(vehicles[:1], [range(3)] * 2)


def party(
    count: int = 3, **changes: Any
) -> tuple[Ed25519PrivateKey, Ed25519PrivateKey, list[Ed25519PrivateKey], Roster]:
    owner, server = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    identities = [Ed25519PrivateKey.generate() for _ in range(count)]
    roster = Roster(
        "job_1",
        tuple(identity.public_key().public_bytes_raw() for identity in identities),
        server.public_key().public_bytes_raw(),
        parameters("masking", **changes),
    )
    return owner, server, identities, roster


def test_rosters() -> None:
    owner, server, identities, roster = party()
    operator = Operator(server, owner.public_key(), roster.signed(owner), OWN)
    opening = operator.open()
    stranger = Agent(
        Ed25519PrivateKey.generate(), owner.public_key(), Vehicle(0, 1), MemoryJournal()
    )
    with pytest.raises(Unacceptable, match="not in the roster"):
        stranger.answer(opening)
    # Another owner, who an operator that swaps keys would have to be.
    other = Agent(
        identities[0], Ed25519PrivateKey.generate().public_key(), Vehicle(0, 1), MemoryJournal()
    )
    with pytest.raises(Refused, match="not signed by the owner"):
        other.answer(opening)
    with pytest.raises(Unacceptable, match="another operator"):
        Operator(identities[0], owner.public_key(), roster.signed(owner), OWN)
    twice = replace(roster, members=roster.members[:2] * 2)
    with pytest.raises(Unacceptable, match="same key stands twice"):
        Roster.verified(twice.signed(owner), owner.public_key())
    textual = replace(roster, parameters=replace(roster.parameters, rounds="3"))  # type: ignore[arg-type]
    with pytest.raises(Unacceptable, match="parameters cannot be read"):
        Roster.verified(textual.signed(owner), owner.public_key())
    signature = owner.sign(b"discreet/roster/v1" + b"{}")
    with pytest.raises(Unacceptable, match="cannot be read"):
        Roster.verified(b"{}" + signature, owner.public_key())

    def careful(offered: Roster) -> None:
        raise Unacceptable(f"{len(offered.members)} are too few for me")

    agent = Agent(identities[0], owner.public_key(), Vehicle(0, 1), MemoryJournal(), accept=careful)
    with pytest.raises(Unacceptable, match="too few for me"):
        agent.answer(opening)
    with pytest.raises(Ended):
        agent.answer(opening)
    # An OPEN that is not the operator's changes nothing: the right one is answered.
    agent = Agent(identities[0], owner.public_key(), Vehicle(0, 1), MemoryJournal())
    with pytest.raises(Refused):
        agent.answer(opening[:-1] + bytes([opening[-1] ^ 1]))
    assert parse(agent.answer(opening))[0] == Kind.HELLO


# Killed agents ------------------------------------------------------------------------------------


def kill(agent: int, at: Kind, occurrence: int, before: bool) -> Wire:
    """The agent dies at its answer of this kind (the n-th, from 0): before it leaves, or after."""
    state = {"seen": 0, "dead": False}

    def wire(kind: Kind, place: int, frame: bytes) -> bytes | None:
        if place != agent:
            return frame
        if kind == at:
            if state["seen"] == occurrence:
                state["dead"] = True
                state["seen"] += 1
                return None if before else frame
            state["seen"] += 1
        return None if state["dead"] else frame

    return wire


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_dropout_a_killed_agent_ends_the_job(scheme: Scheme) -> None:
    outcome, vehicles = run(4, parameters(scheme), kill(2, Kind.CONTRIBUTION, 1, before=True))
    assert isinstance(outcome.error, Missing)
    assert outcome.error.agents == (2,)
    assert_opened([vehicles[i] for i in (0, 1, 3)], [range(4)])
    # After its message: that sum is whole, and the job ends with the next.
    outcome, vehicles = run(4, parameters(scheme), kill(2, Kind.CONTRIBUTION, 1, before=False))
    assert isinstance(outcome.error, Missing)
    assert_opened([vehicles[i] for i in (0, 1, 3)], [range(4)] * 2)
    with pytest.raises(Ended):
        outcome.operator.advance()


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.DEAL, Kind.ACK])
def test_a_job_starts_with_all(kind: Kind) -> None:
    outcome, vehicles = run(3, parameters(dealer=1), kill(1, kind, 0, before=True))
    assert isinstance(outcome.error, Missing)
    assert outcome.error.agents == (1,)
    assert_opened(vehicles, [])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_with_dropout_the_others_go_on(scheme: Scheme) -> None:
    chosen = parameters(scheme, allow_dropout=True)
    outcome, vehicles = run(5, chosen, kill(2, Kind.CONTRIBUTION, 1, before=True))
    assert outcome.error is None
    rest = [0, 1, 3, 4]
    assert_opened([vehicles[i] for i in rest], [range(5), rest, rest])
    assert set(outcome.operator.signatures) == set(rest)
    # The dealer may go as well; the smallest set of five is four.
    outcome, vehicles = run(5, chosen, kill(0, Kind.CONTRIBUTION, 2, before=True))
    assert_opened(vehicles[1:], [range(5), range(5), [1, 2, 3, 4]])

    def two(kind: Kind, place: int, frame: bytes) -> bytes | None:
        return None if kind == Kind.CONTRIBUTION and place < 2 else frame

    outcome, vehicles = run(5, chosen, two)
    assert isinstance(outcome.error, Missing)
    assert "too few to hide one of them" in str(outcome.error)
    assert_opened(vehicles, [])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", [Kind.AGREEMENT, Kind.RELEASE])
def test_with_dropout_an_agent_killed_after_its_message_ends_the_round_unopened(
    scheme: Scheme, kind: Kind
) -> None:
    outcome, vehicles = run(
        5, parameters(scheme, allow_dropout=True), kill(2, kind, 1, before=True)
    )
    assert isinstance(outcome.error, Missing)
    assert_opened([vehicles[i] for i in (0, 1, 3, 4)], [range(5)])


# Tampering on the way -----------------------------------------------------------------------------


def flipped(frame: bytes, bit: int) -> bytes:
    changed = bytearray(frame)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("allow_dropout", [False, True])
def test_flipped_bits_are_refused_and_the_right_frame_still_counts(
    scheme: Scheme, allow_dropout: bool
) -> None:
    """A bit in every field of every frame, both ways: refused without effect; then the true frame,
    then right sums."""
    rng = np.random.default_rng(5)
    refusals: dict[Kind, int] = {}

    def refused(act: Callable[[bytes], object], kind: Kind, frame: bytes) -> None:
        header, payload, signature = (
            range(11),
            range(11, len(frame) - 64),
            range(len(frame) - 64, len(frame)),
        )
        places = [
            *header,
            *rng.choice(payload, min(6, len(payload)), replace=False),
            *rng.choice(signature, 4),
        ]
        for place in places:
            with pytest.raises((Refused, Unacceptable)):
                act(flipped(frame, 8 * int(place) + int(rng.integers(8))))
            refusals[kind] = refusals.get(kind, 0) + 1
        for short in (b"\x00", frame[:-1], frame + b"\x00"):
            with pytest.raises((Refused, Unacceptable)):
                act(short)

    chosen = parameters(scheme, rounds=2, allow_dropout=allow_dropout)
    vehicles = [Alone(index, 2) for index in range(3)]
    operator, agents = secure_sum.assemble(vehicles, OWN, chosen, window=4, _smallest_key_bits=BITS)
    broadcast: bytes | None = operator.open()
    longest = 0
    while broadcast is not None:
        kind = parse(broadcast)[0]
        for agent in agents:
            refused(agent.answer, kind, broadcast)
            answer = agent.answer(broadcast)
            longest = max(longest, len(answer))
            if answer:
                refused(operator.collect, parse(answer)[0], answer)
                operator.collect(answer)
                operator.collect(answer)  # the same twice does nothing
        broadcast = operator.advance()
    assert operator.finished
    assert longest == secure_sum.longest_answer(
        chosen, 3
    )  # what a server lets in, and no byte more
    for vehicle in vehicles:
        vehicle.sums[0] = vehicle.sums[0] + OWN
    assert_opened(vehicles, [range(3)] * 2)
    unused = set() if allow_dropout else {Kind.PROPOSAL, Kind.AGREEMENT, Kind.AGREED, Kind.RELEASE}
    assert set(refusals) == set(Kind) - unused - {Kind.COMPLAINT}


@pytest.mark.parametrize("allow_dropout", [False, True])
def test_replays_are_refused(allow_dropout: bool) -> None:
    """Every frame of the run so far, again, to everybody, at every step."""
    vehicles = [Vehicle(index, 2) for index in range(3)]
    chosen = parameters("masking", rounds=2, allow_dropout=allow_dropout)
    operator, agents = secure_sum.assemble(vehicles, OWN, chosen)
    log: list[bytes] = []
    broadcast: bytes | None = operator.open()
    while broadcast is not None:
        answers = []
        for agent in agents:
            for old in log:
                with pytest.raises(Refused):
                    agent.answer(old)
            answers.append(agent.answer(broadcast))
            with pytest.raises(Refused):
                agent.answer(broadcast)
        for old in log:
            with pytest.raises(Refused):
                operator.collect(old)
        for answer in answers:
            operator.collect(answer)
        log += [broadcast, *filter(None, answers)]
        broadcast = operator.advance()
    assert_opened(vehicles, [range(3)] * 2)


def test_frames_of_another_job_epoch_or_sender_are_refused() -> None:
    first, _ = run(3, parameters("masking"), lambda kind, agent, frame: frame, job="a")
    assert first.error is None
    owner, server, identities, roster = party()
    operator = Operator(server, owner.public_key(), roster.signed(owner), OWN)
    agents = [
        Agent(identity, owner.public_key(), Vehicle(0, 1), MemoryJournal())
        for identity in identities
    ]
    hellos = [agent.answer(operator.open()) for agent in agents]
    again = Operator(server, owner.public_key(), roster.signed(owner), OWN, epoch=1)
    again.open()
    elsewhere = Operator(
        server, owner.public_key(), replace(roster, job="job_2").signed(owner), OWN
    )
    elsewhere.open()
    for target in (again, elsewhere):
        with pytest.raises(Refused):
            target.collect(hellos[0])
    imitated = hellos[0][:9] + (1).to_bytes(2, "big") + hellos[0][11:]
    with pytest.raises(Refused, match="not signed by agent 1"):
        operator.collect(imitated)
    with pytest.raises(Refused, match="not due"):
        operator.collect(hellos[0][:9] + OPERATOR.to_bytes(2, "big") + hellos[0][11:])


def test_a_dealer_brings_a_key_of_phe() -> None:
    public, key = phe.generate_paillier_keypair(n_length=BITS)
    vehicles = [Vehicle(index, 1) for index in range(3)]
    given: Any = {"window": 4, "key": key, "_smallest_key_bits": BITS}
    outcome = secure_sum.run_in_process(vehicles, OWN, parameters("paillier"), **given)
    assert outcome.operator._public == public
    other = phe.generate_paillier_keypair(n_length=BITS + 16)[1]
    with pytest.raises(paillier.InvalidKey, match=f"{BITS} bits is agreed, this one has"):
        secure_sum.run_in_process(vehicles, OWN, parameters("paillier"), **{**given, "key": other})


# Parties that deviate -----------------------------------------------------------------------------


def other_byte(secret: bytes) -> bytes:
    return bytes([secret[0] ^ 1]) + secret[1:]


def other_key(secret: bytes) -> bytes:
    """Good primes, of another key."""
    key = paillier.generate(BITS, _smallest_bits=BITS)
    return b"".join(int(prime).to_bytes(len(secret) // 2, "big") for prime in (key.p, key.q))


@pytest.mark.parametrize(
    ("scheme", "another"),
    [("paillier", other_byte), ("paillier", other_key), ("masking", other_byte)],
)
def test_a_dealer_that_seals_another_secret_for_somebody(
    scheme: Scheme, another: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    vehicles = [Vehicle(index, 1) for index in range(3)]
    operator, agents = secure_sum.assemble(
        vehicles, OWN, parameters(scheme), window=4, _smallest_key_bits=BITS
    )
    hellos = [agent.answer(opening) for opening in [operator.open()] for agent in agents]
    for hello in hellos:
        operator.collect(hello)
    keys = operator.advance()
    assert keys is not None
    # The dealer's cipher, for agent 2 alone, seals something of the right length that is not the
    # secret.
    sealing = agents[0]._sealing

    class Liar:
        def __init__(self, cipher: Any) -> None:
            self.cipher = cipher

        def encrypt(self, nonce: bytes, secret: bytes, data: bytes) -> bytes:
            return bytes(self.cipher.encrypt(nonce, another(secret), data))

    def lying(dealer: int, recipient: int) -> Any:
        cipher, context = sealing(dealer, recipient)
        return (Liar(cipher) if recipient == 2 else cipher), context

    monkeypatch.setattr(agents[0], "_sealing", lying)
    for agent in agents:
        operator.collect(agent.answer(keys))
    dealt = operator.advance()
    assert dealt is not None
    for agent in agents[:2]:
        operator.collect(agent.answer(dealt))
    with pytest.raises(Tampered, match="dealer"):
        agents[2].answer(dealt)
    with pytest.raises(Missing, match="every agent must have the key"):
        operator.advance()
    assert_opened(vehicles, [])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_dealer_that_deals_different_keys_with_the_operator(scheme: Scheme) -> None:
    """Two authentic DEALs, each agent a consistent one: the acknowledgements do not agree, nobody
    contributes."""
    vehicles = [Vehicle(index, 1) for index in range(4)]
    operator, agents = secure_sum.assemble(
        vehicles, OWN, parameters(scheme), window=4, _smallest_key_bits=BITS
    )
    opening = operator.open()
    for agent in agents:
        operator.collect(agent.answer(opening))
    keys = operator.advance()
    assert keys is not None
    deals = [
        agents[0].answer(keys),
        agents[0]._deal(),
    ]  # the first would be the one of its own state
    for agent in agents[1:]:
        agent.answer(keys)
    dealt = [operator._frame(Kind.DEALT, OPERATOR, deal) for deal in deals]
    acks = [agents[0].answer(dealt[1])] + [
        agent.answer(dealt[place % 2]) for place, agent in enumerate(agents[1:])
    ]
    signatures = b"".join(ack[-64:] for ack in acks)
    for agent, deal in zip(agents, (deals[1], deals[0], deals[1], deals[0]), strict=True):
        # The operator signs, for each agent, a START under the key that this agent has.
        public = parse(deal)[4][: BITS // 8 if scheme == "paillier" else 32]
        operator._fingerprint = hashlib.sha256(public).digest()
        start = operator._frame(Kind.START, OPERATOR, signatures)
        with pytest.raises(Tampered, match="has not signed the same ACK"):
            agent.answer(start)
    assert_opened(vehicles, [])


def started(
    scheme: Scheme, agents: int = 4, rounds: int = 2, **changes: Any
) -> tuple[Operator, list[Agent], list[Vehicle], list[bytes]]:
    """A run up to the contributions of round 0, which are returned and not yet collected."""
    vehicles = [Vehicle(index, rounds) for index in range(agents)]
    chosen = parameters(scheme, rounds=rounds, **changes)
    operator, machines = secure_sum.assemble(
        vehicles, OWN, chosen, window=4, _smallest_key_bits=BITS
    )
    broadcast = operator.open()
    while True:
        answers = [agent.answer(broadcast) for agent in machines]
        if parse(broadcast)[0] == Kind.START:
            return operator, machines, vehicles, answers
        for answer in answers:
            operator.collect(answer)
        following = operator.advance()
        assert following is not None
        broadcast = following


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_operator_that_leaves_somebody_out_or_counts_somebody_twice(scheme: Scheme) -> None:
    for which in ((0, 1, 2), (0, 1, 2, 3, 3), (3,)):
        operator, agents, vehicles, answers = started(scheme)
        for answer in answers:
            operator.collect(answer)
        machine: Any = operator._scheme
        masks = machine.masks([operator._mask_key(OPERATOR, agent) for agent in which], [])
        payload = machine.combine(
            [operator._contributions[agent] for agent in which], operator._own, masks
        )
        frame = operator._frame(Kind.SUM, OPERATOR, payload)
        for agent in agents:
            with pytest.raises(Tampered, match="sum of round 0 is wrong"):
                agent.answer(frame)
            with pytest.raises(Ended):
                agent.answer(frame)
        assert_opened(vehicles, [])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_operator_that_tells_different_sums(scheme: Scheme) -> None:
    """It may shift what it adds itself, differently for each agent; the next sum then opens for
    nobody."""
    operator, agents, vehicles, answers = started(scheme)
    for answer in answers:
        operator.collect(answer)
    true = operator.advance()
    assert true is not None
    machine: Any = operator._scheme
    shift = np.full(3, 5 << 32, dtype=np.int64)
    shifted = machine.combine([machine.accept(parse(true)[4])], shift, machine.masks([], []))
    operator.round -= 1
    now, operator._previous = operator._previous, operator._who.hash
    other = operator._frame(Kind.SUM, OPERATOR, shifted)
    operator.round += 1
    operator._previous = now
    answers = [agent.answer(true) for agent in agents[:3]]
    twisted = agents[3].answer(other)
    np.testing.assert_allclose(vehicles[3].sums[0], expected(range(4), 0) + 5, atol=1e-8)
    for answer in answers:
        operator.collect(answer)
    with pytest.raises(
        Refused, match="not signed by agent 3"
    ):  # an honest operator would not even count it
        operator.collect(twisted)
    operator._collected[3] = Kind.CONTRIBUTION, parse(twisted)[4], twisted[-64:]
    operator._contributions[3] = machine.accept(parse(twisted)[4])
    second = operator.advance()
    assert second is not None
    for agent in agents[:3]:
        with pytest.raises(Tampered, match="sum of round 1 is wrong"):
            agent.answer(second)
    with pytest.raises(Refused):
        agents[3].answer(second)
    assert agents[3].transcript != agents[0].transcript


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "target",
    [Kind.KEYS, Kind.DEALT, Kind.START, Kind.PROPOSAL, Kind.AGREED, Kind.SUM, Kind.CLOSE],
    ids=lambda k: k.name,
)
def test_an_operator_that_alters_what_it_passes_on(scheme: Scheme, target: Kind) -> None:
    """One bit, and its own good signature over it: every agent ends, none goes on with what was
    altered."""
    vehicles = [Vehicle(index, 1) for index in range(3)]
    chosen = parameters(scheme, rounds=1, allow_dropout=True)
    operator, agents = secure_sum.assemble(vehicles, OWN, chosen, window=4, _smallest_key_bits=BITS)
    broadcast = operator.open()
    while True:
        kind, _, round_, _, payload = parse(broadcast)
        if kind == target:
            # The last byte: of a signature, of a ciphertext, of a check word, of the set.
            changed = flipped(payload, 8 * (len(payload) - 1))
            operator.round = round_
            if kind == Kind.SUM:
                operator._previous = operator._who.hash
            if kind == Kind.DEALT:
                operator._fingerprint = bytes(32)
            frame = operator._frame(kind, OPERATOR, changed)
            for agent in agents:
                with pytest.raises(Tampered):
                    agent.answer(frame)
                with pytest.raises(Ended):
                    agent.answer(broadcast)
            assert_opened(vehicles, [range(3)] if target == Kind.CLOSE else [])
            assert not any(agent.finished for agent in agents)
            return
        for agent in agents:
            operator.collect(agent.answer(broadcast))
        following = operator.advance()
        assert following is not None
        broadcast = following


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_operator_that_swaps_a_key(scheme: Scheme) -> None:
    """An X25519 key of its own in place of agent 2's: it is not signed by agent 2."""
    operator, agents = secure_sum.assemble(
        [Vehicle(index, 1) for index in range(3)],
        OWN,
        parameters(scheme),
        window=4,
        _smallest_key_bits=BITS,
    )
    opening = operator.open()
    for agent in agents:
        operator.collect(agent.answer(opening))
    keys = operator.advance()
    assert keys is not None
    payload = bytearray(parse(keys)[4])
    payload[2 * 96 : 2 * 96 + 32] = operator._exchange.public_key().public_bytes_raw()
    swapped = operator._frame(Kind.KEYS, OPERATOR, bytes(payload))
    for agent in agents:
        with pytest.raises(Tampered, match="agent 2 is not signed"):
            agent.answer(swapped)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sum_that_its_terms_cannot_make_is_refused(scheme: Scheme) -> None:
    """What the operator adds of its own is bounded: four terms of at most 1000 do not make 5000."""
    operator, agents, vehicles, answers = started(scheme, 3)
    operator._own = np.array([5000 << 32, 0, 0])
    for answer in answers:
        operator.collect(answer)
    broadcast = operator.advance()
    assert broadcast is not None
    for agent in agents:
        with pytest.raises(Tampered, match="larger than its terms"):
            agent.answer(broadcast)
    assert_opened(vehicles, [])


def bounded(scheme: Scheme, rounds: int = 2, **changes: Any) -> Parameters:
    """Three vehicles come to (6, 30, -.375) at most, the operator adds as much as `OWN`."""
    reach = (3.0, 10.0, 0.25)
    most = tuple(3 * one + abs(own) for one, own in zip(reach, OWN.tolist(), strict=True))
    return parameters(scheme, rounds, **({"reach": reach, "most": most} | changes))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sum_beyond_what_the_owner_has_signed_ends_with_complaints(scheme: Scheme) -> None:
    """One agent adds a million in the second round. All see the same sum, and each honest one
    signs that it cannot be."""

    @dataclass
    class Liar(Vehicle):
        extra: float = 100.0

        def value(self, round_: int) -> Floats:
            return super().value(round_) + np.array([self.extra * (round_ > 0), 0, 0])

    def started_with(liar: Vehicle) -> tuple[Any, list[Any]]:
        updates = [Vehicle(0, 2), Vehicle(1, 2), liar]
        operator, agents = secure_sum.assemble(
            updates, OWN, bounded(scheme), window=4, _smallest_key_bits=BITS
        )
        broadcast: bytes | None = operator.open()
        while broadcast is not None and operator.opened < 2:
            for agent in agents:
                operator.collect(agent.answer(broadcast))
            broadcast = operator.advance()
        return operator, [(agent, agent.answer(broadcast)) for agent in agents]

    operator, answered = started_with(Liar(2, 2))
    for agent, answer in answered:
        assert parse(answer)[:1] + parse(answer)[4:] == (Kind.COMPLAINT, b"")
        said = r"the sum of round 1 is wrong: its entry 0 is \d+, .* at most 109$"
        assert re.match(said, agent.complaint), agent.complaint
        assert not agent.finished
        with pytest.raises(Refused):  # signed by itself alone, for this sum alone
            operator.collect(flipped(answer, 8 * (len(answer) - 5)))
        operator.collect(answer)
        with pytest.raises(Refused, match="is not due"):  # whatever comes now, it goes no further
            agent.answer(operator._frame(Kind.SUM, OPERATOR, b""))
    with pytest.raises(secure_sum.Complained, match="say the agents 0, 1, 2"):
        operator.advance()

    # One that complains of a sum which keeps the bounds ends the job as well, and is named by it.
    operator, answered = started_with(Vehicle(2, 2))
    assert {parse(answer)[0] for _, answer in answered} == {Kind.TRANSCRIPT}
    for _, answer in answered[:2]:
        operator.collect(answer)
    operator.collect(answered[2][0]._complain("a lie"))
    with pytest.raises(secure_sum.Complained, match=r"say the agents 2$"):
        operator.advance()


@pytest.mark.parametrize("scheme", ["masking", "paillier"])
def test_a_sum_of_the_agents_alone_is_without_the_operators_part(scheme: Scheme) -> None:
    vehicles = [Alone(index, 2) for index in range(3)]
    run_in_process(vehicles, OWN, parameters(scheme, 2), window=4, _smallest_key_bits=BITS)
    for vehicle in vehicles:
        np.testing.assert_allclose(vehicle.sums[0], expected(range(3), 0) - OWN, atol=1e-8)
        np.testing.assert_allclose(vehicle.sums[1], expected(range(3), 1), atol=1e-8)


def test_a_machine_goes_on_in_a_sum_of_the_agents_alone() -> None:
    chosen = bounded("masking", reach=(3.0, 0.0), most=(9.0 + abs(float(OWN[0])), 0.0))
    vehicles: list[Alone] = [Alone(index, 2, alone_for=2) for index in range(3)]
    operator, agents = secure_sum.assemble(vehicles, OWN, chosen)
    broadcast = operator.open()
    while operator.opened < 1:
        for agent in agents:
            operator.collect(agent.answer(broadcast))
        broadcast = operator.advance() or b""
    saved = agents[0].state()
    assert json.loads(saved)["alone"] is True
    agents[0].resume(saved)
    assert parse(agents[0].answer(broadcast))[0] == Kind.ALONE


def test_agents_that_differ_in_whether_a_sum_is_theirs_alone_open_nothing() -> None:
    vehicles: list[Vehicle] = [Alone(0, 2), Alone(1, 2), Vehicle(2, 2)]
    with pytest.raises(Tampered, match="agents differ in what they answer"):
        run_in_process(vehicles, OWN, parameters("masking", 2))
    assert not any(vehicle.sums for vehicle in vehicles)


def test_bounds_hold_for_sums_with_the_operators_part_and_for_couplings_alone() -> None:
    """The first sums of `method: auto` are of slopes: how far an agent's variables reach does not
    bound them."""
    least = {"reach": (3.0, 0.0), "most": (9.0 + abs(float(OWN[0])), 0.0)}
    vehicles = [Alone(index, 2, alone_for=2) for index in range(3)]
    run_in_process(vehicles, OWN, bounded("masking", **least))
    assert len(vehicles[0].sums) == 2
    with pytest.raises(secure_sum.Complained):  # entry 1 is 10 a vehicle
        run_in_process([Alone(index, 2) for index in range(3)], OWN, bounded("masking", **least))
    _, others = run(3, bounded("masking", reach=(3.0,), most=(9.0 + abs(float(OWN[0])),)))
    assert len(others[0].sums) == 2


def test_contributions_at_the_end_of_their_reach_are_no_lies() -> None:
    """Sums of large numbers differ from what is signed by their last bits."""

    @dataclass
    class Full(Vehicle):
        def value(self, round_: int) -> Floats:
            return np.full(3, 1e5 * (1 + 2.0**-50))

    own = np.zeros(3)
    chosen = replace(
        parameters("masking", 2), bound=2e5, reach=(1e5,) * 3, most=(3e5 * (1 - 2.0**-48),) * 3
    )
    updates = [Full(index, 2) for index in range(3)]
    run_in_process(updates, own, chosen)
    assert len(updates[0].sums) == 2


def test_agents_that_end_at_different_times_are_told_apart() -> None:
    updates: list[Any] = [Vehicle(0, 2), Vehicle(1, 2), Vehicle(2, 1)]
    with pytest.raises(Tampered, match="agents differ in what they answer"):
        run_in_process(updates, OWN, parameters("masking"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sets_that_are_too_small_or_not_the_same(scheme: Scheme) -> None:
    operator, agents, vehicles, _ = started(scheme, 5, allow_dropout=True)

    def proposal(members: Sequence[int]) -> bytes:
        return operator._frame(Kind.PROPOSAL, OPERATOR, bitmap(members))

    with pytest.raises(Tampered, match="3 summands are too few"):
        agents[0].answer(proposal([0, 1, 2]))
    with pytest.raises(Tampered, match="names agents that do not take part"):
        agents[1].answer(proposal([0, 1, 2, 3, 9]))
    with pytest.raises(Excluded):
        agents[2].answer(proposal([0, 1, 3, 4]))
    # Two sets, each of the least size: an agent signs one of them, and no set gets all its
    # signatures.
    operator, agents, vehicles, _ = started(scheme, 5, allow_dropout=True)
    one, other = (0, 1, 2, 3), (1, 2, 3, 4)
    signed = {
        place: agents[place].answer(proposal(one if place < 3 else other)) for place in range(5)
    }
    with pytest.raises(Refused, match="not due"):
        agents[1].answer(proposal(other))
    for members in (one, other):
        agreed = operator._frame(
            Kind.AGREED, OPERATOR, b"".join(signed[place][-64:] for place in members)
        )
        for place in members:
            if agents[place].ended is None:
                with pytest.raises(Tampered, match="has not signed the same AGREEMENT"):
                    agents[place].answer(agreed)
    assert_opened(vehicles, [])


# Journals and epochs ------------------------------------------------------------------------------


def test_journal_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = FileJournal(path)
    journal.claim("a 0 0 epoch")
    with pytest.raises(Reused, match="another process holds"):
        FileJournal(path)
    with pytest.raises(Reused):
        journal.claim("a 0 0 epoch")
    journal.close()
    with path.open("ab") as file:
        file.write(b"a 0 0 contri")  # cut short by a crash: it may have been sent
    journal = FileJournal(path)
    journal.claim("a 0 1 epoch")
    assert journal.records() == ["a 0 0 epoch", "a 0 0 contri", "a 0 1 epoch"]
    with pytest.raises(Reused):
        journal.claim("a 0 0 contri")
    journal.close()
    assert path.read_text().splitlines() == ["a 0 0 epoch", "a 0 0 contri", "a 0 1 epoch"]
    assert path.stat().st_mode & 0o777 == 0o600


class Spy(MemoryJournal):
    """Records come before frames."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    def claim(self, record: str) -> None:
        super().claim(record)
        self.order.append(record.split()[3])


def test_the_journal_is_written_before_anything_is_sent() -> None:
    order: list[str] = []

    def tap(kind: Kind, agent: int, frame: bytes) -> bytes:
        if agent == 0 and kind in (Kind.HELLO, Kind.DEAL, Kind.CONTRIBUTION, Kind.AGREEMENT):
            order.append(kind.name)
        return frame

    journals: list[Journal] = [Spy(order), MemoryJournal(), MemoryJournal()]
    run(3, parameters("masking", rounds=2, allow_dropout=True), tap, journals=journals)
    assert (
        order
        == ["epoch", "HELLO", "deal", "DEAL"]
        + ["contribution", "CONTRIBUTION", "set", "AGREEMENT"] * 2
    )


def epoch(
    group: tuple[Ed25519PrivateKey, Ed25519PrivateKey, list[Ed25519PrivateKey], Roster],
    vehicles: Sequence[Vehicle],
    journals: Sequence[Journal],
    stop: tuple[Kind, int] | None = None,
    **position: Any,
) -> tuple[Operator, list[Agent]]:
    """One epoch; it stops where agent 2 would answer `stop` (kind, round)."""
    owner, server, identities, roster = group
    operator = Operator(server, owner.public_key(), roster.signed(owner), OWN, **position)
    agents = [
        Agent(
            identity, owner.public_key(), vehicle, journal, draws=Draws(bytes([place])), **position
        )
        for place, (identity, vehicle, journal) in enumerate(
            zip(identities, vehicles, journals, strict=True)
        )
    ]
    broadcast: bytes | None = operator.open()
    while broadcast is not None:
        for agent in agents:
            answer = agent.answer(broadcast)
            if answer and agent is agents[2] and stop == parse(answer)[0:3:2]:
                return operator, agents
            operator.collect(answer)
        broadcast = operator.advance()
    return operator, agents


def test_a_new_epoch_goes_on_from_the_last_sum() -> None:
    """Round 1 breaks. The next epoch begins after it, with other contributions, and the planned
    rounds still count."""
    group = party(rounds=4, allow_dropout=True)
    vehicles, journals = (
        [Vehicle(index, 4) for index in range(3)],
        [MemoryJournal() for _ in range(3)],
    )
    operator, agents = epoch(group, vehicles, journals, stop=(Kind.CONTRIBUTION, 1))
    assert len({agent.last_broadcast for agent in agents} | {operator.last_broadcast}) == 1
    last = operator.last_broadcast
    assert_opened(vehicles, [range(3)])

    def again(**position: Any) -> None:
        epoch(
            group,
            vehicles,
            journals,
            **({"epoch": 1, "first_round": 2, "previous": last} | position),
        )

    with pytest.raises(Reused, match="epoch 0 of this job"):
        again(epoch=0)
    with pytest.raises(Reused, match="round 1 of this job"):
        again(first_round=1)
    with pytest.raises(Reused, match="sent before"):  # the contribution of the round that broke
        again()
    for vehicle in vehicles:
        vehicle.done = 2  # a step on, with the sums at hand
    again(epoch=2)
    assert [len(vehicle.sums) for vehicle in vehicles] == [3] * 3
    for vehicle in vehicles:
        np.testing.assert_allclose(vehicle.sums[1], expected(range(3), 2), atol=1e-8)
        np.testing.assert_allclose(vehicle.sums[2], expected(range(3), 3), atol=1e-8)


def test_an_operator_that_was_killed_is_of_no_use_any_more() -> None:
    """Its successor has neither its X25519 key nor its round: agents refuse, nothing opens."""
    operator, agents, vehicles, answers = started("masking")
    owner = agents[0]._owner
    successor = Operator(
        operator.identity, owner, operator._signed_roster, OWN, _smallest_key_bits=BITS
    )
    opening = successor.open()
    for agent in agents:
        with pytest.raises(Refused):
            agent.answer(opening)
    for answer in answers:
        with pytest.raises(Refused):
            successor.collect(answer)
    assert_opened(vehicles, [])


# Noise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [1, 4, 30])
def test_discrete_gaussian_draws(variance: int) -> None:
    """Chi-square against the exact probabilities; it fails by chance once in 1e11."""
    draws = np.array(discrete_gaussian(variance, 20_000))
    reach = int(4 * variance**0.5)
    weights = np.exp(-(np.arange(-60 * reach, 60 * reach + 1) ** 2) / (2 * variance))
    weights /= weights.sum()
    inner = weights[59 * reach : 61 * reach + 1]
    observed = [int(np.sum(draws == z)) for z in range(-reach, reach + 1)]
    seen = np.array([*observed, draws.size - sum(observed)])
    wanted = draws.size * np.array([*inner, 1 - inner.sum()])
    # Cells with few expected draws go together.
    few = wanted < 100
    assert (
        chisquare([*seen[~few], seen[few].sum()], [*wanted[~few], wanted[few].sum()]).pvalue > 1e-11
    )
    with pytest.raises(ValueError, match="positive integer"):
        discrete_gaussian(0, 1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_noise_in_the_sum(scheme: Scheme) -> None:
    """Of n = 5, t = 1 without dropout: four honest shares make up sigma², so the sum has 5/4 of
    it."""
    sigma, clip, dimension = 0.5, 2.0, 200
    seen: list[Floats] = []

    def update(sums: Floats | None) -> Floats | None:
        if sums is None:
            return np.full(dimension, 10.0)
        seen.append(sums)
        return None

    chosen = Parameters(dimension, 1, 100.0, scheme, BITS, noise_sigma=sigma, clip=clip)
    run_in_process([update] * 5, np.zeros(dimension), chosen, window=4, _smallest_key_bits=BITS)
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0], other)
    noise = seen[0] - 5 * clip / dimension**0.5
    low, high = chi2.ppf([1e-10, 1 - 1e-10], dimension) * 5 / 4 * sigma**2
    assert low < float(noise @ noise) < high
    variance = chosen.share_variance(5) * RESOLUTION**2
    assert sigma**2 / 4 <= variance < sigma**2 / 4 * 1.001
    assert replace(chosen, allow_dropout=True).share_variance(5) * RESOLUTION**2 == pytest.approx(
        sigma**2 / 3
    )


def test_errors_are_one_family() -> None:
    family = (Refused, Unacceptable, Tampered, Missing, Excluded, Reused, Ended)
    assert all(issubclass(error, SecureSumError) for error in family)
