"""The methods by which agents of a coupled program reach their optimum over opened sums.

`spds` and `rpds` are the paper's: short steps, as many as the owner sets. `auto` has no steps to
set: agents respond to prices exactly (`discreet_client.best_responses`), and a quasi-Newton method
finds the prices (`discreet_client.prices`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.errors import InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.problems.coupled_qp import checks
from discreet.problems.coupled_qp.data import Floats, QpSteps
from discreet.solvers.saddle.spds import Part
from discreet_client import secure_sum
from discreet_client.best_responses import Responder
from discreet_client.priced_rounds import MOST_COUPLINGS, MOST_ROUNDS, PricedRounds
from discreet_client.prices import Prices, signed_rows
from discreet_client.settling import SUMS
from discreet_client.updates import Participant, Rounds

Name = Literal["spds", "rpds", "auto"]
MEANING = (
    "`spds`: the paper's shrunken primal-dual subgradient method, with `steps`. `rpds`: its "
    "regularized one, which does not shrink and needs `steps.regularization`. `auto`: prices by "
    "a quasi-Newton method and exact answers of the agents, with no steps to choose; ends by "
    "itself, often after 10 to 20 rounds. Without it `spds` where there are steps or noise, else "
    "`auto`"
)
FEWEST_ROUNDS = 4
"""Fewest rounds of `auto`: two of slopes, responses to the first prices, and their sizes."""


class Method(ABC):
    """What a job's plan and its agents need to know about the iteration."""

    name: ClassVar[Name]
    added: ClassVar[int] = 0
    """Entries of a sum in addition to the couplings."""
    slot_bits: ClassVar[int | None] = None
    """Of the slots that it needs; None for any."""
    scaled: ClassVar[bool] = False
    """Whether rows travel in units of their own (`bounds.Units`)."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        """The most sums that are opened."""

    @property
    def model(self) -> tuple[str, ...]:
        """The statement of plan and certificate about its answer."""
        return ()

    @property
    @abstractmethod
    def signed(self) -> dict[str, Any]:
        """The parameters for agents, signed by the owner."""

    @abstractmethod
    def check(self, count: int, couplings: int) -> None:
        """InvalidInput for values that do not fit this many agents."""

    @abstractmethod
    def check_federated(self, count: int, couplings: int) -> None:
        """The same if nobody sees all data."""

    @abstractmethod
    def check_parts(self, parts: Sequence[Part]) -> None:
        """InvalidInput for data that it cannot handle."""

    def bound(self, reach: float, slots: float) -> float:
        """The largest entry of a contribution with couplings up to this bound, in slots of this
        capacity."""
        return reach

    @abstractmethod
    def updates(
        self, parts: Sequence[Part], parameters: Mapping[str, Any]
    ) -> Sequence[Rounds | PricedRounds]:
        """The agents of `protocol: job`, from the parameters of the plan."""

    def own(self, vector: Floats, parameters: Mapping[str, Any]) -> Floats:
        """The operator's part of a sum."""
        return vector


class Spds(Method):
    name: ClassVar[Name] = "spds"

    def __init__(self, steps: QpSteps, *, asks: bool) -> None:
        super().__init__(steps.iterations + (SUMS if asks else 0))
        self.steps = steps
        self._asks = asks

    @property
    def signed(self) -> dict[str, Any]:
        return {"steps": self.steps.model_dump(mode="json")}

    def check(self, count: int, couplings: int) -> None:
        checks.check_steps(self.steps, count)

    def check_federated(self, count: int, couplings: int) -> None:
        if self.steps.primal is None or self.steps.dual is None:
            says = (
                "primal and dual are needed: nobody sees all data to derive them from; method "
                "auto needs no steps"
            )
            raise InvalidInput(says, pointer="/problem/steps")
        checks.check_steps(self.steps, count)
        if isinstance(self.steps.primal, tuple):
            says = "one step size for all: the order of the agents is not known before they join"
            raise InvalidInput(says, pointer="/problem/steps/primal")

    def check_parts(self, parts: Sequence[Part]) -> None:
        chosen = checks.steps_of(self.steps, parts)
        for place, (part, steps) in enumerate(zip(parts, chosen, strict=True)):
            if steps.shrink < 1 and (part.domain.flat or part.cost.kinked):
                says = (
                    f"agent {place} has a budget, a polytope or a cost with kinks, and a step that "
                    "shrinks has other fixed points there: shrink is 1"
                )
                raise InvalidInput(says, pointer="/problem/steps/shrink")

    def bound(self, reach: float, slots: float) -> float:
        """Sizes of rows may be larger than what rows reach, where variables cancel: they are
        clipped to the capacity of the slots."""
        return max(reach, slots) if self._asks else reach

    def updates(
        self, parts: Sequence[Part], parameters: Mapping[str, Any]
    ) -> Sequence[Rounds | PricedRounds]:
        asked = secure_sum.Parameters(**parameters["sums"]).asked(len(parts))
        return [
            Rounds(
                Participant(part.A_u, part.A_g, part.cost, part.domain, steps),
                self.steps.iterations,
                asked,
            )
            for part, steps in zip(parts, checks.steps_of(self.steps, parts), strict=True)
        ]


