"""Masked sums of multi-agent sessions, in one process: exact whoever drops, whatever dies; and what
agents refuse."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.federation import SessionFailed
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet.usecases.sessions import records, rosters
from discreet_agent import multi_agent
from discreet_agent.demands import Demands
from discreet_agent.federation import history
from discreet_agent.federation.errors import AgentError, NotTrusted
from discreet_agent.federation.identity import Identity
from discreet_agent.masked_sums import Signed
from discreet_agent.secure_sum.noise import discrete_gaussian
from discreet_agent.sparse_sum import Member, exchanges
from discreet_agent.sparse_sum import agent as sums_agent
from discreet_agent.sparse_sum.conversation import HEAD, Step
from discreet_agent.sparse_sum.plan import FAILURE_UNITS
from discreet_agent.sparse_sum.wire import Kind, bitmap, members_from, members_to, pieces
from tests.problems import masked

AGENTS, STEPS = 50, 3
FEW = 10
"""Enough for two that collude and one that drops."""
CONTRIBUTE = 1


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The noise of all agents, in the order of their contributions."""
    kept: list[list[int]] = []
    draw = discrete_gaussian

    def noted(variance: int, count: int) -> list[int]:
        kept.append(draw(variance, count))
        return kept[-1]

    monkeypatch.setattr(sums_agent, "discrete_gaussian", noted)
    return kept


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    made: list[masked.Session] = []

    def open_(
        agents: int = AGENTS, steps: int = STEPS, announced: Any = masked.ANNOUNCED, **changes: Any
    ) -> masked.Session:
        asked = masked.problem(agents, steps, **changes)
        made.append(masked.Session(tmp_path, asked, agents, announced))
        return made[-1]

    yield open_
    for one in made:
        one.close()


def test_sums_are_exact_while_agents_drop_and_processes_die(
    opened: Any, drawn: list[list[int]]
) -> None:
    """In every round two agents of fifty fall silent from some step on, a third dies and comes back
    without its secrets, and the cloud's process dies before every exchange. Nothing begins again:
    each sum is that of the states and the noise of those who were in it, to the last bit."""
    session, generator = opened(), random.Random(5)
    parameters = session.roster["parameters"]
    names = [one.name for one in session.parties]
    units = np.array(parameters["units"][:2]) * parameters["sums"]["grid"]
    rows = {name: np.array([1.0, {"a0": 1.0, "a1": -2.0}.get(name, 0.0)]) for name in names}
    middle = {name: (low + high) / 2 for name, low, high in parameters["box"]}
    for _ in range(exchanges.SETTING_UP):
        session.exchange(restart=True)
    for k in range(STEPS):
        *silent, dying = generator.sample(session.parties, 3)
        since = {one.name: generator.randrange(1, 4) for one in [*silent, dying]}
        added: dict[str, Any] = {}
        for phase in range(exchanges.IN_A_ROUND):
            if since[dying.name] == phase:
                session.again(dying)
            gone = [one.name for one in silent if since[one.name] <= phase]
            drawn.clear()
            session.exchange(gone, restart=True)
            if phase == CONTRIBUTE:
                dropped = {name for name, first in since.items() if first <= phase}
                there = [one for one in session.parties if one.name not in dropped]
                for one, noise in zip(there, drawn, strict=True):
                    signed = session.steps[one.identity.fingerprint].signed
                    added[one.name] = signed.contribution(session.x(one)) + np.array(noise)
                    exact = rows[one.name] * session.x(one) / units
                    assert np.abs(added[one.name] - noise - exact).max() <= 0.5 + 1e-6
        assert session.survivors[k] == added.keys()
        public = sum(rows[name] * middle[name] for name in set(names) - added.keys())
        zero = np.array([-masked.LIMIT, -3.0])
        told = np.frombuffer(session.broadcast[32:48], dtype=">f8")
        assert told.tolist() == (zero + public + units * sum(added.values())).tolist()
    session.exchange(restart=True)
    assert session.number == session.cloud.rounds
    agreement = json.loads(session.cloud.released()["agreement"].tobytes())
    assert len(agreement["signatures"]) == AGENTS


