"""A rehearsal: a problem of any kind on synthetic data of its public shape, for several values
of epsilon.

It is a job like others, without a dataset, without a price and without a guarantee: nothing private
comes near it. The plans of all its runs are made when it is planned; `finish` makes the data
(`Synthesis`), of public figures alone or of what an earlier job released, which it is given then.
It releases and finishes them as often as its time allows, and compares what comes out with the same
at epsilon 1000, where there is next to no noise; what a result says that it achieves with what it
does achieve on the data. So an error is the cost of privacy and, between
methods, also that of their approximations.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Required, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price
from discreet.problems import datasets
from discreet.problems.base import Neighbours, Problem, Synthesis
from discreet.problems.budgets import Budgeted, budgeted
from discreet.problems.contents import Content, Profile, Progress, PublicObject, Released
from discreet.problems.numbers import MAX_EPSILON, Budget, Delta, Epsilon, Frozen, Positive, Privacy
from discreet.problems.plans import Plan, Resources
from discreet.problems.rehearsals import naming
from discreet.problems.results import Headline, Output, Result, ResultFields, properties_of, shown
from discreet_client import intervals

# Result -------------------------------------------------------------------------------------------
# The fields of a rehearsal's result.

ROWS = (
    "method",
    "epsilon",
    "delta",
    "quantity",
    "size",
    "error",
    "error_of_nine_in_ten",
    "half_width",
    "mostly_noise",
    "no_better_than_zero",
    "runs",
    "farthest",
    "farthest_error",
)


class RehearsalResult(ResultFields, total=False):
    """What the numbers of a problem's answer would be worth, on synthetic data."""

    data: Required[Annotated[str, shown("What the runs were made on", title="Data")]]
    rows: Required[
        Annotated[
            list[dict[str, Any]],
            shown(
                "By method, epsilon and quantity: `size` of the quantity, `error` of the middle "
                "run and of nine in ten, `half_width` of its interval (null without one), the "
                "share of runs that were `mostly_noise`, whether 0 would have been about as good "
                "an answer (`no_better_than_zero`), `runs`; of arrays the mean over their "
                "numbers, and `farthest`, which of their rows is farthest off in the middle run, "
                "with `farthest_error` (null of a single row)",
                title="Errors",
            ),
        ]
    ]
    refused: Required[
        Annotated[
            list[dict[str, Any]],
            shown("Methods and epsilons for which no plan could be made, with `why`"),
        ]
    ]
    reference_epsilon: Required[
        Annotated[
            float,
            shown(
                "Errors are distances to the answer at this epsilon", title="Compared with epsilon"
            ),
        ]
    ]


# Headline -----------------------------------------------------------------------------------------
# The answer of a rehearsal: which epsilon is enough.

WITHIN = 0.1
"""Parts of a number's size that count as near."""


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """Of the first quantity: the least epsilon at which nine runs in ten come near it, or how near
    the best came."""
    rows = (
        [row for row in result["rows"] if row["quantity"] == result["rows"][0]["quantity"]]
        if result["rows"]
        else []
    )
    if not rows:
        return [Headline("No method could be tried at any of the epsilons")]
    quantity = naming.quantity(problem, rows[0]["quantity"])
    near = [row for row in rows if row["error_of_nine_in_ten"] <= WITHIN * row["size"]]
    if near:
        best = min(near, key=lambda row: (row["epsilon"], row["error_of_nine_in_ten"]))
        before = f"Nine runs in ten come within {intervals.percent(WITHIN)} of {quantity} from "
        after = f" on, with the method {naming.method(best['method'])}"
        return [Headline(before, f"epsilon {best['epsilon']:g}", after, good_for=_made_up(result))]
    best = min(rows, key=lambda row: row["error_of_nine_in_ten"])
    size = intervals.plain(best["size"], 3)
    apart = f"± {intervals.plain(best['error_of_nine_in_ten'], 3)} of about {size}"
    after = f" (epsilon {best['epsilon']:g}, {naming.method(best['method'])})"
    within = intervals.percent(WITHIN)
    before = f"No epsilon brings {quantity} within {within}; nine runs in ten: "
    return [Headline(before, apart, after, good_for=_made_up(result))]


def _made_up(result: Mapping[str, Any]) -> str:
    return f"Good for choosing an epsilon: data were {result['data']}."


# Job ----------------------------------------------------------------------------------------------