class Rpds(Spds):
    """Koshal, Nedić, Shanbhag (2011): steps of the Lagrangian plus `ε/2 |x|² - ε/2 |λ|²`, ε the
    regularization. At its fixed point a constraint of price λ is exceeded by ε λ. It opens the same
    as `spds`: one sum per round, of the same entries."""

    name: ClassVar[Name] = "rpds"

    @property
    def model(self) -> tuple[str, ...]:
        return (
            f"method rpds answers a regularized problem (regularization "
            f"{self.steps.regularization:g}): in the end a joint constraint is exceeded by that "
            "times its price, and x is moved in proportion to it; each round opens a sum, as with "
            "spds",
        )

    @property
    def signed(self) -> dict[str, Any]:
        return {"method": "rpds", **super().signed}


class Auto(Method):
    name = "auto"
    added = 1  # how far agents are from their own best points
    scaled = True
    slot_bits = 64  # it counts agents and adds up logarithms in one slot

    @property
    def signed(self) -> dict[str, Any]:
        return {"method": "auto", "steps": {"iterations": self.iterations}}

    def check(self, count: int, couplings: int) -> None:
        if couplings > MOST_COUPLINGS:
            raise InvalidInput(
                f"method auto keeps a matrix of the couplings, at most {MOST_COUPLINGS} of them, "
                f"not {couplings}: name method spds and its steps",
                pointer="/problem/method",
            )

    def check_federated(self, count: int, couplings: int) -> None:
        self.check(count, couplings)

    def check_parts(self, parts: Sequence[Part]) -> None:
        """All boxes are bounded, otherwise their sums would not fit their slots."""

    def bound(self, reach: float, slots: float) -> float:
        """The capacity of the slots: rows travel in units in which they fit."""
        return slots

    def updates(
        self, parts: Sequence[Part], parameters: Mapping[str, Any]
    ) -> Sequence[Rounds | PricedRounds]:
        sums, coupled = secure_sum.Parameters(**parameters["sums"]), parts[0].A_u.shape[0]
        exponents, figures = signed_rows(parameters)
        # One for all: they are the same for every agent.
        prices = Prices(
            coupled,
            figures,
            sums.bound,
            2.0**-sums.fraction_bits,
            len(parts),
            exponents,
            sums.tolerance,
        )
        return [
            PricedRounds(
                Responder(
                    np.vstack([part.A_u, part.A_g]), part.cost, part.domain, coupled, figures
                ),
                prices,
                self.iterations,
            )
            for part in parts
        ]

    def own(self, vector: Floats, parameters: Mapping[str, Any]) -> Floats:
        exponents, _ = signed_rows(parameters)
        return np.append(np.ldexp(vector, exponents), np.zeros(self.added))


def method_of(name: Name | None, steps: QpSteps | None, *, noise: bool, asks: bool) -> Method:
    """The method of a request: the named one, otherwise the one that fits its fields. `asks`:
    whether agents say if the sums have settled. Raises FieldError if these disagree."""
    if name is None:
        name = "spds" if steps is not None or noise else "auto"
    if name != "auto":
        if steps is None:
            raise FieldError(
                "steps", f"method {name}, and sums with noise, need them: iterations at least"
            )
        asks = asks and not noise
        return Spds(steps, asks=asks) if name == "spds" else _rpds(steps, asks=asks)
    if noise:
        raise FieldError(
            "method", "sums with noise are for method spds or rpds, and their short steps"
        )
    if steps is None:
        return Auto(MOST_ROUNDS)
    if given := sorted(steps.model_fields_set - {"iterations"}):
        raise FieldError(
            f"steps/{given[0]}", "method auto has no steps: give only iterations, or nothing"
        )
    if steps.iterations < FEWEST_ROUNDS:
        raise FieldError("steps/iterations", f"method auto takes {FEWEST_ROUNDS} rounds at least")
    return Auto(steps.iterations)


def _rpds(steps: QpSteps, *, asks: bool) -> Rpds:
    if steps.regularization == 0:
        raise FieldError(
            "steps/regularization",
            "method rpds needs a value above 0, such as 0.0001; without it, use method spds",
        )
    if steps.shrink < 1:
        raise FieldError("steps/shrink", "method rpds does not shrink; method spds does")
    return Rpds(steps, asks=asks)
