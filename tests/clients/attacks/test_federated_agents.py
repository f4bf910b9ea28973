"""Attacks on agents of a federated `coupled_qp`, by an operator that may send what it likes, by
other agents, and by files that were put back. Real machines on both sides, in this process; only
the transport is left out.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.privacy.noise import Noise
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.problems.federation import Member
from discreet_agent import Round, secure_sum
from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.coupled_qp import _Run, _somewhere, check_price
from discreet_agent.demands import Demands
from discreet_agent.federation.errors import AgentError, FolderLost, NotTrusted
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.rosters import roster_document
from discreet_agent.guarantees import gaussian_delta
from discreet_agent.secure_sum import Draws, Kind, parse

Floats = NDArray[np.float64]
C, D = (1.25, -3.0), (0.5,)


def problem(count: int, **changes: Any) -> CoupledQp:
    return CoupledQp.model_validate(
        {
            "kind": "coupled_qp",
            "operator": {"c": C, "d": D},
            "agents": {"count": count, "coupled": 2, "constraints": 1},
            "steps": {"primal": 0.05, "dual": 0.05, "iterations": 5},
            "encryption": {"scheme": "masking"},
            "protocol": "federated",
            "federation": {"agents": count},
            "exposure": "accepted",
            **changes,
        }
    )


class Party:
    """One agent as its process has it: identity, data, and what lies on its disk between two
    answers."""

    def __init__(
        self, seed: int, folder: Path | None = None, demands: Demands | None = None
    ) -> None:
        random = np.random.default_rng(seed)
        self.identity, self.demands = Identity.generate(), demands or Demands(exposure="accepted")
        self.A_u, self.A_g = random.uniform(0.5, 1, (2, 2)), random.uniform(0.5, 1, (1, 2))
        self.cost = QuadraticCost(random.uniform(0, 1, (2, 2)), random.uniform(-2, -1, 2))
        self.path = None if folder is None else folder / f"{seed}.journal"
        self.state = b""
        self.start()

    def start(self) -> None:
        """A new process."""
        agent: Any = SimpleNamespace(identity=self.identity, journal_path=self.path)
        box = Box(np.zeros(2), np.ones(2))  # zero is in it, as in most boxes
        self.run = _Run(agent, (self.A_u, self.A_g, self.cost, box), None, self.demands)

    def stop(self) -> None:
        self.run.leave()

    def answer(
        self, number: int, broadcast: bytes, roster: dict[str, Any], price: dict[str, str]
    ) -> bytes:
        """As `discreet_agent.agent` does it: decide, save, then send."""
        current = Round(
            number,
            99,
            broadcast,
            self.state,
            1.0,
            self.identity.fingerprint,
            roster,
            {},
            b"",
            b"",
            price=price,
        )
        nothing: Any = SimpleNamespace(exposed=lambda but: Fraction(0))
        self.run.check(roster, price, nothing, self.state)
        body = self.run(current)
        self.state = current.state
        if current.on_saved is not None:
            current.on_saved()
        return body


class Together:
    """A session; `sums` are what every agent hears, opened with an agent's key."""

    def __init__(self, parties: Sequence[Party], **changes: Any) -> None:
        self.parties = sorted(parties, key=lambda party: party.identity.fingerprint)
        asked = problem(len(parties), **changes)
        plan = asked.plan_federation((), asked.budget(None))
        keys = [party.identity.public_key for party in self.parties]
        names = [party.identity.fingerprint for party in self.parties]
        members = [Member(name, "", key, {}) for name, key in zip(names, keys, strict=True)]
        listed = [
            {
                "name": "",
                "fingerprint": name,
                "key": base64.b64encode(key).decode(),
                "announcement": {},
            }
            for name, key in zip(names, keys, strict=True)
        ]
        parameters = plan.model_dump(mode="json")["parameters"]
        self.roster = json.loads(
            roster_document("ses_1", "job_1", "coupled_qp", listed, parameters)
        )
        self.price = dict(plan.price)
        self.session = asked.open_session(plan, members)
        self.broadcast = self.session.opening(Noise.secure())
        self.number = 0
        self.sums: list[Floats] = []

    def go(self, exchanges: int | None = None) -> None:
        """So many exchanges, or until the session ends."""
        end = self.session.rounds if exchanges is None else self.number + exchanges
        while self.number < end:
            before = self.broadcast
            answers = {
                party.identity.fingerprint: party.answer(
                    self.number, before, self.roster, self.price
                )
                for party in self.parties
            }
            assert all(self.session.accepts(self.number, *one) for one in answers.items())
            self.broadcast = self.session.step(self.number, answers, Noise.secure())
            self.number += 1
            if parse(self.broadcast)[0] == Kind.SUM:
                machine: Any = self.parties[0].run._machine
                scheme = machine._scheme
                scheme.summands = len(self.parties)
                self.sums.append(machine._point.decode(scheme.open(parse(self.broadcast)[4])))


