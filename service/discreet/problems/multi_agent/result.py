"""The fields of a multi-agent coordination's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Required

from typing_extensions import TypedDict

from discreet.problems.results import Headline, NoisedFields, counted, shown
from discreet_client import intervals


class MultiplierPoint(TypedDict):
    """The multipliers after one step."""

    step: int
    multipliers: list[float]


class NoisyGradient(TypedDict):
    """A noised derivative of a constraint with respect to an agent's state."""

    constraint: int
    agent: str
    value: float


class Agreement(TypedDict):
    """What agents signed about all broadcasts:
    `discreet_agent.federation.history.unsigned_of_result`."""

    history: str
    signatures: dict[str, str]


class MultiAgentResult(NoisedFields, total=False):
    """Functions of only the noised outputs."""

    multipliers: Annotated[
        list[float],
        shown("Of each constraint, after the last step", table=("constraint", "multiplier")),
    ]
    average_multipliers: Annotated[
        list[float],
        shown("Averaged over the second half of the steps", table=("constraint", "multiplier")),
    ]
    multiplier_path: Required[
        Annotated[list[MultiplierPoint], shown("Multipliers at up to 100 public steps")]
    ]
    noisy_values: Annotated[
        list[float],
        shown(
            "Noised values of the constraints, averaged over the second half",
            table=("constraint", "value"),
        ),
    ]
    noisy_gradients: Required[
        Annotated[
            list[NoisyGradient],
            shown("Noised derivatives of the constraints, averaged over the second half"),
        ]
    ]
    agreement: Annotated[
        Agreement,
        shown("How the chain of all broadcasts ends, and who signed it; of protocol federated"),
    ]
    survivors: Annotated[
        list[str],
        shown(
            "Who was in the sum of each step, a bitmap in hexadecimal whose first bit is the "
            "roster's first agent; of protocol federated with masks"
        ),
    ]
    state: Annotated[
        dict[str, float], shown("State of each agent after the last step; only for simulations")
    ]
    average_state: Annotated[
        dict[str, float], shown("Averaged over the second half of the steps; only for simulations")
    ]
    state_path: Annotated[
        list[list[float]],
        shown(
            "States at the steps of `multiplier_path`, by agent; only for simulations",
            table=("point", "agent", "state"),
        ),
    ]


# Headline -----------------------------------------------------------------------------------------
# The answer of a multi-agent coordination: which shared constraints hold, and the cost of the
# dearest of them.

LONGEST_CONSTRAINT = 60


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The number of constraints that hold beyond the noise, and the one with the highest
    multiplier."""
    found = []
    if "noisy_values" in result:
        found.append(_kept(result))
    prices = result.get("average_multipliers") or result.get("multipliers")
    if prices:
        dearest = max(range(len(prices)), key=prices.__getitem__)
        text = str(problem["constraints"][dearest])
        text = text if len(text) <= LONGEST_CONSTRAINT else f"{text[:LONGEST_CONSTRAINT]}…"
        unknown = (
            "How far noise has moved prices, and whether they have settled, cannot be told: agents "
            "answer to it in every step."
        )
        if prices[dearest] > 0:
            before = f"The dearest constraint, {text} ≤ 0, has a price of "
            moving = "; it has not settled" if _off_its_limit(result, dearest) else ""
            price = intervals.plain(prices[dearest], 3)
            found.append(Headline(before, price, moving, good_for=unknown))
        elif any(_off_its_limit(result, place, above=True) for place in range(len(prices))):
            before = "No constraint has a price, and one is broken: prices have not settled"
            found.append(Headline(before, good_for=unknown))
        else:
            found.append(
                Headline("No constraint has a price: none holds the agents back", good_for=unknown)
            )
    return found


def _off_its_limit(result: Mapping[str, Any], place: int, *, above: bool = False) -> bool:
    """Whether a constraint's mean value differs from 0 beyond the noise, or is above it. At a
    saddle point one with a price is at its limit; that it is there proves nothing, since nobody
    knows the agents' own objectives."""
    ends = (result.get("uncertainty") or {}).get("values", {}).get("noisy_values")
    if ends is None:
        return False
    lower, upper = ends["lower"][place], ends["upper"][place]
    below = upper is not None and upper < 0 and not above
    return below or (lower is not None and lower > 0)


def _kept(result: Mapping[str, Any]) -> Headline:
    """Sentences about the constraints' mean values over the second half of the steps: a constraint
    holds if that is not above 0."""
    values = result["noisy_values"]
    ends = (result.get("uncertainty") or {}).get("values", {}).get("noisy_values")
    all_of_them = counted(len(values), "shared constraint")
    if ends is None:
        kept = sum(value <= 0 for value in values)
        return Headline(
            "In the mean over the steps ",
            f"{kept:,} of {all_of_them}",
            " read as kept; noise is in that",
        )
    lower, upper = ends["lower"], ends["upper"]
    kept = sum(one is not None and one <= 0 for one in upper)
    broken = sum(one is not None and one > 0 for one in lower)
    open_ = len(values) - kept - broken
    level = intervals.percent(result["uncertainty"]["level"])
    others = ((broken, "broken"), (open_, "too near to tell"))
    more = "".join(f", {count:,} {how}" for count, how in others if count)
    good_for = (
        f"Each is told with {level}."
        if kept + broken
        else "This cannot tell of any constraint whether it is kept."
    )
    if len(values) == 1:
        beyond = " beyond the noise" if kept + broken else ", for the noise"
        how = "kept" if kept else "broken" if broken else "too near to tell"
        return Headline("The shared constraint is ", how, beyond, good_for=good_for)
    are = "is" if kept == 1 else "are"
    return Headline(
        f"Of {all_of_them} ", f"{kept:,} {are} kept", f" beyond the noise{more}", good_for=good_for
    )
