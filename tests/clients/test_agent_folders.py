"""An agent's folder that is lost, or put back from a copy: a second answer says nothing new."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent import Demands, Round, coupled_qp, secure_sum
from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.federation.errors import FolderLost, Unfit
from discreet_agent.federation.identity import Identity
from discreet_agent.ledger import Ledger
from discreet_agent.secure_sum import frames
from discreet_agent.settling import SUMS

STEPS = {"primal": 0.05, "dual": 0.2, "shrink": 1.0, "regularization": 0.0, "iterations": 6}
ROWS = {"exponents": [5, 4], "figures": [1.0, 4.0]}
"""Of method auto, for the reach (2.5, 5) of an agent and these figures of the operator."""
GRID = 2.0**-32


@dataclass
class Party:
    """What a run needs of an agent: its key, and a journal in a folder."""

    identity: Identity
    journal_path: Path


@dataclass
class Place:
    """One agent with its folder: `state` is what the session keeps of it."""

    party: Party
    need: float
    run: coupled_qp._Run = field(init=False)
    state: bytes = b""

    def __post_init__(self) -> None:
        self.begin()

    def begin(self, need: float | None = None) -> None:
        """A new process with what lies in the folder."""
        wanted = self.need if need is None else need
        cost = QuadraticCost(np.array([[1.0]]), np.array([-2.0 * wanted]))
        data = (np.array([[0.5]]), np.array([[1.0]]), cost, Box(np.zeros(1), np.full(1, 5.0)))
        self.run = coupled_qp._Run(self.party, data, None, Demands(exposure="accepted"))  # type: ignore[arg-type]

    def answer(self, number: int, broadcast: bytes, roster: dict[str, Any]) -> bytes:
        current = Round(
            number=number,
            rounds=20,
            broadcast=broadcast,
            state=self.state,
            seconds=1.0,
            agent=self.party.identity.fingerprint,
            roster=roster,
            parameters={},
            transcript=b"",
            roster_digest=bytes(32),
            price={"epsilon": "1000000000", "delta": "999999999999999999"},
        )
        said = self.run(current)
        self.state = current.state
        if current.on_saved is not None:
            current.on_saved()
        return said


class Session:
    """An operator and three agents, one of which has its folder copied."""

    def __init__(self, folder: Path, method: str, **changes: Any) -> None:
        auto = method == "auto"
        settling = not auto and "tolerance" in changes
        parameters = secure_sum.Parameters(
            **{
                "dimension": 3 if auto else 2,
                "rounds": STEPS["iterations"] + (SUMS if settling else 0),
                "bound": 128.0,
                "scheme": "masking",
                "exposure": None if "noise_sigma" in changes else "accepted",
                "tolerance": 1e-3 if auto else None,
                **changes,
            }  # type: ignore[arg-type]
        )
        self.agents, self.rounds = [], parameters.rounds
        for place, need in enumerate((2.0, 3.0, 4.0)):
            (folder / str(place)).mkdir()
            party = Party(Identity.generate(), folder / str(place) / "session.journal")
            self.agents.append(Place(party, need))
        keys = [one.party.identity.public_key for one in self.agents]
        self.roster = {
            "job": "job_x",
            "agents": [{"key": base64.b64encode(key).decode()} for key in keys],
            "parameters": {
                "coupled": 1,
                "constraints": 1,
                "sums": parameters.fields,
                "steps": STEPS,
                "method": method,
                **({"rows": ROWS} if auto else {}),
            },
        }
        self.key = Ed25519PrivateKey.generate()
        signed = secure_sum.Roster(
            "x", tuple(keys), self.key.public_key().public_bytes_raw(), parameters
        )
        own = np.array([32.0, -48.0, 0.0] if auto else [1.0, -3.0])
        self.operator = secure_sum.Operator(
            self.key, lambda document: document == signed.document, signed.document, own
        )
        self.broadcast: bytes = self.operator.open()
        self.number = 0

    def step(self) -> list[bytes]:
        """One exchange; what the agents have answered."""
        answers = [one.answer(self.number, self.broadcast, self.roster) for one in self.agents]
        for answer in answers:
            self.operator.collect(answer)
        following = self.operator.advance()
        assert following is not None
        self.broadcast, self.number = following, self.number + 1
        return answers

    def forged(self, frame: bytes, by: int) -> bytes:
        """A sum whose first entry is another, which the operator signs as well: a wrong sum that
        agents cannot tell from a right one."""
        kind, epoch, round_, sender, payload = secure_sum.parse(frame)
        words = np.frombuffer(payload, dtype="<u8").copy()
        words[0] += np.uint64(by)
        changed = words.tobytes()
        operator = self.operator
        previous, operator._previous = operator._previous, self.before
        operator.round -= 1
        statement = operator._statement(kind, sender, round_, changed)
        operator.round += 1
        operator._previous = previous
        header = frames.HEADER.pack(kind, epoch, round_, sender)
        return header + changed + self.key.sign(statement)


def copied(session: Session, folder: Path) -> bytes:
    """The whole folder of agent 0, as a snapshot has it."""
    shutil.copy(session.agents[0].party.journal_path, folder / "copy")
    return session.agents[0].state


def put_back(session: Session, folder: Path, state: bytes, **data: Any) -> Place:
    agent = session.agents[0]
    agent.run.leave()
    shutil.copy(folder / "copy", agent.party.journal_path)
    agent.state = state
    agent.begin(**data)
    return agent


def entries(answer: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(secure_sum.parse(answer)[4], dtype="<u8")


NOISE = {"noise_sigma": 5.0, "clip": 10.0}


SETTLING = {"tolerance": 1e-3}


@pytest.mark.parametrize(
    ("method", "changes"),
    [("spds", {}), ("spds", SETTLING), ("auto", {}), ("spds", NOISE)],
    ids=str,
)
def test_a_folder_put_back_says_nothing_new(
    tmp_path: Path, method: str, changes: dict[str, Any]
) -> None:
    """Before, haze, noise and the dealer's key were drawn anew under the same masks: the difference
    of the two answers was A(x1 - x2), or that of two draws of the noise, for the server alone. Of
    sizes it was a multiple of |A||x|."""
    session = Session(tmp_path, method, **changes)
    while not session.operator.finished:
        state = session.agents[0].state
        if state:
            state = copied(session, tmp_path)
        session.before = session.operator._previous  # type: ignore[attr-defined]
        number, broadcast = session.number, session.broadcast
        (first, *_) = session.step()
        if not state:
            continue
        agent = put_back(session, tmp_path, state)
        assert agent.answer(number, broadcast, session.roster) == first
    assert session.operator.opened == session.rounds


@pytest.mark.parametrize("method", ["spds", "auto"])
def test_after_another_broadcast_it_answers_under_other_masks(tmp_path: Path, method: str) -> None:
    session = Session(tmp_path, method)
    for _ in range(5):
        session.before = session.operator._previous  # type: ignore[attr-defined]
        session.step()
    state, number, broadcast = copied(session, tmp_path), session.number, session.broadcast
    forged = session.forged(broadcast, 1 << 20)
    (first, *_) = session.step()
    agent = put_back(session, tmp_path, state)
    second = agent.answer(number, forged, session.roster)
    apart = (entries(second) - entries(first)).view(np.int64)
    assert np.all(np.abs(apart.astype(float)) * GRID > 1000)  # no difference of two contributions


def test_masks_follow_from_all_broadcasts(tmp_path: Path) -> None:
    """Of the setup as well, which does not change `previous`."""
    session = Session(tmp_path, "spds")
    for _ in range(4):
        session.step()
    machine = session.agents[0].run._machine
    assert machine is not None
    mask = machine._mask_key(0, 1)
    machine._bound = bytes(32)
    assert machine._mask_key(0, 1) != mask


def test_other_data_are_refused_within_a_session(tmp_path: Path) -> None:
    session = Session(tmp_path, "spds")
    for _ in range(5):
        session.step()
    state = copied(session, tmp_path)
    agent = put_back(session, tmp_path, state, need=2.5)
    with pytest.raises(Unfit, match="data are not those"):
        agent.answer(session.number, session.broadcast, session.roster)


def test_a_lost_folder_is_called_that(tmp_path: Path) -> None:
    session = Session(tmp_path, "spds")
    for _ in range(5):
        session.step()
    agent = session.agents[0]
    agent.run.leave()
    agent.state = b""
    agent.begin()
    with pytest.raises(FolderLost, match="it was lost"):
        agent.answer(session.number, session.broadcast, session.roster)


def test_a_state_older_than_its_journal_is_called_that(tmp_path: Path) -> None:
    session = Session(tmp_path, "spds")
    for _ in range(5):
        session.step()
    state = session.agents[0].state
    session.step()
    agent = session.agents[0]
    agent.run.leave()
    agent.begin()
    ledger = Ledger(tmp_path / "ledger", agent.party.identity)
    with pytest.raises(FolderLost, match="older copy"):
        agent.run.check(session.roster, {"epsilon": "0", "delta": "0"}, ledger, state)


def test_a_session_that_has_ended_leaves_no_keys(tmp_path: Path) -> None:
    session = Session(tmp_path, "spds")
    while True:
        before = session.number
        session.step()
        if session.operator.finished:
            break
        assert session.number == before + 1
    agent = session.agents[0]
    kept = agent.run.without_secrets(agent.state)
    machine = json.loads(json.loads(agent.state)["machine"])
    for name in coupled_qp.SECRETS:
        assert name in machine
        for secret in [machine[name]] if isinstance(machine[name], str) else []:
            assert secret.encode() not in kept
    assert agent.run.opened(kept) == 12
    agent.run.leave()
    agent.begin()
    found = agent.run.close(session.roster, kept, session.broadcast)
    assert found.rounds == 6
