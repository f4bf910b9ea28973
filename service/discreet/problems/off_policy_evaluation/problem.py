"""Off-policy evaluation: what would another policy have been worth, without exposing any one
person.

Trajectories of people under a behaviour policy are private; features, discount and bounds are
public. What is released are weights of a linear value function: of noised sums over trajectories
(`moments`), or of iterations that are noised themselves. The paper (Xie et al. 2019) has the last;
see `docs/problems/off_policy_evaluation.md` for its true price.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.privacy.units import EPSILON_UNIT
from discreet.problems.base import ALWAYS, Neighbours, Synthesis
from discreet.problems.contents import Content, Profile, Progress, Released, Sums
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation import dataset, examples
from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset
from discreet.problems.off_policy_evaluation.examples import SYNTHESIS
from discreet.problems.off_policy_evaluation.features import initial_issues
from discreet.problems.off_policy_evaluation.method import Chosen, Method, MethodOfSums
from discreet.problems.off_policy_evaluation.methods import methods_named
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.problems.off_policy_evaluation.request import WEIGHING, OffPolicyRequest
from discreet.problems.off_policy_evaluation.result import OffPolicyEvaluationResult, headlines
from discreet.problems.off_policy_evaluation.sampled import SampledMethod
from discreet.problems.parts import Records, SampledRecords, SumsOverParts
from discreet.problems.plans import LONGEST_SECONDS, NoiseSummary, Plan, Resources, sized
from discreet.problems.results import Expected, Result
from discreet_client.intervals import plain

AUTO = "auto"


class OffPolicyEvaluation(OffPolicyRequest, SumsOverParts, SampledRecords):
    """Weights of a linear value function of the target policy, or its value over the people in the
    data.

    `importance_sampling` releases the value, by clipped weights of whole trajectories,
    `per_decision` by those of single steps, for rewards that come along the way. Of a value
    function `moments` releases noised sums over trajectories and solves in closed form; `minibatch`
    noises Poisson-sampled gradient steps; `gradient` is GPOPE, one trajectory a step; `dp_lsw` and
    `dp_lsl` are Monte Carlo regressions with smooth sensitivity. `auto` is importance_sampling
    where the data have the probabilities of actions and the request names nothing of a value
    function, such as `initial`; else moments where the topology is public or features are few, else
    minibatch.
    """

    title: ClassVar[str] = "Off-policy evaluation"
    private: ClassVar[str] = "trajectories of people under one policy"
    published: ClassVar[str] = "what another policy would have been worth"
    Dataset: ClassVar[type[OffPolicyDataset]] = OffPolicyDataset
    Fields: ClassVar[Any] = OffPolicyEvaluationResult
    headlines: ClassVar[Any] = staticmethod(headlines)
    main_fields: ClassVar[tuple[str, ...]] = ("policy_value", "difference")
    synthesis: ClassVar[Synthesis | None] = SYNTHESIS
    made_up: ClassVar[str] = (
        "Discount and bounds of returns are made up, and where a value function is asked for its "
        "features (of coordinates from 0 to 1) and where people begin (`initial`): put what holds "
        "of your own in their place."
    )
    shape: ClassVar[tuple[str, ...]] = ("states", "topology")
    asked_again: ClassVar[Mapping[str, str]] = {
        "discount": "with the method moments of tabular features",
        "regularization": "with the method moments of other features",
        "initial": "with methods that fit a value function",
        "features": "with the methods importance_sampling and per_decision, which read none",
        "uncertainty": ALWAYS,
    }

    known_to_who_asks: ClassVar[tuple[str, ...]] = ("return_bounds",)
    by_parts: ClassVar[str] = (
        "the methods moments, importance_sampling and per_decision read it by parts, minibatch and "
        f"gradient hold what they draw, with so few steps that this takes up to {LONGEST_SECONDS} s"
    )

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def example_for(cls, public: OffPolicyPublic) -> dict[str, Any]:
        return examples.example_for(cls, public)

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        content["transitions"][0]["reward"] = number / 10**9

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        return examples.worst_cases(cls)

    def free(self, public: OffPolicyPublic) -> frozenset[str]:
        method = self.method_for(public, name_of(self, public))
        return super().free(public) | method.asked_again | ({"initial"} if method.fitted else set())

    def questions(self, public: OffPolicyPublic) -> list[str]:
        fitted = self.method_for(
            public, name_of(self, public)
        ).fitted  # by features, which others do not read
        return [name for name in super().questions(public) if fitted or name != "features"]

    def alternative_values(self, public: OffPolicyPublic) -> dict[str, dict[str, Any]]:
        return examples.otherwise(self, public)

    # Planning

    def plan(self, public: OffPolicyPublic, budget: Budget) -> Plan:
        if issues := issues_of(self, public):
            raise InvalidInput(issues)
        method = self.method_for(public, name_of(self, public))
        chosen = method.parameters()
        neighbours = (
            "one person's trajectory replaced by another; the number of trajectories is public"
            if public.replaced
            else "one person's whole trajectory added or removed"
        )
        try:
            event, quantity, beside = method.events(chosen, budget, neighbours)
        except ValueError as error:
            pointer = "/privacy/delta" if budget.delta == 0 else "/privacy/epsilon"
            more = "" if budget.delta == 0 else f"; {method.name} needs a larger epsilon or delta"
            raise InvalidInput(f"{error}{more}", pointer=pointer) from None
        resources = _resources(method, chosen, event)
        sampled_by = None
        if isinstance(method, SampledMethod):
            by_index = _resources(method, chosen, event, method.sampling_seconds(chosen, event))
            if by_index.working_seconds <= LONGEST_SECONDS:
                sampled_by, resources = public.unit, by_index
        if resources.working_seconds > LONGEST_SECONDS:
            raise InvalidInput(
                f"with the largest content this could take {resources.working_seconds:.3g} "
                f"s, at most {LONGEST_SECONDS} are allowed whatever the content: use fewer "
                f"features or steps, less sampling, or a dataset with smaller public bounds "
                f"(max_rows, max_trajectories)",
                pointer="/problem/features" if chosen["steps"] is None else "/problem/steps",
            )
        told: list[str] = []
        epsilon = (
            event.price().epsilon + sum(one.price().epsilon for one, _ in beside)
        ) / EPSILON_UNIT
        if self.method == "auto":
            told.append(why_chosen(self, public, method, budget))
        if self.max_importance == AUTO or (self.max_importance is None and method.chooses_cap):
            cap, why = method.best_cap(event, epsilon, by_release=bool(beside))
            told.append(why)
            method = self.method_for(public, method.name, cap)
        elif self.max_importance is None and public.off_policy:
            told.append(
                f"max_importance is {method.max_ratio:g}, as the request names none: larger ratios "
                "count as that; " + method.better_cap(event, epsilon)
            )
        if self.clip == AUTO:
            told.append(
                f"clip (auto) is {plain(chosen['clip'], 3)}, tried on synthetic data with features "
                "of this norm; half of it would halve the noise of a sum, and cut off more"
            )
        steps = chosen["steps"] or 0
        return Plan.priced(
            [event, *(one for one, _ in beside)],
            noise=(NoiseSummary.of(event, quantity, method.unit), *(noise for _, noise in beside)),
            iterations={"steps": steps} if steps else {},
            resources=resources,
            unit=public.unit,
            parts_by=public.unit if isinstance(method, MethodOfSums) else None,
            sampled_by=sampled_by,
            neighbours=neighbours,
            assumptions=(
                "features, discount, bounds and topology are public",
                *(["no episode ends, by the nature of the data"] if public.continuing else []),
                *(
                    ["`initial` was chosen without the data"]
                    if isinstance(self.initial, tuple)
                    else []
                ),
                "every row has the right trajectory id",
                sized(
                    f"{public.most_rows} transitions of at most {public.most_trajectories} "
                    "trajectories"
                ),
                *(
                    ["the behaviour probabilities in the data do not depend on other people's"]
                    if public.off_policy
                    else []
                ),
                *public.told_target,
            ),
            advice=(
                *method.advice(chosen, event, epsilon),
                *told,
                *(self.fitted_features.advice() if method.fitted else ()),
            ),
            parameters={"method": method.name, **chosen, "max_importance": method.cap_in_plan},
        )

    def tells_visits(self, public: OffPolicyPublic) -> bool:
        """Whether what is released tells how often each state was visited, so that `initial` may be
        `released`."""
        return self.method_for(public, name_of(self, public)).visits

    def _planned(self, public: OffPolicyPublic, plan: Plan) -> Method:
        return self.method_for(
            public, plan.parameters["method"], plan.parameters.get("max_importance")
        )

    def profile(self, public: OffPolicyPublic, plan: Plan, released: Released) -> Profile | None:
        return self._planned(public, plan).profile(plan.events[0], released)

    @classmethod
    def profiles(cls, problem: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
        tabular = (problem.get("features") or {}).get("type", "tabular") == "tabular"
        (method,) = methods_named(parameters["method"], tabular)
        return method.profile is not Method.profile

    @classmethod
    def why_unpredictable(cls, public: OffPolicyPublic) -> str:
        if public.trajectories is not None:
            return ""
        return (
            "the dataset does not publish how many trajectories it has (`trajectories`). Ask for "
            "an epsilon: the plan says how many trajectories an accurate value takes, and a "
            "rehearsal of a number of them that you name (discreet rehearse --units N, units in "
            "the API) how near the answer comes"
        )

    def expected(
        self, public: OffPolicyPublic, plan: Plan, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        epsilon = plan.total.epsilon / EPSILON_UNIT
        return self._planned(public, plan).expected(plan.events[0], epsilon, confidence, around)

    # Release and what follows from it

    def release(
        self, public: OffPolicyPublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        """What the plan's method releases: see `methods`."""
        method = self._planned(public, plan)
        return method.release(plan.events, plan.parameters, content, noise)

    def part_sums(self, public: OffPolicyPublic, plan: Plan, content: Content) -> Sums:
        method = self._planned(public, plan)
        assert isinstance(method, MethodOfSums)
        return {"sums": method.part_sums(plan.parameters, content)}

    def release_sums(
        self, public: OffPolicyPublic, plan: Plan, sums: Sums, noise: Noise
    ) -> Released:
        method = self._planned(public, plan)
        assert isinstance(method, MethodOfSums)
        return method.release_sums(plan.events, plan.parameters, sums["sums"], noise)

    def release_sampled(
        self, public: OffPolicyPublic, plan: Plan, records: Records, noise: Noise
    ) -> Released:
        method = self._planned(public, plan)
        assert isinstance(method, SampledMethod)
        return method.release_sampled(plan.events, plan.parameters, records, noise)

    @classmethod
    def unit_keys(cls, content: Content) -> NDArray[Any]:
        return dataset.keys(content)

    def window_bytes(self, public: OffPolicyPublic, plan: Plan) -> int:
        method = self._planned(public, plan)
        assert isinstance(method, SampledMethod)
        return method.passing(plan.parameters).window_bytes

    def noised_sums(self, plan: Plan) -> frozenset[str]:
        if len(plan.events) > 1:  # which sums they are was chosen beside them
            return frozenset()
        return methods_named(plan.parameters["method"], self.tabular)[0].noised_sums

    def finish(
        self, public: OffPolicyPublic, plan: Plan, released: Released, progress: Progress
    ) -> Result:
        method = self._planned(public, plan)
        start = None
        if self.initial is not None and self.initial != RELEASED:
            start = np.array(self.initial)
            start = start if self.tabular else method.features(start).mean(axis=0)
        values = method.fields(
            plan.events[0], released, start, progress, uncertain=self.uncertainty
        )
        if public.target_policy is not None:
            values["target_policy"] = public.target_policy
        progress(method.steps(), method.steps())
        return Result.of(self.Fields, values)