# A start that everybody knows ---------------------------------------------------------------------


def test_the_first_sum_is_not_the_operators_own_vector() -> None:
    """From zero, which is in every box, the first sum was c and d in the clear to every agent."""
    run = Together([Party(seed) for seed in range(3)])
    run.go(4)
    # Three entries that spread over a unit or so each: all within 1e-6 by chance with probability
    # 1e-17.
    assert np.max(np.abs(run.sums[0] - [*C, *D])) > 1e-6


def test_a_job_run_again_without_an_agent_does_not_show_what_it_had_sent() -> None:
    """One agent that is in both runs, and nobody else, took the second sums from one another: the
    others' steps are the same as long as the sums are, and from zero the first ones are."""
    parties = [Party(seed) for seed in range(4)]
    first = Together(parties)
    first.go()
    missing, others = first.parties[3], first.parties[:3]
    for party in others:
        party.state = b""
        party.start()
    again = Together(others)
    again.go()
    # What the missing one sends after the step from zero, as anybody can work out who has its data.
    begun = np.clip(-0.05 * (missing.A_u.T @ C + missing.cost.a_l), 0, 1)
    sent = np.concatenate([missing.A_u @ begun, missing.A_g @ begun])
    assert np.linalg.norm(sent) > 0.01
    assert np.linalg.norm(first.sums[1] - again.sums[1] - sent) > 1e-6


def test_a_start_is_anywhere_in_the_box_and_the_same_after_a_restart() -> None:
    low, high = np.array([-1.0, 2.0, 3.0, -np.inf, 0.0]), np.array([1.0, 5.0, 3.0, 0.0, np.inf])
    otherwise = np.array([0.0, 3.0, 3.0, -7.0, 7.0])
    drawn = np.array([_somewhere(Box(low, high), otherwise, Draws()) for _ in range(400)])
    assert np.all((low[:3] <= drawn[:, :3]) & (drawn[:, :3] <= high[:3]))
    # Uniform: mean and deviation of 400 draws within seven standard errors, beyond which they are
    # with 1e-11.
    np.testing.assert_allclose(
        drawn[:, :2].mean(axis=0), [0.0, 3.5], atol=7 * 3 / math.sqrt(12 * 400)
    )
    np.testing.assert_allclose(drawn[:, :2].std(axis=0), [2 / 12**0.5, 3 / 12**0.5], rtol=0.16)
    assert np.all(drawn[:, 2] == 3)
    assert np.all(drawn[:, 3:] == [-7, 7])  # a side without an end
    run = Together([Party(seed) for seed in range(3)])
    run.go(1)
    (party, *_), x = run.parties, run.parties[0].run._rounds
    assert x is not None
    begun = x.x.copy()
    party.start()
    party.answer(1, run.broadcast, run.roster, run.price)
    assert party.run._rounds is not None
    np.testing.assert_array_equal(party.run._rounds.x, begun)


def test_an_agent_whose_numbers_end_stays_in_a_session_with_noise() -> None:
    """Where it left, nobody had paid for what that tells of its data. It counts as zero instead."""
    noise = {"epsilon": 20.0, "delta": 1e-3, "clip": 1000.0}
    parties = [Party(seed) for seed in range(40)]
    run = Together(parties, noise=noise, exposure=None)
    run.go(3)
    for party in parties[:1]:
        assert party.run._rounds is not None
        party.run._rounds.x[:] = np.nan
    run.go()
    assert run.session.done
    assert len(run.sums) == 5
    assert np.all(np.isfinite(run.sums))