def test_states_that_are_vectors(opened: Any, drawn: list[list[int]]) -> None:
    """Of two hours with an energy between them: each agent adds its part of each hour's sum, moves
    by its own derivatives, and stays in its set."""
    hours = [" + ".join(f"a{place}_{hour}" for place in range(FEW)) for hour in (1, 2)]
    announced = {**masked.ANNOUNCED, "dimension": 2, "budget": {"lower": 3, "upper": 4}}
    session = opened(FEW, 3, announced, constraints=[f"{hours[0]} - 9", f"2*{hours[1]} - 30"])
    parameters = session.roster["parameters"]
    units = np.array(parameters["units"][:2]) * parameters["sums"]["grid"]
    for _ in range(exchanges.SETTING_UP):
        session.exchange()
    for _ in range(3):
        session.exchange()
        drawn.clear()
        session.exchange()
        x = np.array([session.x(one) for one in session.parties])
        noise = np.array(drawn).sum(axis=0)
        session.exchange()
        session.exchange()
        told = np.frombuffer(session.broadcast[32:48], dtype=">f8")
        exact = x.sum(axis=0) + np.array([-9, x[0, 1] - 30])  # a0_2 counts twice
        assert np.abs(told - exact - noise * units).max() <= FEW * units.max()
        assert (np.abs(x.sum(axis=1) - 3.5) <= 0.5 + 1e-9).all()
        assert ((x >= 0) & (x <= 5)).all()
    session.exchange()
    assert len({str(session.x(one)) for one in session.parties}) > 1


def test_who_has_missed_the_group_is_in_the_next_round(opened: Any) -> None:
    session = opened(FEW, 2)
    late = session.parties[3]
    for _ in range(exchanges.SETTING_UP - 1):
        session.exchange()
    session.exchange([late.name])
    for _ in range(2 * exchanges.IN_A_ROUND):
        session.exchange()
    everybody = {one.name for one in session.parties}
    assert session.survivors == [everybody - {late.name}, everybody]


def test_a_setup_without_an_agent_ends_before_anything_is_opened(opened: Any) -> None:
    """And is not charged: `first_round_with_data`."""
    session = opened(FEW, 1)
    session.exchange()
    with pytest.raises(SessionFailed) as failed:
        session.exchange([session.parties[0].name])
    assert failed.value.code == "setup_incomplete"
    assert session.number < session.asked.first_round_with_data


def test_a_sum_that_cannot_be_opened_ends_the_session(opened: Any) -> None:
    """One more than may drop: nothing is opened, and there is no second sum of these states."""
    session = opened(FEW, 2)
    for _ in range(exchanges.SETTING_UP + 1):
        session.exchange()
    with pytest.raises(SessionFailed) as failed:
        session.exchange([one.name for one in session.parties[:2]])
    assert failed.value.code == "sum_lost"
    assert failed.value.code in session.asked.failures


def test_one_agent_that_gives_nonsense_for_shares_spoils_no_sum(opened: Any) -> None:
    session = opened(FEW, 1)
    until(session, Step.RELEASE)
    said = {one.identity.fingerprint: session.answer(one) for one in session.parties}
    liar = session.parties[4].identity.fingerprint
    agent, shares = session.steps[liar]._durable.agent, said[liar][2:-64]
    said[liar] = agent._signed(Kind.RELEASE, said[liar][:2] + bytes(len(shares)))
    assert all(session.cloud.accepts(session.number, one, body) for one, body in said.items())
    session.cloud.step(session.number, said, Noise.secure())
    assert session.survivors == [{one.name for one in session.parties}]


# What a cloud might try ---------------------------------------------------------------------------


def until(session: Any, step: Step) -> None:
    while exchanges.step_of(session.number) != (step, 0):
        session.exchange()


