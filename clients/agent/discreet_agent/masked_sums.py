"""An agent of a cloud multi-agent problem whose states the cloud does not see: it adds its part of
each constraint's value, with its share of the noise, under masks that go away in the sum alone.

The sums are those of `discreet_agent.sparse_sum`, docs/decisions/0025-sparse-masks.md: an agent
that drops costs its round nothing but its own part. Plan, derivatives, units and noise are signed
by the owner with the roster; this agent computes what they promise again, and believes no other.
Its secrets of a round are in memory alone, its claims on disk: a process that dies has dropped from
the round, and its next one answers in no round twice.

An agent's contribution to a constraint is `Σ c_i x_i / (unit grid)`, rounded to an integer, of its
own coordinates x_i and their signed derivatives c_i, in exact arithmetic.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from discreet_agent import sparse_sum
from discreet_agent.demands import Demands
from discreet_agent.federation import history, signing
from discreet_agent.federation.errors import AgentError, NotTrusted
from discreet_agent.guarantees import check_gaussian
from discreet_agent.own_state import Minimum, Slope, begun, ended, moved_along
from discreet_agent.packing import Integers
from discreet_agent.rounds import Outcome, Party, Program, Round
from discreet_agent.secure_sum.errors import Refused, SecureSumError, Unacceptable
from discreet_agent.sparse_sum import exchanges
from discreet_agent.sparse_sum.conversation import HEAD, Step
from discreet_agent.sparse_sum.plan import SECURITY_BITS

SPARSE = "sparse"


def minimize(
    agent: Party,
    slope: Slope,
    *,
    initial: float | list[float] | None = None,
    demands: Demands | None = None,
) -> Minimum:
    """See `multi_agent.minimize`. AgentError, before anything was said that depends on a state,
    where what the owner has signed falls short of `demands` or of what it promises."""
    steps = MaskedSteps(agent, slope, initial, demands or Demands())
    try:
        outcome = agent.participate(steps)
        found = steps.end(outcome)
        steps.finish()
        return found
    finally:
        steps.close()


class Signed:
    """What the owner has signed of the sums, for one agent: `plan`, derivatives, units and noise.
    NotTrusted where they do not hold what they promise to it, Unacceptable where their plan does
    not."""

    def __init__(self, current: Round) -> None:
        parameters = current.roster.get("parameters")
        if parameters is None or "sums" not in parameters:
            raise NotTrusted(
                "the owner has signed no masked sums, and this agent takes part in nothing else "
                "(masks: 'sparse')"
            )
        if parameters != current.parameters:
            raise NotTrusted("the cloud's parameters are not those that the owner has signed")
        listed = current.roster["agents"]
        self.keys = [base64.b64decode(one["key"]) for one in listed]
        own = next(one for one in listed if one["fingerprint"] == current.agent)
        sums = parameters["sums"]
        self.plan = exchanges.plan_of(sums)
        layout, self.constraints = parameters["layout"], 0
        while self.constraints < len(layout) and layout[self.constraints][1] is None:
            self.constraints += 1
        units = [float(unit) for unit in parameters["units"][: self.constraints]]
        dimension = own["announcement"].get("dimension")
        name = str(own["name"])
        names = [name] if dimension is None else [f"{name}_{i + 1}" for i in range(dimension)]
        place = {one: at for at, one in enumerate(names)}
        rows = np.zeros((self.constraints, len(names)))
        for (constraint, of), entry in zip(
            layout[self.constraints :], sums["derivatives"], strict=True
        ):
            if of in place:
                rows[constraint, place[of]] = entry
        self.gradient: list[Any] = rows.tolist() if dimension else rows[:, 0].tolist()
        self._step = float(sums["grid"])
        self._parts = [
            ([Fraction(entry) for entry in row], Fraction(unit) * Fraction(self._step))
            for row, unit in zip(rows.tolist(), units, strict=True)
            if unit > 0
        ]
        if len(self.keys) != self.plan.agents or len(self._parts) != self.plan.dimension:
            raise NotTrusted("the plan of the sums is that of other agents or constraints")
        if current.rounds != exchanges.exchanges(self.plan.rounds) + 1:
            raise NotTrusted("the cloud counts other rounds than the plan of the sums")
        self._check_promise(own["announcement"], rows, units, sums, current.price)

    def _check_promise(
        self,
        own: Mapping[str, Any],
        rows: Any,
        units: list[float],
        sums: Mapping[str, Any],
        price: Mapping[str, str],
    ) -> None:
        """That a move of this agent's trajectory by its radius moves what it adds, in units, by 1
        in l2 at most; that the noise of the fewest honest survivors is that of the plan; and that
        the price is what such noise costs."""
        moved = Fraction(0)
        for row, unit in zip(rows.tolist(), units, strict=True):
            square = sum((Fraction(entry) ** 2 for entry in row), Fraction(0))
            if square and not unit > 0:
                raise NotTrusted("the owner has signed a sum without noise that shows this agent")
            moved += square / Fraction(unit) ** 2 if square else 0
        if moved * Fraction(own["radius"]) ** 2 > 1:
            raise NotTrusted("the units of the sums are too small for this agent's radius")
        scale, grid, plan = Fraction(sums["scale"]), Fraction(sums["grid"]), self.plan
        honest = plan.minimum - plan.corrupt
        if not (grid > 0 and plan.variance * honest * grid**2 >= scale**2):
            raise NotTrusted("the noise of the fewest honest agents is less than the plan says")
        spread = float(scale**2 - 3 * grid**2)
        if not spread > 0:
            raise NotTrusted("the grid of the noise is too coarse for it")
        root = math.sqrt(plan.dimension * plan.rounds)
        mu = (1 + float(grid) * root) / math.sqrt(spread)
        check_gaussian(mu, price, 2.0**-SECURITY_BITS)

    def contribution(self, x: float | list[float]) -> Integers:
        """int64[dimension]: what an agent at x adds, modulo 2^64 as the sums are. A unit too fine
        for that spoils the sum; an agent that stopped there would tell where its state lies."""
        state = [Fraction(one) for one in (x if isinstance(x, list) else [x])]
        added = [
            round(sum((c * one for c, one in zip(row, state, strict=True)), Fraction(0)) / unit)
            for row, unit in self._parts
        ]
        return np.array([one % 2**64 for one in added], dtype=np.uint64).view(np.int64)


class MaskedSteps(Program):
    """What the agent answers to each exchange of a session, see `minimize`."""

    first_round_with_data = exchanges.SETTING_UP

    def __init__(
        self,
        agent: Party,
        slope: Slope,
        initial: float | list[float] | None,
        demands: Demands,
    ) -> None:
        self._agent, self._slope, self._initial, self._demands = agent, slope, initial, demands
        self.signed: Signed | None = None
        """What the owner has signed, once it is known."""
        self._durable: sparse_sum.DurableAgent | None = None

    def finish(self) -> None:
        """Erase the secrets of a session that has ended."""
        if self._durable is not None:
            self._durable.finish()
            self._durable = None

    def close(self) -> None:
        """Let another process have the claims."""
        if self._durable is not None:
            self._durable.close()

    def __call__(self, current: Round) -> bytes:
        try:
            kept = self._kept(current)
            signed, durable = self._open(current)
        except Unacceptable as error:
            raise AgentError(str(error)) from error
        except SecureSumError as error:
            raise AgentError(f"the folder of this agent's claims: {error}") from error
        except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration) as error:
            raise NotTrusted(
                f"the cloud's message cannot be read: {type(error).__name__}"
            ) from error
        if current.number == current.rounds - 1:
            assert current.identity is not None
            end = bytes.fromhex(kept["history"])
            answer = current.identity.sign(signing.history(current.roster_digest, end))
        else:
            answer = self._answer(current, signed, durable, kept)
        current.state = json.dumps(kept).encode()
        return answer

    def end(self, outcome: Outcome) -> Minimum:
        """How the session ended for this agent."""

        def last_move(kept: dict[str, Any], told: bytes) -> dict[str, Any]:
            return self._moved(kept, kept["sums"], told)

        survivors = json.loads(outcome.final_state or "{}").get("survivors", 0)
        return ended(self._agent, outcome, last_move, survivors)

    def _kept(self, current: Round) -> dict[str, Any]:
        """What is kept, with what this broadcast says: after the setup each begins with the digest
        of the one before, and the first of each round has outputs and multipliers."""
        number, last = current.number, current.rounds - 1
        if current.state:
            kept: dict[str, Any] = json.loads(current.state)
        else:
            signed = Signed(current)
            kept = begun(current, self._initial, b"") | {
                "multipliers": [0.0] * signed.constraints,
                "outputs": signed.constraints,
                "gradient": signed.gradient,
                "sums": signed.plan.rounds,
                "survivors": (signed.plan.agents + 7) // 8,
                "number": -1,
                "history": history.BEGINNING.hex(),
            }
        if number >= exchanges.SETTING_UP:
            before, told = history.split(current.broadcast)
            if _follows(kept, number) not in (None, before):
                raise NotTrusted(
                    "the cloud's broadcast does not follow from the one that this agent was shown"
                )
            step, k = exchanges.step_of(number)
            if number == last or (step is Step.SHARES and k):
                kept = self._moved(kept, k, told)
            elif told:
                raise NotTrusted("the cloud says something where a round has nothing to say")
            kept["history"] = history.after(current.broadcast).hex()
        kept["number"] = number
        return kept

    def _moved(self, kept: dict[str, Any], k: int, told: bytes) -> dict[str, Any]:
        """After sum k: noised values, the next multipliers, and who was in it."""
        count = kept["outputs"] + len(kept["multipliers"])
        if len(told) != 8 * count + kept["survivors"]:
            raise ValueError("another number of outputs")
        round_, survivors = kept.get("released", (-1, ""))
        if round_ == k - 1 and survivors != told[8 * count :].hex():
            raise NotTrusted(
                "the cloud says that others were in the sum than this agent gave shares for"
            )
        multipliers = list(struct.unpack_from(f"!{count}d", told))[kept["outputs"] :]
        return moved_along(kept, self._slope, k, kept["gradient"], multipliers)

    def _open(self, current: Round) -> tuple[Signed, sparse_sum.DurableAgent]:
        """What was signed, and the agent of the sums: of this process, or of the claims of the one
        before."""
        if self.signed is None or self._durable is None:
            signed = Signed(current)
            journal = self._agent.journal_path
            if journal is None:
                raise AgentError("masked sums need their claims on disk: not durable=False")
            roster = exchanges.roster_of(current.roster_digest, signed.plan, signed.keys)
            assert current.identity is not None
            self._durable = sparse_sum.DurableAgent(
                current.identity.private_key,
                journal.with_suffix(".sums"),
                roster,
                _Demanded(self._demands, signed.keys),
            )
            self.signed = signed
        return self.signed, self._durable

    def _answer(
        self,
        current: Round,
        signed: Signed,
        durable: sparse_sum.DurableAgent,
        kept: dict[str, Any],
    ) -> bytes:
        """To what this agent alone was told; nothing where it was told nothing, or refuses: then it
        has dropped from the round. `kept["refused"]` counts that."""
        if not current.delivery:
            return b""
        step, round_ = exchanges.step_of(current.number)
        due = {(step, round_)}
        if step is Step.SHARES:
            due.add((Step.JOIN, 0))  # once more, for an agent that has missed it

        def values(number: int) -> Integers:
            return signed.contribution(kept["x"])

        try:
            if len(current.delivery) < HEAD.size or HEAD.unpack_from(current.delivery) not in due:
                raise Refused("the cloud asks for another step than that of this exchange")
            said = sparse_sum.answer(durable, current.delivery, values)
        except SecureSumError as error:
            kept["refused"] = kept.get("refused", 0) + 1
            kept["refusal"] = str(error)
            return b""
        if step is Step.RELEASE:
            survivors = current.delivery[HEAD.size : HEAD.size + kept["survivors"]]
            kept["released"] = [round_, survivors.hex()]
        return said


def _follows(kept: dict[str, Any], number: int) -> bytes | None:
    """What the broadcast of this exchange begins with, where that follows from the last one that
    the agent was shown: of those it was not, none may have said anything. None after outputs that
    it has missed."""
    known, last = bytes.fromhex(kept["history"]), max(kept["number"], exchanges.SETTING_UP - 1)
    if number == kept["number"]:
        return None  # once more
    for missed in range(last + 1, number):
        step, k = exchanges.step_of(missed)
        if step is Step.SHARES and k:
            return None
        known = history.after(known)
    return known


class _Demanded:
    """`Demands` as the roster of the sums is checked by them."""

    def __init__(self, demands: Demands, keys: list[bytes]) -> None:
        self._demands, self._keys = demands, keys

    def check(self, roster: sparse_sum.Roster) -> None:
        roster.check()
        self._demands.check_masks(roster.plan, self._keys)
