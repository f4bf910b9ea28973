"""Machines that go on in another process: at every phase, and never with a second answer to one
round."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from discreet_agent.secure_sum import (
    Agent,
    Ended,
    FileJournal,
    MemoryJournal,
    Operator,
    Parameters,
    Refused,
    Reused,
    Roster,
    Scheme,
    Unacceptable,
    unsigned,
)

Floats = NDArray[np.float64]
BITS = 512
ROUNDS = 3
OWN = np.array([10.0, -4.0])
VALUES = np.array([[1.0, 2.0], [3.0, -5.0], [0.5, 0.25]])


class Sums:
    """An optimizer whose state is public to the test: it contributes its value times the round's
    number."""

    def __init__(self, value: Floats) -> None:
        self.value, self.seen = value, list[Floats]()

    def __call__(self, sums: Floats | None) -> Floats | None:
        if sums is not None:
            self.seen.append(sums)
        return None if len(self.seen) == ROUNDS else self.value * (len(self.seen) + 1)


class Parties:
    """Three agents and an operator whose roster travels unsigned: somebody else has checked what
    the owner signed."""

    def __init__(self, scheme: Scheme, **changes: Any) -> None:
        self.identities = [Ed25519PrivateKey.generate() for _ in VALUES]
        self.operator_identity = Ed25519PrivateKey.generate()
        parameters = Parameters(
            dimension=2, rounds=ROUNDS, bound=100.0, scheme=scheme, key_bits=BITS, **changes
        )
        members = tuple(one.public_key().public_bytes_raw() for one in self.identities)
        operator = self.operator_identity.public_key().public_bytes_raw()
        self.roster = Roster("job_x", members, operator, parameters)
        self.journals = [MemoryJournal() for _ in VALUES]
        self.optimizers = [Sums(value) for value in VALUES]
        self.operator = self.new_operator()
        self.agents = [self.new_agent(place) for place in range(3)]

    def new_operator(self) -> Operator:
        trust, document = self.trust, self.roster.document
        return Operator(self.operator_identity, trust, document, OWN, _smallest_key_bits=BITS)

    def new_agent(self, place: int) -> Agent:
        identity, journal = self.identities[place], self.journals[place]
        return Agent(
            identity, self.trust, self.optimizers[place], journal, window=4, _smallest_key_bits=BITS
        )

    def trust(self, document: bytes) -> bool:
        return document == self.roster.document

    def restart_operator(self) -> None:
        state = self.operator.state()
        self.operator = self.new_operator()
        self.operator.resume(state)

    def restart_agent(self, place: int) -> None:
        state = self.agents[place].state()
        self.agents[place] = self.new_agent(place)
        self.agents[place].resume(state)


def expected(number: int) -> Floats:
    return OWN + VALUES.sum(axis=0) * (number + 1)


@pytest.mark.parametrize("scheme", ["paillier", "masking"])
def test_everybody_restarts_after_every_phase(scheme: Scheme) -> None:
    parties = Parties(scheme)
    broadcast: bytes | None = parties.operator.open()
    while broadcast is not None:
        parties.restart_operator()
        answers = []
        for place in range(3):
            answers.append(parties.agents[place].answer(broadcast))
            parties.restart_agent(place)
        for answer in answers:
            parties.operator.collect(answer)
        parties.restart_operator()  # what had been collected is asked for again
        for answer in answers:
            parties.operator.collect(answer)
        broadcast = parties.operator.advance()
    for optimizer in parties.optimizers:
        assert np.array(optimizer.seen) == pytest.approx(
            np.array([expected(n) for n in range(ROUNDS)])
        )
    assert all(agent.finished for agent in parties.agents)
    certificate = parties.operator.certificate()
    assert unsigned(certificate) == []
    assert certificate["rounds"] == ROUNDS


def test_a_decision_that_was_not_saved_is_not_taken_again() -> None:
    """The agent dies after writing its journal, before its state: the round is closed to it,
    nothing is sent."""
    parties = Parties("masking")
    broadcast = parties.operator.open()
    for _ in range(4):
        before = [agent.state() if agent.roster else b"" for agent in parties.agents]
        for answer in [agent.answer(broadcast) for agent in parties.agents]:
            parties.operator.collect(answer)
        following = parties.operator.advance()
        assert following is not None
        last, broadcast = broadcast, following
    again = parties.new_agent(1)
    again.resume(before[1])
    with pytest.raises(Reused):
        again.answer(last)
    with pytest.raises(Ended):
        again.answer(last)


def test_a_roster_that_nobody_vouches_for_is_refused() -> None:
    parties, others = Parties("masking"), Parties("masking")
    with pytest.raises(Refused):
        parties.agents[0].answer(others.operator.open())
    parties.agents[0].answer(parties.operator.open())


def test_machines_with_dropout_or_at_their_end_are_not_saved() -> None:
    parties = Parties("masking", allow_dropout=True)
    with pytest.raises(Ended):
        parties.agents[0].state()
    parties.agents[0].answer(parties.operator.open())
    with pytest.raises(Ended):
        parties.agents[0].state()


def test_evidence_shows_who_has_not_signed() -> None:
    parties = Parties("masking")
    broadcast: bytes | None = parties.operator.open()
    while broadcast is not None:
        for answer in [agent.answer(broadcast) for agent in parties.agents]:
            parties.operator.collect(answer)
        broadcast = parties.operator.advance()
    certificate = parties.operator.certificate()
    names = [member.hex() for member in parties.roster.members]
    for field, value in (
        ("transcript", "00" * 32),
        ("last_sum", "11" * 32),
        ("key", "22" * 32),
        ("round", 9),
    ):
        assert unsigned({**certificate, field: value}) == names
    forged = copy.deepcopy(certificate)
    forged["signatures"][names[1]] = forged["signatures"][names[0]]
    assert unsigned(forged) == [names[1]]
    with pytest.raises(Unacceptable):
        unsigned({**certificate, "roster": "{}"})


def test_two_processes_do_not_share_a_journal(tmp_path: Any) -> None:
    journal = FileJournal(tmp_path / "journal")
    with pytest.raises(Reused):
        FileJournal(tmp_path / "journal")
    journal.close()
    FileJournal(tmp_path / "journal").close()