def _resources(method: Method, chosen: Chosen, event: Event, beside: float = 0.0) -> Resources:
    """Of a release on the largest content; `beside`: seconds of work that come to it."""
    return Resources.padded(
        0.5,
        work=method.seconds(chosen) + beside,
        drawing=method.drawing_seconds(chosen, event),
        content_bytes=method.public.most_bytes,
        memory_bytes=(1 << 28) + 64 * method.numbers(),
        steps=method.steps(),
    )


# Checks -------------------------------------------------------------------------------------------
# Whether a request fits a dataset.

RELEASED = "released"
OPTIONAL = (
    *("clip", "steps", "step_size", "sampling", "regularization", "return_bounds"),
    "rule_visits",
)
"""Fields that mean something to some methods only."""


def issues_of(problem: OffPolicyRequest, public: OffPolicyPublic) -> list[FieldIssue]:
    """Of a `problem.OffPolicyEvaluation` on a dataset with this public part."""
    found = []
    fitted = not problem.weighs(public)
    if fitted and problem.tabular != (public.states is not None):
        says = (
            f"the dataset has {public.states} numbered states: use tabular"
            if public.states is not None
            else f"a state of the dataset has {public.features} coordinates: use fourier or "
            "identity"
        )
        found.append(FieldIssue("/problem/features/type", says))
    if fitted and problem.discount == 1:
        says = (
            "less than 1 with methods that fit a value function; only importance_sampling and "
            "per_decision take 1"
        )
        found.append(FieldIssue("/problem/discount", says))
    found += problem.fitted_features.issues(public) if fitted else []
    if problem.method != "auto":
        fits = methods_named(problem.method, problem.tabular)
        found += (fits or methods_named(problem.method, True))[0].issues(problem.asked(), public)
        if not fits:
            found.append(FieldIssue("/problem/method", f"{problem.method} needs tabular states"))
    if problem.max_importance is not None and not public.off_policy:
        found.append(
            FieldIssue(
                "/problem/max_importance",
                "the dataset is on-policy: there are no ratios to cap",
            )
        )
    if found:
        return found
    method = problem.method_for(public, name_of(problem, public))
    if problem.method == "auto" and (found := method.issues(problem.asked(), public)):
        return found
    if method.needs_constant and method.features.constant() is None:
        found.append(
            FieldIssue(
                "/problem/method",
                f"{method.name} needs features for which some weights give the constant 1",
            )
        )
    for name in (*OPTIONAL, "estimand"):
        given = getattr(problem, name)
        if given not in (None, "sum") and name not in method.takes:
            says = f"has no effect with the method {method.name} on this dataset"
            found.append(FieldIssue(f"/problem/{name}", says))
    if problem.initial is not None and not method.fitted:
        says = f"has no effect with the method {method.name}, which is about the people in the data"
        found.append(FieldIssue("/problem/initial", says))
    elif problem.initial == RELEASED:
        if not method.visits:
            says = (
                f"the method {method.name} does not release visits of states here: give a "
                f"distribution"
            )
            found.append(FieldIssue("/problem/initial", says))
    elif isinstance(problem.initial, tuple):
        found += initial_issues(problem.fitted_features, problem.initial, public)
    return found