# Files that were put back -------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", [0, 1, 3, 5])
def test_an_answer_is_not_decided_again_from_the_files_before_it(
    tmp_path: Path, exchange: int
) -> None:
    """The state is exactly one answer older than its journal: HELLO, DEAL, the first contribution,
    a later one.

    Decided again, with other data or noise, an answer would differ from the first one under the
    very same masks.
    """
    parties = [Party(seed, tmp_path) for seed in range(3)]
    run = Together(parties)
    run.go(exchange)
    victim = run.parties[0]  # the dealer
    older = victim.state
    broadcast = run.broadcast
    victim.answer(exchange, broadcast, run.roster, run.price)
    victim.stop()
    victim.state = older
    victim.A_u = victim.A_u + 1
    victim.start()
    with pytest.raises(FolderLost, match="older copy"):
        victim.answer(exchange, broadcast, run.roster, run.price)
    for party in run.parties:
        party.stop()


def test_a_journal_that_was_put_back_is_refused(tmp_path: Path) -> None:
    run = Together([Party(seed, tmp_path) for seed in range(3)])
    run.go(5)
    victim = run.parties[0]
    assert victim.path is not None
    victim.stop()
    lines = victim.path.read_text().splitlines(keepends=True)
    victim.path.write_text("".join(lines[:-2]))
    victim.start()
    with pytest.raises(FolderLost, match="journal is older"):
        victim.answer(5, run.broadcast, run.roster, run.price)
    for party in run.parties:
        party.stop()


def test_agents_restart_at_every_exchange(tmp_path: Path) -> None:
    """What the refusals above must not break."""
    run = Together([Party(seed, tmp_path) for seed in range(3)])
    for _ in range(run.session.rounds):
        run.go(1)
        for party in run.parties:
            party.stop()
            party.start()
    assert run.session.done
    assert len(run.sums) == 7


# What the owner was made to sign ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("demands", "says"),
    [
        (Demands(agents=4), "a roster of 3 agents; this one asks for 4"),
        (Demands(colluding=2), "withstand 1 colluding"),
        (Demands(rounds=4), "7 sums would be opened; this agent allows 4"),
        (Demands(noise=True), "no noise"),
    ],
)
def test_parameters_below_an_agents_demands_are_refused_before_anything_is_sent(
    demands: Demands, says: str
) -> None:
    parties = [Party(0, demands=demands), Party(1), Party(2)]
    run = Together(parties)
    with pytest.raises(AgentError, match=says):
        parties[0].answer(0, run.broadcast, run.roster, run.price)
    assert parties[0].state == b""
    Together([Party(seed, demands=Demands(3, 1, 7, exposure="accepted")) for seed in range(3)]).go(
        2
    )


def test_an_agent_takes_part_beside_agents_that_it_knows() -> None:
    """A server and an owner that fill the roster with their own keys learn nothing of it."""
    party = Party(0)
    run = Together([party, Party(1), Party(2)])
    names = [one["fingerprint"] for one in run.roster["agents"]]
    others = [name for name in names if name != party.identity.fingerprint]
    strangers = ["0" * 16, "ab" * 32]
    for known, least, there in (
        ([others[0], *strangers], 2, 1),
        ([others[0], others[0][:20]], None, 1),  # one agent counts once
        (strangers, 1, 0),
        ([others[0], strangers[0]], None, 1),
    ):
        party.demands = Demands(known=known, known_least=least, exposure="accepted")
        party.start()
        says = f"of the {len(known)} agents that this one knows {there} are on the roster"
        with pytest.raises(AgentError, match=says):
            party.answer(0, run.broadcast, run.roster, run.price)
        assert party.state == b""
    party.demands = Demands(known=[others[0][:16], *strangers], known_least=1, exposure="accepted")
    party.start()
    run.go(2)
    for known, least in ((["9f3c"], None), (["xy" * 8], None), ([others[0]], 2)):
        with pytest.raises(ValueError, match=r"not a fingerprint|known_least"):
            Demands(known=known, known_least=least)