LADDER = (Decimal("0.1"), Decimal("0.3"), Decimal(1), Decimal(3))
MOST_STEPS = 8
"""Of a ladder."""
MOST_RUNS = 20
"""Of each method at each epsilon."""
SECONDS = 60.0
"""Processor time after which no further run begins."""
ASSUMPTION = (
    "a rehearsal on synthetic data: no private data were used, and nothing in it is protected"
)
ACHIEVED = "achieved_"
SIMULATED = (ACHIEVED, "true_", "cost_of_privacy")
"""How names of fields begin that only simulations have."""
NOTHING_TOLD = 0.9
"""An error of so much of the size is about that of answering 0."""
AROUND = (
    "a rehearsal on synthetic data made of what {job} released: nothing else private was used, "
    "and what that release protects, and of whom, its own certificate says"
)
REFERENCE = MAX_EPSILON
"""The epsilon at which a method's answer is taken for the one without noise."""


class Earlier(Frozen):
    """A job around whose release the data are made: what that is read with. The release itself
    stays where it is."""

    job: str
    problem: dict[str, Any]
    public: dict[str, Any]
    plan: dict[str, Any]


class Rehearsal(Problem):
    """A problem to run on synthetic data of its public shape."""

    title: ClassVar[str] = "Rehearsal"
    private: ClassVar[str] = "nothing: the data are synthetic"
    published: ClassVar[str] = "the error of each number at each epsilon"
    Dataset: ClassVar[type[datasets.Dataset] | None] = None
    Fields: ClassVar[Any] = RehearsalResult
    headlines: ClassVar[Any] = staticmethod(headlines)

    kind: Literal["rehearsal"] = "rehearsal"
    mode: Literal["simulation"] = "simulation"
    problem: dict[str, Any] = Field(description="A problem of any kind with datasets")
    public: dict[str, Any] = Field(description="The public part of its dataset")
    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1, max_length=MOST_STEPS)] = LADDER
    delta: Annotated[
        Delta | None, Field(description="Delta of all runs; null: by the rule of `auto`")
    ] = None
    of_units: Annotated[
        Positive | None, Field(description="How many units the synthetic data have")
    ] = None
    around: Annotated[
        Earlier | None, Field(description="The job from whose release the data are made")
    ] = None
    seed: Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)] = 0

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The example of the first kind with datasets, on the public part of its dataset."""
        from discreet.problems import DATASETS, KINDS  # noqa: PLC0415 - they hold this class too

        problem = KINDS[next(iter(DATASETS))].example()["problem"]
        public = problem["dataset"]["public"]
        return {
            "problem": {
                "kind": "rehearsal",
                "public": public,
                "problem": {**problem, "dataset": "dst_example"},
            }
        }

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        return ()

    def budget(self, privacy: Privacy | None) -> Budget:
        return Budget(epsilon=0, delta=0)

    @property
    def _origin(self) -> str:
        return (
            "of the public shape alone"
            if self.around is None
            else f"made of what {self.around.job} released"
        )

    # What is rehearsed

    def inner(self) -> tuple[Problem, type[datasets.Dataset], Any]:
        """The problem, the class of its datasets, and the public part. InvalidInput for a kind
        without datasets."""
        from discreet.problems import DATASETS, KINDS  # noqa: PLC0415 - they hold this class too

        kind = self.problem.get("kind")
        if kind not in DATASETS:
            raise InvalidInput(
                f"{kind} has no datasets, so none can be made up", pointer="/problem/kind"
            )
        problem = KINDS[kind].model_validate(self.problem)
        return problem, DATASETS[kind], DATASETS[kind].read_public(self.public)

    def named(self) -> dict[str, tuple[str, type[PublicObject]]]:
        return self._asked().named()

    def with_objects(self, found: Mapping[str, PublicObject]) -> Self:
        if not self.named():
            return self
        return self.model_copy(
            update={"problem": self._asked().with_objects(found).model_dump(mode="json")}
        )

    def held(self) -> dict[str, PublicObject]:
        return self._asked().held()

    def _asked(self) -> Problem:
        from discreet.problems import KINDS  # noqa: PLC0415 - it holds this class too

        return KINDS[self.problem["kind"]].model_validate(self.problem)

    def _methods(self, problem: Problem) -> list[Problem]:
        """The problem with each of its methods, the one that `auto` takes among them."""
        field = type(problem).model_fields.get("method")
        names = (
            [] if field is None else [name for name in get_args(field.annotation) if name != "auto"]
        )
        return [problem.model_copy(update={"method": name}) for name in names] or [problem]

    # The job

    def plan(self, public: None, budget: Budget) -> Plan:
        problem, dataset, known = self.inner()
        if issues := _synthesis(problem).issues(dataset, known, self.of_units):
            raise InvalidInput(issues)
        reference = self._budgeted(problem, known, Decimal(REFERENCE))
        runs: list[dict[str, Any]] = []
        last = InvalidInput("there is nothing to rehearse")
        why: dict[tuple[str, str], dict[str, Any]] = {}
        for one in self._methods(problem):
            name = getattr(one, "method", problem.kind)
            for epsilon in self.epsilons:
                try:
                    made = self._budgeted(one, known, epsilon)
                except InvalidInput as error:
                    row = why.setdefault(
                        (name, str(error)), {"method": name, "epsilons": [], "why": str(error)}
                    )
                    row["epsilons"].append(float(epsilon))
                    last = error
                else:
                    runs.append(
                        {"problem": one.model_dump(mode="json"), "method": name, **_told(made)}
                    )
        if not runs:
            raise last
        return Plan(
            events=(),
            noise=(),
            iterations={"runs": len(runs)},
            resources=Resources(
                release_quantum_seconds=0.0625,
                result_seconds=SECONDS,
                memory_bytes=max(1 << 29, reference.plan.resources.memory_bytes),
                steps=MOST_RUNS,
            ),
            price=Price.zero().to_json(),
            unit=reference.plan.unit,
            neighbours=reference.plan.neighbours,
            assumptions=(
                ASSUMPTION if self.around is None else AROUND.format(job=self.around.job),
            ),
            advice=(f"a rehearsal costs nothing: its data are synthetic, {self._origin}",),
            parameters={"runs": runs, "refused": list(why.values()), "reference": _told(reference)},
        )

    def _budgeted(self, problem: Problem, public: Any, epsilon: Decimal) -> Budgeted:
        said = {"epsilon": epsilon, "delta": "auto" if self.delta is None else self.delta}
        return budgeted(problem, public, Privacy.model_validate(said))

    def release(self, public: None, plan: Plan, content: Content, noise: Noise) -> Released:
        """Release nothing, since there are no data."""
        return {}

    def finish(self, public: None, plan: Plan, released: Released, progress: Progress) -> Result:
        """Release and finish synthetic data by every plan, until the time is over."""
        problem, dataset, known = self.inner()
        generator = np.random.default_rng(self.seed)
        profile = None if self.around is None else _profile(self.around, released)
        content = _synthesis(problem).content(dataset, known, generator, self.of_units, profile)
        parameters = plan.parameters
        truth = _answer(
            problem, known, Plan.model_validate(parameters["reference"]["plan"]), content, self.seed
        )
        runs = [
            (one, type(problem).model_validate(one["problem"]), Plan.model_validate(one["plan"]))
            for one in parameters["runs"]
        ]
        names = sorted(_numeric(truth), key=partial(_rank, problem.main_fields))
        found: list[list[dict[str, Any]]] = [[] for _ in runs]
        began = time.process_time()
        for number in range(MOST_RUNS):
            for place, (said, one, made) in enumerate(runs):
                if number and time.process_time() - began > SECONDS:
                    break
                found[place].append(_answer(one, known, made, content, self._seed_of(said, number)))
            progress(number + 1, MOST_RUNS)
        called = partial(row_names, problem, truth)
        rows = [
            row
            for (said, _, _), answers in zip(runs, found, strict=True)
            for row in _rows(said, names, truth, answers, called)
        ]
        size = max(len(array) for array in content.values())
        values = {
            "data": f"synthetic, {'' if self.around is None else f'{self._origin}, '}{size:,} "
            f"rows; seed {self.seed}",
            "rows": Output(lambda: rows, numbers=len(rows) * len(ROWS)),
            "refused": Output(lambda: parameters["refused"]),
            "reference_epsilon": float(REFERENCE),
        }
        return Result.of(self.Fields, values)

    def _seed_of(self, said: dict[str, Any], number: int) -> int:
        """Of a run: its method, its epsilon and its number, so that no row depends on what else is
        on the ladder."""
        text = f"{self.seed} {said['method']} {said['epsilon']!r} {number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _synthesis(problem: Problem) -> Synthesis:
    if problem.synthesis is None:
        raise InvalidInput(f"data of kind {problem.kind} are not made up", pointer="/problem/kind")
    return problem.synthesis


def _profile(earlier: Earlier, released: Released) -> Profile:
    """What the earlier job released says, of which its submission has found that it says
    something."""
    from discreet.problems import DATASETS, KINDS  # noqa: PLC0415 - they hold this class too

    problem = KINDS[earlier.problem["kind"]].model_validate(earlier.problem)
    public = DATASETS[problem.kind].read_public(earlier.public)
    profile = problem.profile(public, Plan.model_validate(earlier.plan), released)
    assert profile is not None
    return profile


def _told(made: Budgeted) -> dict[str, Any]:
    epsilon, delta = made.budget.epsilon / EPSILON_UNIT, made.plan.total.delta / DELTA_UNIT
    return {"epsilon": epsilon, "delta": delta, "plan": made.plan.model_dump(mode="json")}


def _answer(
    problem: Problem, public: Any, plan: Plan, content: Content, seed: int
) -> dict[str, Any]:
    released = problem.release(public, plan, content, Noise.seeded(seed))
    if any(name.startswith(ACHIEVED) for name in properties_of(problem.Fields)):
        released = {**released, **problem.diagnose(public, plan, content, Noise.seeded(seed))}
    return problem.finish(public, plan, released, lambda step, total: None).to_json()


def _numeric(answer: dict[str, Any]) -> Iterator[str]:
    """The headline quantities: those with an interval; where there is none, all numbers and arrays
    of numbers."""
    told = (answer.get("uncertainty") or {}).get("values", {})
    for name, value in answer.items():
        if name.startswith(SIMULATED) or name == "tables":
            continue
        if name in (told or answer) and _array(value) is not None:
            yield name


def _rank(first: tuple[str, ...], name: str) -> int:
    """The place of a field among those that matter; all others are behind, in the order in which
    they come."""
    return first.index(name) if name in first else len(first)


def _array(value: Any) -> Any:
    """Numbers as an array; None for anything else."""
    if (
        isinstance(value, bool | str | dict)
        or value is None
        or (isinstance(value, list) and not value)
    ):
        return None
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return array if np.isfinite(array).all() else None


def _rows(
    said: dict[str, Any],
    names: list[str],
    truth: dict[str, Any],
    answers: list[dict[str, Any]],
    called: Callable[[str], list[str]],
) -> Iterator[dict[str, Any]]:
    """One row a quantity: the mean absolute error over its numbers, in the middle and for nine of
    ten runs; and of which of its rows it is largest, as `called` names them. Where a result tells
    what it achieves on the data (`achieved_` before the name), that is what it should be."""
    for name in names:
        true = _array(truth[name])
        errors, widths, off = [], [], []
        for answer in answers:
            array = _array(answer.get(name))
            if array is None or array.shape != true.shape:
                continue
            apart = np.abs(array - _array(answer.get(f"{ACHIEVED}{name}", truth[name])))
            errors.append(float(apart.mean()))
            off.append(apart.reshape(len(array) if array.ndim else 1, -1).mean(axis=1))
            interval = (answer.get("uncertainty") or {}).get("values", {}).get(name, {})
            ends = (
                np.array(interval.get(end, math.nan), dtype=np.float64)
                for end in ("upper", "lower")
            )
            upper, lower = ends
            widths.append(
                float(np.nanmean((upper - lower) / 2))
                if np.isfinite(upper - lower).any()
                else math.nan
            )
        if errors:
            known = [one for one in widths if math.isfinite(one)]
            error, size = float(np.median(errors)), float(np.abs(true).mean())
            noise = [
                bool((answer.get("uncertainty") or {}).get("mostly_noise")) for answer in answers
            ]
            yield {
                "method": said["method"],
                "epsilon": said["epsilon"],
                "delta": said["delta"],
                "quantity": name,
                "size": size,
                "error": error,
                "error_of_nine_in_ten": float(np.quantile(errors, 0.9)),
                "half_width": float(np.median(known)) if known else None,
                "mostly_noise": float(np.mean(noise)),
                "no_better_than_zero": error > 0 and error >= NOTHING_TOLD * size,
                "runs": len(errors),
                **farthest(np.array(off), called(name)),
            }


# Farthest -----------------------------------------------------------------------------------------
# The row of a quantity that is farthest off in a rehearsal, by its name.


def row_names(problem: Problem, answer: dict[str, Any], field: str) -> list[str]:
    """The names of the rows of a field for people: those of the problem's public objects, or what
    the rows of its table are, such as `step 54`. A single number has one row."""
    from discreet.problems.charts import charts_module  # noqa: PLC0415 - it knows this kind too

    called = getattr(charts_module(problem.kind), "row_names", None)
    names = None if called is None else called(problem.model_dump(mode="json"), answer, field)
    if names:
        return list(names)
    axis = properties_of(problem.Fields).get(field, {}).get("x-table", ("row",))[0]
    rows = np.atleast_1d(np.array(answer[field])).shape[0]
    return [f"{axis.replace('_', ' ')} {place}" for place in range(rows)]


def farthest(off: NDArray[np.float64], called: list[str]) -> dict[str, Any]:
    """The name of the row that is farthest off in the middle run, if there are several:
    float64[runs, rows]."""
    if off.shape[1] < 2:
        return {"farthest": None, "farthest_error": None}
    middle = np.median(off, axis=0)
    row = int(middle.argmax())
    return {
        "farthest": called[row] if row < len(called) else f"row {row}",
        "farthest_error": float(middle[row]),
    }