# Choice -------------------------------------------------------------------------------------------
# Which method `auto` is, from public figures, and why.

FEW_STATES, FEW_FEATURES = 8, 10
"""`auto` takes moments up to so many: these have noise on d² numbers once, other methods on 2 d
numbers in each step."""


def name_of(problem: OffPolicyRequest, public: OffPolicyPublic) -> str:
    """The name of the method that answers a request; `auto` follows from public figures."""
    if problem.method != "auto":
        return str(problem.method)
    if problem.weighs(public):
        return WEIGHING
    if problem.tabular:
        # Where nothing says which transitions occur, noise on all n² of them outweighs what
        # occurs.
        few = public.topology is not None or (public.states or 0) <= FEW_STATES
    else:  # importance ratios make trajectories' statistics so large that clips cut most of them
        few = (
            not public.off_policy
            and problem.fitted_features.solver_form(public).dimension <= FEW_FEATURES
        )
    return "moments" if few else "minibatch"


def why_chosen(
    problem: OffPolicyRequest, public: OffPolicyPublic, method: Method, budget: Budget
) -> str:
    """Why `auto` stands for this method, and what the next best would do."""
    if method.name == WEIGHING:
        return (
            "method (auto) is importance_sampling, since the data have the probabilities of the "
            "actions: it tells what the target policy is worth for the people in the data. A "
            "value function is what `initial` or another method asks for"
        )
    name = "minibatch"
    if method.name == "moments":
        why = f"noise is on {method.numbers()} numbers once, and with minibatch in each step"
        if public.topology is not None:
            why = (
                f"the topology is public, so noise is on its {len(public.topology)} "
                "transitions only"
            )
    else:
        numbers = problem.method_for(public, "moments").numbers()
        why = f"moments would have noise on {numbers:,} numbers"
        why += "; with a public topology it would be the better one" if problem.tabular else ""
        name = (
            "constant"
            if public.continuing and method.features.constant() is not None
            else "moments"
        )
    told = problem.method_for(public, name).foretold(budget)
    return f"method (auto) is {method.name}, since {why}; the next best is {name}" + (
        f": {told}" if told else ""
    )