@pytest.mark.parametrize(
    ("owner", "agent", "missing"),
    [(None, "accepted", "the owner"), ("accepted", None, "this agent")],
)
def test_few_agents_take_part_only_where_owner_and_agent_accept_it(
    monkeypatch: pytest.MonkeyPatch, owner: Any, agent: Any, missing: str
) -> None:
    """The agent counts for itself: a server that does not refuse, of an older version say, changes
    nothing."""
    monkeypatch.setattr(
        "discreet.problems.coupled_qp.exposure.refuse_exposed", lambda *_, **__: None
    )
    party = Party(0, demands=Demands(exposure=agent))
    run = Together([party, Party(1), Party(2)], exposure=owner)
    with pytest.raises(AgentError, match=f"and {missing} has not accepted"):
        party.answer(0, run.broadcast, run.roster, run.price)
    assert party.state == b""


def test_parameters_of_another_version_are_refused() -> None:
    """What an agent without the field does with `exposure`: it does not know what it would take
    part in."""
    party = Party(0)
    run = Together([party, Party(1), Party(2)])
    assert run.roster["parameters"]["sums"]["exposure"] == "accepted"
    run.roster["parameters"]["sums"]["unknown"] = "accepted"
    with pytest.raises(AgentError, match="this version does not know"):
        party.answer(0, run.broadcast, run.roster, run.price)
    assert party.state == b""


def test_a_cap_on_rounds_holds_over_restarts(tmp_path: Path) -> None:
    """A process that comes back with a smaller cap than the session's rounds answers no more."""
    parties = [Party(seed, tmp_path) for seed in range(3)]
    run = Together(parties)
    run.go(5)
    victim = run.parties[0]
    victim.stop()
    victim.demands = Demands(rounds=4, exposure="accepted")
    victim.start()
    with pytest.raises(AgentError, match="7 sums would be opened; this agent allows 4"):
        victim.answer(5, run.broadcast, run.roster, run.price)
    for party in run.parties:
        party.stop()
    assert Demands().rounds == 1000


NOISE = {
    "noise": {"epsilon": 30, "delta": 1e-6, "clip": 1.2},
    "steps": {"primal": 0.05, "dual": 0.05, "iterations": 3},
}


def test_a_price_below_what_the_signed_noise_costs_is_refused() -> None:
    """The server names the price, and could name none; the agent's own limit rests on it."""
    parties = [Party(seed) for seed in range(40)]
    run = Together(parties, **NOISE)
    honest = int(run.price["epsilon"])
    for epsilon in (0, 1, honest // 2, honest * 98 // 100):
        with pytest.raises(NotTrusted, match="the server charges"):
            parties[0].answer(0, run.broadcast, run.roster, {**run.price, "epsilon": str(epsilon)})
    assert parties[0].state == b""
    run.go(5)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-5), (1, 1e-6), (8, 1e-10), (100, 1e-6), (900, 1e-12)]
)
def test_plans_are_never_cheaper_than_the_agents_bound(epsilon: float, delta: float) -> None:
    asked = problem(
        1000, noise={"epsilon": epsilon, "delta": delta, "clip": 1e-3}, federation={"agents": 1000}
    )
    plan = asked.plan_federation((), asked.budget(None))
    sums = secure_sum.Parameters(**plan.parameters["sums"])
    check_price(sums, plan.price)
    with pytest.raises(NotTrusted):
        check_price(sums, {**plan.price, "epsilon": str(int(epsilon * 1e9) * 9 // 10)})


def test_the_bound_is_the_gaussians_curve() -> None:
    """Against the definition, integrated: delta = ∫ max(0, p - e^eps q), p and q normal densities
    mu apart."""
    z = np.linspace(-12, 12, 400_001)
    for epsilon, mu in ((0.1, 0.3), (1.0, 1.0), (3.0, 0.9), (10.0, 2.0)):
        p, q = (np.exp(-((z - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (mu / 2, -mu / 2))
        expected = float(np.trapezoid(np.maximum(0, p - math.exp(epsilon) * q), z))
        assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-4)
    assert 0 < gaussian_delta(900.0, 35.0) < 1  # e^900 is no double
