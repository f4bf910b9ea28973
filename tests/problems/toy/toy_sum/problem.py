"""The sum of everybody's number, with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.problems.base import ALWAYS, Neighbours, Synthesis
from discreet.problems.contents import Content, Profile, Progress, Released
from discreet.problems.numbers import Budget, Flag
from discreet.problems.plans import NoiseSummary, Plan, Resources
from discreet.problems.results import INTERVALS, LEVEL, Expected, Result
from discreet.problems.reuse import ProblemOnData
from discreet.problems.toy_sum.dataset import ToySumDataset, ToySumPublic
from discreet.problems.toy_sum.result import ToySumResult


class ToySum(ProblemOnData):
    """The sum of everybody's number."""

    title: ClassVar[str] = "Toy sum"
    private: ClassVar[str] = "everybody's number"
    published: ClassVar[str] = "their sum"
    Dataset: ClassVar[type[ToySumDataset]] = ToySumDataset
    Fields: ClassVar[Any] = ToySumResult
    synthesis: ClassVar[Synthesis | None] = Synthesis(
        rows=lambda public, units: units or 10,
        columns=lambda public, generator, units, around: {
            "number": generator.integers(0, public.most + 1, units or 10)
        },
    )
    asked_again: ClassVar[Mapping[str, str]] = {"negative": ALWAYS, "uncertainty": ALWAYS}

    kind: Literal["toy_sum"]
    negative: Flag = Field(default=True, description="Whether a sum below 0 is shown as it is")
    uncertainty: Flag = INTERVALS

    @classmethod
    def example(cls) -> dict[str, Any]:
        dataset = {
            "name": "toy numbers",
            "kind": "toy_sum",
            "public": {"unit": "person", "most": 9},
            "content": {"numbers": [1, 2, 3, 9]},
            "cap": {"epsilon": 10},
        }
        return {"problem": {"kind": "toy_sum", "dataset": dataset}, "privacy": {"epsilon": 1}}

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        content["numbers"][0] = number % 10

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        public = ToySumPublic(unit="person", most=9)
        problem = cls(kind="toy_sum", dataset="example")
        plan = problem.plan(public, Budget(epsilon=10**9, delta=0))
        left, right = ({"numbers": np.array(numbers)} for numbers in ([0, 9], [0]))
        return (Neighbours("toy_sum", problem, public, plan, left, right),)

    def alternative_values(self, public: ToySumPublic) -> dict[str, dict[str, Any]]:
        return {
            "negative": {"negative": not self.negative},
            "uncertainty": {"uncertainty": not self.uncertainty},
        }

    def plan(self, public: ToySumPublic, budget: Budget) -> Plan:
        neighbours = "one person's number added or removed"
        event = calibration.discrete_laplace(public.most, budget.epsilon, neighbours=neighbours)
        return Plan.priced(
            [event],
            noise=(NoiseSummary.of(event, "the sum"),),
            iterations={},
            resources=Resources(release_quantum_seconds=0.5, memory_bytes=1 << 28, steps=1),
            unit=public.unit,
            neighbours=neighbours,
        )

    def expected(
        self, public: ToySumPublic, plan: Plan, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        within = -plan.noise[0].scale * math.log(1 - confidence)  # of a Laplace law
        return (
            Expected(
                "total", within, "in all", f"the sum within {within:.3g} with {confidence:.0%}"
            ),
        )

    def release(self, public: ToySumPublic, plan: Plan, content: Content, noise: Noise) -> Released:
        return {"sum": noise.add(plan.events[0], content["numbers"].sum(keepdims=True))}

    def finish(
        self, public: ToySumPublic, plan: Plan, released: Released, progress: Progress
    ) -> Result:
        progress(1, 1)
        total = int(released["sum"][0])
        values: dict[str, Any] = {"total": total if self.negative else max(total, 0)}
        if self.uncertainty:
            (expected,) = self.expected(public, plan, LEVEL)
            noise = expected.within > 2 * public.most
            ends = {"lower": total - expected.within, "upper": total + expected.within}
            values["uncertainty"] = {
                "level": LEVEL,
                "values": {"total": ends},
                "kinds": {"total": "noise"},
                "noise_dominates": {"total": noise},
                "mostly_noise": noise,
            }
        return Result.of(self.Fields, values)
