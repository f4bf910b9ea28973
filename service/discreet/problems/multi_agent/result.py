"""The fields of a multi-agent coordination's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    `discreet_client.federation.history.unsigned_of_result`."""

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
# The answer of a multi-agent coordination: which shared constraints hold, and the largest
# multiplier.

LONGEST_CONSTRAINT = 60
NO_INTERVAL_OF_MULTIPLIERS = (
    "No interval: agents react to the noise in every step. Whether multipliers settled is unknown."
)


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """How many constraints hold beyond the noise, and the one with the largest multiplier."""
    found = []
    if "noisy_values" in result:
        found.append(_satisfied(result))
    multipliers = result.get("average_multipliers") or result.get("multipliers")
    if multipliers:
        largest = max(range(len(multipliers)), key=multipliers.__getitem__)
        text = str(problem["constraints"][largest])
        text = text if len(text) <= LONGEST_CONSTRAINT else f"{text[:LONGEST_CONSTRAINT]}…"
        if multipliers[largest] > 0:
            moving = "; not settled" if _off_its_limit(result, largest) else ""
            said = Headline(
                "Largest multiplier: ",
                intervals.plain(multipliers[largest], 3),
                f" ({text} ≤ 0){moving}",
            )
        elif any(_off_its_limit(result, place, above=True) for place in range(len(multipliers))):
            said = Headline(
                "All released multipliers are 0, yet a constraint is violated: not settled"
            )
        else:
            said = Headline("All released multipliers are 0")
        found.append(replace(said, good_for=NO_INTERVAL_OF_MULTIPLIERS))
    return found


def _off_its_limit(result: Mapping[str, Any], place: int, *, above: bool = False) -> bool:
    """Whether a constraint's mean value differs from 0 beyond the noise, or is above it. At a
    saddle point one with a multiplier is at its limit; that it is there proves nothing, since
    nobody knows the agents' own objectives."""
    ends = (result.get("uncertainty") or {}).get("values", {}).get("noisy_values")
    if ends is None:
        return False
    lower, upper = ends["lower"][place], ends["upper"][place]
    below = upper is not None and upper < 0 and not above
    return below or (lower is not None and lower > 0)


def _satisfied(result: Mapping[str, Any]) -> Headline:
    """How many constraints hold on average: their mean value over the second half of the steps is
    not above 0, as far as its interval says that."""
    values = result["noisy_values"]
    ends = (result.get("uncertainty") or {}).get("values", {}).get("noisy_values")
    all_of_them = counted(len(values), "shared constraint")
    if ends is None:
        below = sum(value <= 0 for value in values)
        return Headline(
            "Noised averages of ", f"{below:,} of {all_of_them}", " are at most 0 (no interval)"
        )
    lower, upper = ends["lower"], ends["upper"]
    hold = sum(one is not None and one <= 0 for one in upper)
    violated = sum(one is not None and one > 0 for one in lower)
    open_ = len(values) - hold - violated
    level = f"{intervals.percent(result['uncertainty']['level'])} NI"
    if len(values) == 1:
        how = "holds" if hold else "is violated" if violated else "is undetermined"
        return Headline("The shared constraint ", how, f" on average ({level})")
    others = ((violated, "violated"), (open_, "undetermined"))
    more = "".join(f"; {count:,} {how}" for count, how in others if count)
    holds = "holds" if hold == 1 else "hold"
    return Headline("", f"{hold:,} of {all_of_them}", f" {holds} on average ({level} each){more}")
