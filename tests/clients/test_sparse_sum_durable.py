"""An agent of a sparse sum that dies and comes back answers nothing twice, whatever a server asks.

Here a death is a folder taken up by a new object; `test_sparse_sum_processes.py` kills processes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from discreet_agent.secure_sum.errors import Missing, Refused, Reused, Tampered, Unacceptable
from discreet_agent.sparse_sum import (
    Conductor,
    Demands,
    DurableAgent,
    Group,
    Plan,
    Roster,
    Step,
    answer,
    durable,
)
from discreet_agent.sparse_sum.conversation import HEAD
from discreet_agent.sparse_sum.group import digest
from discreet_agent.sparse_sum.wire import NONCE, SEALED, Kind, bitmap, members_to, statement

AGENTS, ROUNDS = 12, 6
PLAN = Plan.choose(AGENTS, 2, ROUNDS, gamma=0.1, delta=0.25)
KEYS = [Ed25519PrivateKey.generate() for _ in range(AGENTS)]
PUBLIC = tuple(key.public_key().public_bytes_raw() for key in KEYS)
OWNER = Ed25519PrivateKey.generate()
OWNER_KEY = OWNER.public_key().public_bytes_raw()
ROSTER = Roster("a run", PLAN, PUBLIC)
DEMANDS = Demands(corrupt=0.1, sigma=0.0, rounds=ROUNDS, exposure="accepted")


def values_of(place: int, number: int) -> Any:
    return np.array([10**place, number + place], dtype=np.int64)


@pytest.fixture(autouse=True)
def _memory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims are counted in a folder of the test's own."""
    monkeypatch.setattr(durable, "MEMORIES", (str(tmp_path_factory.mktemp("memory")),))