def delivery(session: Any, party: Any) -> bytes:
    """What the agent is told in this exchange."""
    told: bytes = session.cloud.deliveries()[party.identity.fingerprint]
    return told


def another_set(session: Any) -> bytes:
    """Survivors without the first agent."""
    return bitmap(range(1, FEW), FEW)


def test_too_few_that_know_the_group_are_no_setup(opened: Any) -> None:
    """The session would lose its first sum, and charge for it."""
    session = opened(FEW, 1)
    until(session, Step.JOIN)
    with pytest.raises(SessionFailed, match="setup_incomplete"):
        session.exchange([one.name for one in session.parties[:2]])


def test_a_key_with_which_nobody_can_have_a_mask_is_no_setup(opened: Any) -> None:
    """Its neighbours would refuse the group, and a sum would be lost that is charged."""
    session = opened(FEW, 1)
    until(session, Step.OPEN)
    durable = session.steps[session.parties[0].identity.fingerprint]._durable
    opened_ = durable.open(pieces(delivery(session, session.parties[0])[HEAD.size :], 32, FEW))
    nothing = Member(opened_.identity, bytes(32), opened_.nonce, opened_.signature)
    session.cloud.conductor._list[durable.place] = nothing.commitment
    said = members_to([nothing])
    assert not session.cloud.accepts(1, session.parties[0].identity.fingerprint, said)


@pytest.mark.parametrize("missed", [[Step.RELEASE], [Step.CONTRIBUTE, Step.VOTE, Step.RELEASE]])
def test_a_fork_that_leaves_out_exchanges_is_found_out(opened: Any, missed: list[Step]) -> None:
    """An agent that was shown other outputs, and then nothing until the true ones of the next sum,
    knows that these do not follow."""
    session = opened(FEW, 3)
    until(session, Step.SHARES)
    for _ in range(exchanges.IN_A_ROUND):
        session.exchange()
    party = session.parties[0]
    told = session.broadcast
    lie = told[:32] + bytes(16) + struct.pack("!2d", 1e6, 0) + told[64:]
    assert len(lie) == len(told) != 0
    true, before = session.broadcast, history.after(lie)
    for step in (Step.SHARES, Step.CONTRIBUTE, Step.VOTE, Step.RELEASE):
        if step is not Step.SHARES:
            lie, before = before, history.after(before)
        if step not in missed:
            session.answer(party, broadcast=lie)
        session.broadcast = true
        session.exchange([party.name])
        true = session.broadcast
    with pytest.raises(NotTrusted, match="does not follow"):
        session.answer(party)


def test_who_was_in_a_sum_is_whom_shares_were_given_for(opened: Any) -> None:
    session = opened(FEW, 2)
    until(session, Step.SHARES)
    for _ in range(exchanges.IN_A_ROUND):
        session.exchange()
    party, other = session.parties[:2]
    told = session.broadcast
    lie = told[:-2] + another_set(session)
    assert lie != told
    with pytest.raises(NotTrusted, match="others were in the sum"):
        session.answer(party, broadcast=lie)
    assert session.answer(other)


def test_a_part_of_whatever_size_is_added() -> None:
    """The owner has signed a grid too fine for 64 bits: who stopped there would tell that its state
    is beyond what fits."""
    signed = Signed.__new__(Signed)
    signed._parts = [([Fraction(1)], Fraction(2) ** -62)]
    assert signed.contribution(1.0).tolist() == [2**62]
    assert signed.contribution(2.0).tolist() == [-(2**63)]
    assert signed.contribution(5.0).tolist() == [2**62]


def test_a_juror_signs_one_set_of_survivors(opened: Any) -> None:
    session = opened(FEW, 1)
    until(session, Step.VOTE)
    named = session.cloud.deliveries()
    juror = next(one for one in session.parties if one.identity.fingerprint in named)
    head = delivery(session, juror)[: HEAD.size]
    assert session.answer(juror)
    assert session.answer(juror, delivery=head + another_set(session)) == b""
    session.again(juror)  # nor does its next process
    assert session.answer(juror, delivery=head + another_set(session)) == b""
    assert session.answer(juror) == b""


