"""What importance sampling answers from noised sums: both policies' values, and what each interval
covers.

The interval beside `policy_value` holds what the target policy is worth, and that beside
`difference` what it would change, whatever the returns whose weights were cut off, since readers
take them for that. The intervals of the values with clipped weights, which may be far shorter and
not hold these, have fields of their own.
"""

from __future__ import annotations

from typing import Any

from discreet.problems.accuracy import LEVEL, Interval, Uncertainty
from discreet.problems.off_policy_evaluation.weighting_words import covers_sentence, doubt_sentence
from discreet.solvers.evaluation.weighted_value import Ends, Told, WeightedSums

DROWNED = 0.25
"""Half width by noise alone, as a part of the range of returns, beyond which a value is mostly
noise. The answer as a whole is where the interval of the difference holds both signs."""
TELLING = 0.1
"""If the lower end of the interval of an effective size is at most this part of the upper, the
interval tells nothing."""


def fields_of(
    sums: WeightedSums, bounds: tuple[float, float], weighed: str, *, uncertain: bool
) -> dict[str, Any]:
    """The fields of the result. `bounds`: of returns; `weighed`: what has a weight, in words;
    `uncertain`: `uncertainty` is one of them."""
    low, high = bounds
    size = high - low

    def scaled(ends: Ends, offset: float = low) -> Interval:
        return Interval(lower=offset + size * ends.lower, upper=offset + size * ends.upper)

    policy, behaviour, difference = sums.policy(), sums.behaviour(), sums.difference()
    plainly: dict[str, Told] = {
        "effective_size": sums.effective_size(),
        "clipped_mass": sums.clipped_mass(),
    }
    truth, clipped = scaled(sums.true_value()), scaled(policy.ends)
    found: dict[str, Any] = {
        "policy_value": low + size * policy.value,
        "behaviour_value": low + size * behaviour.value,
        "difference": size * difference.value,
        **{name: one.value for name, one in plainly.items()},
        "largest_weight": sums.largest_weight,
        "true_value": truth,
        "covers": covers_sentence(sums, weighed, plainly["clipped_mass"], clipped),
    }
    if not sums.unclipped:
        found["clipped_value"] = clipped
        found["clipped_difference"] = scaled(difference.ends, 0.0)
    if doubt := doubt_sentence(sums):
        found["doubt"] = doubt
    if uncertain:
        drowned = sums.noise_half_width() >= DROWNED
        noise = dict.fromkeys(("policy_value", "effective_size", "clipped_mass"), drowned)
        # Whoever asks what another policy changes learns nothing where it may be better or worse,
        # however well the values themselves are known.
        change = scaled(sums.true_difference(), 0.0)
        noise["difference"] = change["lower"] < 0 < change["upper"]
        noise["behaviour_value"] = sums.behaviour_noise_half_width() >= DROWNED
        # The sum of squared weights may be lost in noise where values are not: then the effective
        # size says nothing.
        told = plainly["effective_size"].ends
        noise["effective_size"] = drowned or bool(told.lower <= TELLING * told.upper)
        found["uncertainty"] = Uncertainty(
            level=LEVEL,
            values={
                "policy_value": truth,
                "behaviour_value": scaled(behaviour.ends),
                "difference": change,
                **{
                    name: Interval(lower=one.ends.lower, upper=one.ends.upper)
                    for name, one in plainly.items()
                },
            },
            noise_dominates=dict(noise),
            mostly_noise=noise["difference"],
        )
    return found