@dataclass
class Run:
    """Twelve agents with folders below one, and a server that keeps what it was told."""

    root: Path
    roster: Roster = ROSTER
    conductor: Conductor = field(init=False)
    refused: dict[int, str] = field(default_factory=dict)
    heard: dict[Step, dict[int, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.agents = {place: self.born(place) for place in range(AGENTS)}
        self.conductor = Conductor(self.roster)

    def born(self, place: int) -> DurableAgent:
        return DurableAgent(KEYS[place], self.root / str(place), self.roster, DEMANDS)

    def kill(self, *places: int) -> None:
        for place in places:
            self.agents.pop(place).close()

    def come_back(self, *places: int) -> None:
        self.agents |= {place: self.born(place) for place in places}

    def say(self, place: int, message: bytes) -> bytes:
        return answer(self.agents[place], message, lambda number: values_of(place, number))

    def step(self) -> Any:
        """Everybody that lives answers; then the next step."""
        self.refused = {}
        for place, message in self.conductor.messages.items():
            if place in self.agents:
                try:
                    said = self.say(place, message)
                    self.heard.setdefault(self.conductor.step, {})[place] = said
                    self.conductor.take(place, said)
                except Refused as error:
                    self.refused[place] = str(error)
        return self.conductor.advance()

    def until(self, step: Step) -> bytes:
        """To the beginning of this step; what agent 0 is told there."""
        while self.conductor.step is not step:
            self.step()
        return self.conductor.messages.get(0, b"")

    def over(self, *places: int) -> Run:
        """The same after the deaths and returns of these, one after the other."""
        for place in places:
            self.kill(place)
            self.come_back(place)
        return self


def total(places: Iterable[int], number: int) -> list[int]:
    return sum(values_of(place, number) for place in places).tolist()


def test_agents_die_in_every_step_and_come_back_in_the_next_round(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.until(Step.SHARES)
    everybody = set(range(AGENTS))
    for number in range(ROUNDS):
        gone = {(number + at) % AGENTS for at in (1, 5, 9)}
        early, shared, later = sorted(gone)
        run.kill(early)
        run.step()
        run.come_back(early)
        run.over(shared)  # has told its shares, and lost its secrets
        run.step()
        assert set(run.refused) == {shared}  # who was not there at all is not asked
        run.over(later)  # its vector is in the server's hands
        run.step()
        found = run.step()
        assert set(run.refused) == {later}
        assert run.conductor.summed == everybody - {early, shared}
        assert found.tolist() == total(run.conductor.summed, number)
    assert run.conductor.done


def test_an_agent_that_came_back_has_no_second_answer(tmp_path: Path) -> None:
    """Each message of the round once more, before and after its deaths: shares and votes are
    claimed, the rest has no secrets left to be made of."""
    run = Run(tmp_path)
    place, told = -1, {}
    for step in (Step.SHARES, Step.CONTRIBUTE, Step.VOTE, Step.RELEASE):
        run.until(step)
        place = min(run.conductor.messages) if place < 0 or step is Step.VOTE else place
        told[step] = run.conductor.messages
    for step, messages in told.items():
        for who, message in messages.items():
            if step is not Step.RELEASE:
                with pytest.raises(Refused):
                    run.say(who, message)
    run.over(*range(AGENTS))
    for messages in told.values():
        for who, message in messages.items():
            with pytest.raises(Refused):
                run.say(who, message)
    with pytest.raises(Missing, match="shares of a secret"):
        run.step()
    assert len(run.refused) == AGENTS
    for step in (1, 2, 3):
        assert run.step() is None, step
    assert run.step().tolist() == total(range(AGENTS), 1)


def test_bytes_behind_a_message_are_refused(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for step in (Step.COMMIT, Step.SHARES, Step.CONTRIBUTE, Step.RELEASE):
        with pytest.raises(Refused, match="1 bytes too many"):
            run.say(0, run.until(step) + b"x")
    assert run.step().tolist() == total(range(AGENTS), 0)


def released(run: Run, survivors: Iterable[int], place: int = 0) -> bytes:
    """A RELEASE that the whole jury has signed, honest jurors too, with true proofs."""
    group, number = run.conductor.group, run.conductor.number
    assert group is not None
    bits, jury = bitmap(survivors, AGENTS), sorted(group.jury(number))
    votes = b"".join(
        KEYS[juror].sign(statement(group, Kind.VOTE, number, juror, bits)) for juror in jury
    )
    k = PLAN.neighbours
    proofs = run.conductor.messages[place][-((k + 7) // 8 + 16 * k) :]
    every = bitmap(range(len(jury)), len(jury))
    return HEAD.pack(Step.RELEASE, number) + bits + every + votes + proofs


def test_both_kinds_of_share_of_one_agent(tmp_path: Path) -> None:
    """The server calls agent 7 alive, then dropped, and has the whole jury's signatures for both:
    the own mask's share and that of its masks with others never leave one agent."""
    run = Run(tmp_path)
    run.until(Step.RELEASE)
    alive, dropped = (
        released(run, [one for one in range(AGENTS) if one != without]) for without in (-1, 7)
    )
    assert run.say(1, released(run, range(AGENTS), 1))  # the frame of this test is a true one
    assert run.say(0, dropped) != b""
    for again in (alive, dropped):
        with pytest.raises(Refused, match="no release of round 0"):
            run.say(0, again)
    run.over(0, 2)
    for place in (0, 2):  # agent 2 has died before it gave anything
        for message in (alive, dropped):
            with pytest.raises(Refused, match="no release of round 0"):
                run.say(place, message)
    with pytest.raises(Refused, match="round 0 is over"):
        run.say(2, HEAD.pack(Step.SHARES, 0))


def test_a_juror_signs_one_set_over_its_death(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.until(Step.VOTE)
    juror = min(run.conductor.messages)
    assert run.say(juror, run.conductor.messages[juror])
    run.over(juror)
    second = bitmap(range(1, AGENTS), AGENTS)
    with pytest.raises(Refused, match="has voted in round 0"):
        run.say(juror, HEAD.pack(Step.VOTE, 0) + second)


def test_a_commitment_is_opened_on_one_list_over_deaths(tmp_path: Path) -> None:
    run = Run(tmp_path)
    first = run.until(Step.OPEN)
    said = run.say(0, first)
    assert run.say(0, first) == run.over(0).say(0, first) == said
    other = first[:-32] + bytes(32)
    with pytest.raises(Refused, match="another list"):
        run.say(0, other)
    run.until(Step.SHARES)
    agent = run.over(0).agents[0].agent
    assert agent is not None  # nobody sets up again for one that came back
    assert agent.group == run.conductor.group


def test_setups_are_counted_and_a_new_one_ends_the_last(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.until(Step.SHARES)
    commitments = [run.agents[0].commit(number) for number in (3, 9, 15)]
    with pytest.raises(Refused, match="has not joined a group"):
        run.say(0, HEAD.pack(Step.SHARES, 0))
    assert len(set(commitments)) == 3
    assert run.over(0).agents[0].commit(15) == commitments[-1]
    for number in (0, 9, 16):
        with pytest.raises(Refused, match=f"setup {number} is over, or beyond"):
            run.agents[0].commit(number)
    with pytest.raises(Refused, match="has not joined a group"):
        run.say(0, HEAD.pack(Step.SHARES, 0))


def test_rounds_are_counted_over_setups(tmp_path: Path) -> None:
    """A server that sets up again gets no round twice, so no more sums than were priced."""
    run = Run(tmp_path)
    run.until(Step.SHARES)
    for _ in range(8):
        run.step()
    again = Conductor(ROSTER)
    again._setup = 1
    again._begin(Step.COMMIT)
    run.conductor = again
    run.until(Step.SHARES)
    for number in (0, 1):
        with pytest.raises(Missing):
            run.until(Step.RELEASE)
        assert all(f"round {number} is over" in why for why in run.refused.values())
        assert again.number == number + 1
    for _ in range(3):
        run.step()
    assert run.step().tolist() == total(range(AGENTS), 2)


def test_a_server_begins_again_behind_what_was_answered(tmp_path: Path) -> None:
    """Its agents open the same list again: it is the same group."""
    run = Run(tmp_path)
    run.until(Step.SHARES)
    group = run.conductor.group
    for _ in range(4):
        run.step()
    run.conductor = Conductor(ROSTER, first_round=1)
    run.until(Step.RELEASE)
    assert run.conductor.group == group
    assert run.step().tolist() == total(range(AGENTS), 1)


def test_a_missing_or_older_setup_file_is_no_setup(tmp_path: Path) -> None:
    run = Run(tmp_path)
    listed = run.until(Step.OPEN)
    older = (tmp_path / "0" / "setup").read_bytes()
    run.agents[0].commit(1)
    run.kill(0)
    strange = json.dumps({"number": 1, "exchange": "11" * 32, "nonce": "22" * 32}).encode()
    for content in (None, older, b"{", b'{"number": 1}', strange):
        (tmp_path / "0" / "setup").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "0" / "setup").write_bytes(content)
        run.come_back(0)
        with pytest.raises(Refused, match="no setup to open"):
            run.say(0, listed)
        with pytest.raises(Refused, match="setup 1 is over"):
            run.agents[0].commit(1)
        run.kill(0)


@pytest.mark.parametrize("cut", [1, 5, 6, 8, 40])
def test_a_claim_that_was_cut_short_takes_nothing_back(tmp_path: Path, cut: int) -> None:
    run = Run(tmp_path)
    run.until(Step.CONTRIBUTE)
    run.kill(0)
    claims = tmp_path / "0" / "claims"
    claims.write_bytes(claims.read_bytes() + b"round 1"[:cut] + b"opened 0 77"[:cut])
    run.come_back(0)
    with pytest.raises(Refused, match="is over"):
        run.say(0, HEAD.pack(Step.SHARES, 0))


def test_nothing_leaves_before_its_claim(tmp_path: Path) -> None:
    """On a full disk no frame is made; and no setup's opening, no vote."""

    def full(record: str) -> None:
        raise OSError(28, "No space left on device")

    run = Run(tmp_path)
    run.until(Step.OPEN)
    for step in (Step.OPEN, Step.SHARES, Step.VOTE):
        run.until(step)
        place = min(run.conductor.messages)
        journal = run.agents[place]._journal
        honest: Callable[[str], None] = journal.claim
        journal.claim = full  # type: ignore[method-assign]
        with pytest.raises(OSError, match="No space"):
            run.say(place, run.conductor.messages[place])
        journal.claim = honest  # type: ignore[method-assign]
    journal = run.agents[0]._journal
    journal.claim = full  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space"):
        run.agents[0].commit(5)


def test_a_folder_is_one_runs_and_one_processes(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with pytest.raises(Reused, match="another process"):
        run.born(0)
    run.kill(0)
    run.roster = replace(ROSTER, run="another")
    with pytest.raises(Refused, match="to another run"):
        run.born(0)
    run.roster = ROSTER
    run.come_back(0)
    run.kill(0)
    (tmp_path / "0").chmod(0o770)
    with pytest.raises(Refused, match="chmod 700"):
        run.come_back(0)


@pytest.mark.parametrize("when", [Step.OPEN, Step.SHARES, Step.VOTE])
def test_a_folder_put_back_answers_nothing(tmp_path: Path, when: Step) -> None:
    """Nor does one that is lost: rounds and votes would be answered again."""
    run = Run(tmp_path)
    run.until(when)
    shutil.copytree(tmp_path / "0", tmp_path / "copy")
    for _ in range(3):
        run.step()
    run.kill(0)
    shutil.rmtree(tmp_path / "0")
    with pytest.raises(Refused, match="it holds 0 claims"):
        run.come_back(0)
    shutil.rmtree(tmp_path / "0")
    (tmp_path / "copy").rename(tmp_path / "0")
    with pytest.raises(Refused, match="may come from an older copy"):
        run.come_back(0)


def test_after_a_start_of_the_machine_a_folder_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is empty then, as on another machine: nobody knows whether the folder is the last."""
    run = Run(tmp_path)
    run.until(Step.CONTRIBUTE)
    run.kill(0)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(durable, "MEMORIES", (str(tmp_path / "empty"),))
    with pytest.raises(Refused, match="has started again"):
        run.come_back(0)


def test_a_run_that_has_ended_leaves_no_secrets(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.until(Step.CONTRIBUTE)
    run.agents[0].finish()
    assert sorted(one.name for one in (tmp_path / "0").iterdir()) == ["claims", "members"]
    with pytest.raises(Refused):
        run.come_back(0)


def test_a_folder_put_back_with_the_memory_is_one_corrupt_agent_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a snapshot of the whole machine, agent 0 has forgotten round 0 and answers it again. It
    gives the same shares of others as before; nobody takes its new ones, of which no key seals a
    byte as it did before; so its second vector stays under a mask of its own that nobody can
    tell."""
    run = Run(tmp_path)
    run.until(Step.SHARES)
    shutil.copytree(tmp_path / "0", tmp_path / "copy")
    frames, told = {}, {}
    for _ in range(4):
        step = run.conductor.step
        told[step] = run.conductor.messages
        run.step()
        frames[step] = run.heard[step].get(0, b"")  # of the jury or not
    run.kill(0)
    shutil.rmtree(tmp_path / "0")
    (tmp_path / "copy").rename(tmp_path / "0")
    monkeypatch.setattr(durable.Count, "read", lambda count: 0)
    run.come_back(0)
    again = {step: run.say(0, message[0]) for step, message in told.items() if 0 in message}
    assert again[Step.RELEASE] == frames[Step.RELEASE]
    boxes = [
        {frame[at : at + SEALED] for at in range(64, 64 + SEALED * PLAN.neighbours, SEALED)}
        for frame in (frames[Step.SHARES], again[Step.SHARES])
    ]
    pairs = [{box[NONCE:] for box in found} for found in boxes]
    nonces = {box[:NONCE] for found in boxes for box in found}
    assert len(nonces) == 2 * PLAN.neighbours
    assert not pairs[0] & pairs[1]
    for place in range(1, AGENTS):
        with pytest.raises(Refused):
            run.say(place, told[Step.CONTRIBUTE][place])


def test_a_group_of_others_is_refused(tmp_path: Path) -> None:
    """Eleven keys of the server's with agent 0: it holds them against what the owner has signed."""
    run = Run(tmp_path)
    run.until(Step.JOIN)
    group = run.conductor.group
    assert group is not None
    strangers = [replace(one, identity=bytes(32)) for one in group.members[1:]]
    for members, why in (
        ((group.members[0], *strangers), "not those of the owner's roster"),
        ((*group.members[:-1], replace(group.members[-1], nonce=bytes(32))), "not the group"),
    ):
        with pytest.raises(Tampered, match=why):
            run.agents[0].join(members)
    message = HEAD.pack(Step.JOIN, 0) + members_to(group.members)
    assert run.say(0, message) == group.context
    assert Group(PLAN, group.members).context != group.context  # the roster is in all keys


@pytest.mark.parametrize(
    ("demands", "why"),
    [
        ({"corrupt": 0.2}, "tolerates 1 corrupt agents of 12; this one asks for 2"),
        ({"sigma": 30.0}, "standard deviation of 0 on the grid; this agent asks for 30"),
        ({"rounds": ROUNDS - 1}, "6 sums would be opened; this agent allows 5"),
        ({"crowd": 9}, "8 honest survivors; this agent asks for 9"),
        ({"exposure": None}, "the server sees the sums"),
        ({"corrupt": float("nan")}, "corrupt must be"),
        ({"sigma": float("inf")}, "corrupt must be"),
    ],
)
def test_demands(tmp_path: Path, demands: dict[str, Any], why: str) -> None:
    with pytest.raises(Unacceptable, match=why):
        DurableAgent(KEYS[0], tmp_path / "0", ROSTER, replace(DEMANDS, **demands))
    assert not (tmp_path / "0").exists()


def test_noise_of_the_fewest_honest_survivors_is_what_is_asked_for() -> None:
    plan = Plan.choose(AGENTS, 2, ROUNDS, gamma=0.1, delta=0.25, sigma=100.0)
    roster = replace(ROSTER, plan=plan)
    honest = plan.minimum - plan.corrupt
    most = (plan.variance * honest) ** 0.5
    demands = Demands(corrupt=0.1, sigma=100.0, rounds=ROUNDS)
    demands.check(roster)
    replace(demands, sigma=most * (1 - 1e-12)).check(roster)
    with pytest.raises(Unacceptable, match="standard deviation"):
        replace(demands, sigma=most * (1 + 1e-12)).check(roster)


def test_the_owner_signs_the_whole_roster(tmp_path: Path) -> None:
    signature = ROSTER.signed_by(OWNER)
    assert Roster.read(ROSTER.content, signature, OWNER_KEY) == ROSTER
    for changed in (
        replace(ROSTER, run="b run"),
        replace(ROSTER, plan=replace(PLAN, corrupt=0)),
        replace(ROSTER, plan=replace(PLAN, variance=100)),
        replace(ROSTER, keys=(*PUBLIC[1:], PUBLIC[0])),
    ):
        with pytest.raises(Tampered, match="the owner has not signed"):
            Roster.read(changed.content, signature, OWNER_KEY)
    with pytest.raises(Tampered, match="the owner has not signed"):
        Roster.read(ROSTER.content, signature, PUBLIC[0])
    with pytest.raises(Tampered, match="not on the owner's roster"):
        DurableAgent(OWNER, tmp_path / "0", ROSTER, DEMANDS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda read: read["plan"].update(threshold=True), "not a whole number"),
        (lambda read: read["plan"].update(variance=0.5), "not a whole number"),
        (lambda read: read["plan"].update(another=1), "not a roster of this version"),
        (lambda read: read["plan"].pop("variance"), "holds more than one"),
        (lambda read: read.update(another=1), "holds more than one"),
        (lambda read: read.update(keys=[PUBLIC[0].hex()] * AGENTS), "one distinct key for each"),
        (lambda read: read["plan"].update(threshold=PLAN.threshold - 1), "threshold"),
        (lambda read: read.pop("keys"), "not a roster of this version"),
    ],
)
def test_a_signed_roster_that_means_something_else(
    change: Callable[[dict[str, Any]], object], why: str
) -> None:
    read = json.loads(ROSTER.content)
    change(read)
    content = json.dumps(read, sort_keys=True, separators=(",", ":")).encode()
    signature = replace(ROSTER, run="x")  # any digest: signed below as it stands
    assert signature.content != content

    with pytest.raises(Unacceptable, match=why):
        Roster.read(content, OWNER.sign(digest(b"roster", content)), OWNER_KEY)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("run"))
    run.until(Step.CONTRIBUTE)
    return run


@given(
    step=st.sampled_from([0, *(set(Step) - {Step.COMMIT, Step.SHARES}), 8, 255]),
    number=st.integers(0, 20),
    body=st.binary(max_size=200) | st.builds(bytes, st.sampled_from([32 * 12, 160 * 12, 922])),
)
def test_whatever_a_server_sends_is_refused(
    waiting: Run, step: int, number: int, body: bytes
) -> None:
    """By no other error, which would end the process: a server would choose who comes back."""
    with pytest.raises((Refused, Tampered)):
        waiting.say(0, bytes([step]) + number.to_bytes(4, "big") + body)