def test_shares_are_given_once_and_for_a_set_that_jurors_have_signed(opened: Any) -> None:
    """One set that the jury has signed is answered, another is not, before or after; so nobody
    gives both secrets of an agent."""
    session = opened(FEW, 1)
    until(session, Step.RELEASE)
    party = session.parties[4]
    told = delivery(session, party)
    size = len(another_set(session))
    lie = told[: HEAD.size] + another_set(session) + told[HEAD.size + size :]
    assert session.answer(party, delivery=lie) == b""
    assert session.answer(party)
    assert session.answer(party) == b""
    assert session.answer(party, delivery=lie) == b""
    other = session.parties[5]
    session.again(other)  # its secrets died with its process
    assert session.answer(other) == b""
    assert json.loads(session.kept[other.identity.fingerprint])["refused"] == 1


@pytest.mark.parametrize("whose", ["another agent", "this agent, once more"])
def test_the_group_is_the_owners_roster_and_no_other(opened: Any, whose: str) -> None:
    """A cloud that puts agents of its own in the place of honest ones, or opens commitments on two
    lists, is answered by nobody."""
    session = opened(FEW, 1)
    until(session, Step.OPEN if whose != "another agent" else Step.JOIN)
    party = session.parties[0]
    told = delivery(session, party)
    if whose == "another agent":
        members = list(members_from(told[HEAD.size :], FEW))
        victim = next(at for at, one in enumerate(members) if one.identity != party.member.key)
        theirs = Identity.generate().public_key
        key = members[victim].exchange
        members[victim] = Member(theirs, key, key, bytes(64))
        told = told[: HEAD.size] + members_to(members)
    else:
        assert session.answer(party)
        first = told[HEAD.size :]
        own = first.index(session.steps[party.identity.fingerprint]._durable.commit(0))
        place = 0 if own else 32
        told = told[: HEAD.size] + first[:place] + bytes(32) + first[place + 32 :]
    assert session.answer(party, delivery=told) == b""


def test_another_step_than_that_of_the_exchange_is_not_answered(opened: Any) -> None:
    session = opened(FEW, 2)
    until(session, Step.SHARES)
    party = session.parties[0]
    for head in (HEAD.pack(Step.SHARES, 1), HEAD.pack(Step.COMMIT, 1), b"", HEAD.pack(9, 0)):
        assert session.answer(party, delivery=head) == b""
    assert session.answer(party)


def weaker(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(parameters: dict[str, Any]) -> None:
        parameters["sums"]["plan"] |= changes

    return change


def quieter(parameters: dict[str, Any]) -> None:
    parameters["sums"]["plan"]["variance"] //= 2


def finer(parameters: dict[str, Any]) -> None:
    parameters["units"] = [unit / 2 for unit in parameters["units"]]


def unnoised(parameters: dict[str, Any]) -> None:
    parameters["units"][1] = 0.0
    parameters["sums"]["plan"]["dimension"] = 1


def louder(parameters: dict[str, Any]) -> None:
    """All noise is less, and says so: then the price is too low."""
    parameters["sums"]["scale"] /= 2
    parameters["sums"]["plan"]["variance"] = -(-parameters["sums"]["plan"]["variance"] // 4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (weaker(threshold=3), "threshold"),
        (weaker(quorum=2), "quorum|jury"),
        (weaker(minimum=3), "hides no agent|noise"),
        (weaker(rounds=5), "other rounds"),
        (weaker(agents=9, neighbours=8), "other agents|threshold|jury"),
        (weaker(another=1), "no plan"),
        (weaker(corrupt=0), "withstand 0"),
        (quieter, "noise of the fewest"),
        (finer, "too small for this agent's radius"),
        (unnoised, "without noise"),
        (louder, "delta is"),
        (lambda parameters: parameters.pop("sums"), "signed no masked sums"),
    ],
)
def test_what_the_owner_has_signed_must_hold_what_it_promises(
    opened: Any, change: Callable[[dict[str, Any]], Any], says: str
) -> None:
    """Computed again by every agent, before it says a word."""
    session = opened(FEW, 2)
    change(session.roster["parameters"])
    with pytest.raises((AgentError, NotTrusted), match=says):
        session.answer(session.parties[0])
    assert not session.kept


def test_an_agent_believes_no_parameters_but_the_owners(opened: Any) -> None:
    session = opened(FEW, 1)
    changed = json.loads(json.dumps(session.roster["parameters"]))
    changed["schedule"]["gamma"] *= 2
    with pytest.raises(NotTrusted, match="not those that the owner has signed"):
        session.answer(session.parties[0], parameters=changed)


def test_demands_are_of_the_signed_plan(opened: Any) -> None:
    session = opened(FEW, 2)
    party = session.parties[0]
    for asked, says in (
        ({"agents": FEW + 1}, "roster of 10 agents"),
        ({"colluding": 3}, "withstand 2"),
        ({"rounds": 1}, "2 sums would be opened"),
        ({"known": ["0" * 16]}, "0 are on the roster"),
    ):
        session.steps[party.identity.fingerprint] = session.agent(party, **asked)
        with pytest.raises(AgentError, match=says):
            session.answer(party)
    session.steps[party.identity.fingerprint] = session.agent(party)
    assert session.answer(party)


def test_an_agent_without_masks_says_nothing_in_a_session_with_them(opened: Any) -> None:
    """Nor does one of before there were masks, whose first lines read the broadcast as a chain."""
    session = opened(FEW, 1)
    session.exchange()
    current = session.asked_of(session.parties[0], state=b"")
    with pytest.raises(AgentError, match="masked"):
        multi_agent.step_of(lambda x: x)(current)
    current.parameters = {one: v for one, v in current.parameters.items() if one != "sums"}
    with pytest.raises(NotTrusted, match="cannot be read"):
        multi_agent.step_of(lambda x: x)(current)


def test_demands_of_masks_need_the_masks(opened: Any) -> None:
    party = opened(FEW, 1).parties[0]
    party.announcement = {"lower": 0, "upper": 5, "radius": 0.5}
    with pytest.raises(AgentError, match="the cloud would see its states"):
        multi_agent.minimize(party, lambda x: x, demands=Demands())


# Plan and request ---------------------------------------------------------------------------------


def test_the_price_has_the_chance_that_masks_fail(opened: Any) -> None:
    session = opened(FEW, 2)
    (event,) = session.plan.events
    assert event.failure == FAILURE_UNITS == -(-(10**18) // 2**40)
    assert session.plan.total.delta == masked.BUDGET.delta
    assert session.plan.total.delta_z == FAILURE_UNITS
    assert event.delta(1.0) <= masked.BUDGET.delta / 10**18
    sums = session.asked.certified_terms(session.plan)["sums"]
    assert (sums["agents"], sums["least"], sums["colluding"]) == (FEW, FEW - 1, 2)
    plain = masked.problem(FEW, 2, masks="none", colluding=None)
    without = plain.plan_federation(
        [
            replace(one, announcement={"lower": 0, "upper": 5, "radius": 0.5})
            for one in session.members
        ],
        masked.BUDGET,
    )
    assert without.total.delta_z == 0
    assert event.scale > without.events[0].scale
    # All agents add their share of the fewest honest ones' noise: intervals are as wide as that.
    most = session.plan.noise[0].standard_deviation
    assert most == pytest.approx(
        event.scale * session.plan.parameters["units"][0] * np.sqrt(FEW / (FEW - 1 - 2)), rel=1e-6
    )


def test_a_roster_is_planned_once_and_every_other_roster_anew(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(FEW, 2)
    planned: list[int] = []
    plan_federation = MultiAgent.plan_federation

    def counted(self: MultiAgent, agents: Sequence[Any], budget: Budget) -> Plan:
        planned.append(len(agents))
        return plan_federation(self, agents, budget)

    monkeypatch.setattr(MultiAgent, "plan_federation", counted)
    rows = [
        {
            "fingerprint": one.fingerprint,
            "name": one.name,
            "public_key": one.key,
            "announcement": one.announcement,
        }
        for one in session.members
    ]
    job = {"kind": "multi_agent", "problem": session.asked.model_dump(mode="json")}

    def plan_of(rows: list[dict[str, Any]], budget: Budget = masked.BUDGET) -> Plan | None:
        return asyncio.run(rosters.plan_of(job, rows, budget))

    assert plan_of(rows) == plan_of([dict(row) for row in rows]) == session.plan
    assert planned == [FEW]
    wider = [{**row, "announcement": {**row["announcement"], "upper": 6}} for row in rows]
    changed = plan_of(wider)
    assert changed is not None
    assert changed.parameters["box"][0][2] == 6
    assert plan_of(rows, Budget(epsilon=10**8, delta=10**15)) != session.plan
    assert len(planned) == 3
    incomplete = [row for row in rows if row["name"] != "a1"]  # whom a constraint names
    assert plan_of(incomplete) is plan_of(incomplete) is None
    assert len(planned) == 4
    assert plan_of(rows) == session.plan
    assert len(planned) == 4


def test_a_draft_says_what_agents_must_be_told_to_ask() -> None:
    for steps, told in ((1000, False), (1001, True)):
        draft = masked.problem(FEW, steps).plan_federation((), masked.BUDGET)
        assert any("agents answer at most 1,000 sums" in line for line in draft.advice) is told


def test_the_draft_is_refused_for_what_no_masks_can_do() -> None:
    with pytest.raises(InvalidInput, match="must be linear"):
        masked.problem(FEW, 1, constraints=["a0^2 + a1 - 3"]).plan_federation((), masked.BUDGET)
    for changes, says in (
        ({"protocol": "job", "federation": None, "dataset": "dst_x"}, "protocol `federated`"),
        ({"masks": "none"}, "goes with masks"),
    ):
        with pytest.raises(ValueError, match=says):
            masked.problem(FEW, 1, **changes)


def test_who_announces_masks_is_in_masked_sums_alone() -> None:
    asked, plain = masked.problem(FEW, 1), masked.problem(FEW, 1, masks="none", colluding=None)
    asked.check_announcement(masked.ANNOUNCED)
    figures = {name: one for name, one in masked.ANNOUNCED.items() if name != "masks"}
    plain.check_announcement(figures)
    with pytest.raises(InvalidInput, match="an agent announces"):
        asked.check_announcement(figures)
    with pytest.raises(InvalidInput, match="the cloud would see its states"):
        plain.check_announcement(masked.ANNOUNCED)


def test_stored_problems_without_masks_are_as_they_were() -> None:
    plain = masked.problem(FEW, 1, masks="none", colluding=None)
    assert not {"masks", "colluding"} & plain.model_dump(mode="json").keys()
    assert not plain.signs_parameters
    assert plain.enough(5, plain.plan_federation((), masked.BUDGET)) is None


def test_a_session_is_shown_whose_problem_only_an_earlier_version_could_read() -> None:
    """What the owner has signed is in the roster, whatever today's version makes of the problem."""
    for kind in ("multi_agent", "gone"):
        job: dict[str, Any] = {
            "kind": kind,
            "problem": {"kind": kind, "constraints": []},
            "plan": {},
        }
        assert records.stored_problem(job) is None
        assert rosters._signed_parameters({"roster": None}, job) is None
        signed = {"roster": b'{"parameters": {"noise": 1}}'}
        assert rosters._signed_parameters(signed, job) == {"noise": 1}
