"""The answer of a demand response: what following the signal achieves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.problems.dr_ensemble.clock import hours_of
from discreet.problems.dr_ensemble.measurements import price_in_words
from discreet.problems.dr_ensemble.result import MONEY, DrEnsembleResult
from discreet.problems.headlines import (
    NO_SIGN,
    NOT_FROM_ZERO,
    Headline,
    counted,
    figure,
    headline,
    only_noise,
)
from discreet_client import intervals
from discreet_client.intervals import percent, plain

UNKNOWN = (NO_SIGN, NOT_FROM_ZERO)
"""Said of a saving of which it is not known whether there is one: then nothing is said of how much
energy it takes."""
SAME = 0.05
"""How far from 1 the ratio of energies may be where load is called shifted."""
NET = "net of discomfort"
NO_CONTROL = (
    "No control is recommended: no signal saves something in every case that noise leaves open"
)


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """What following the signal saves, its lower end first; how much energy is shed; states whose
    moves are only noise; of simulations what it saves in truth."""
    found = []
    limits = result.get("limits")
    if limits and not limits["kept"]:
        found.append(Headline(limits["says"]))
    idle = "signal" in result and not np.any(result["signal"])
    if idle:
        found.append(Headline(NO_CONTROL))
    elif "saving" in result:
        states, lost = result.get("states", {}), intervals.is_mostly_noise(result)
        each = "meter" if "step_seconds" in states else "load"
        # Limits may cost more than prices save: then that is what is at least so much.
        upper = ((result.get("uncertainty") or {}).get("values", {}).get("saving") or {}).get(
            "upper"
        )
        loses = upper is not None and upper < 0
        told = _turned(result, "saving") if loses else result
        verb = "costs" if loses else "saves"
        one = headline(DrEnsembleResult, told, "saving", f"Following the signal {verb} ")
        said = _least(told, f" per {each}", f", {'discomfort included' if loses else NET}")
        found.append(
            replace(
                one,
                before=f"{one.before}{said[0]}",
                figure=said[1],
                after=said[2],
                unit=_money(problem, result),
            )
        )
        people = states.get("participants")
        if people and not lost:
            found.append(_together(told, people, "pay" if loses else "save"))
        ratio = result.get("energy_ratio")
        if ratio is not None and not lost and one.good_for not in UNKNOWN:
            found.append(_energy(ratio))
    if limits and limits["kept"]:
        found.append(Headline(limits["says"]))
    if "event_saving" in result and not idle:
        found.append(_event(problem, result))
    noise, states = only_noise(
        result, "block_transitions" if "block_transitions" in result else "transitions"
    )
    if noise:
        what = (
            counted(states, "state")
            if "transitions" in result
            else f"{states:,} states in blocks of the day"
        )
        found.append(Headline("Transitions from ", f"{noise:,} of {what}", " are mostly noise"))
    if {"achieved_saving", "true_saving"} <= result.keys():
        best = f"; the best control saves {figure(result, 'true_saving')}"
        found.append(
            Headline(
                "Simulation: on the true data it saves ", figure(result, "achieved_saving"), best
            )
        )
    return found


def _least(result: Mapping[str, Any], each: str, after: str) -> tuple[str, str, str]:
    """Of a saving the words before its figure, the figure, and the words after it: the lower end
    where that is above 0 as it is written, else the median. Ends are rounded outward."""
    said = (result.get("uncertainty") or {}).get("values", {}).get("saving") or {}
    lower, upper = said.get("lower"), said.get("upper")
    if lower is None or upper is None:
        noted = " (mostly noise)" if intervals.is_mostly_noise(result) else ""
        return "", f"{plain(result['saving'], 4)}{noted}", f"{each}{after}"
    value = intervals.with_interval(result["saving"], lower, upper, 0.9).partition(" (")[0]
    low, high = intervals.outward(lower, upper)
    between = f" (90 % interval {low}{' to ' if low.startswith('-') else '–'}{high})"
    sure = low.strip("-0.,") != "" and lower > 0  # at least 0 says nothing
    return (
        ("at least ", low, f"{each}{between}{after}")
        if sure
        else ("", value, f"{each}{between}{after}")
    )


def _energy(ratio: float) -> Headline:
    if abs(ratio - 1) <= SAME:
        return Headline("Energy use stays at ", percent(ratio), ": load is shifted, not shed")
    if ratio < 1:
        return Headline("Energy use falls to ", percent(ratio), ": load is shed, not shifted")
    return Headline("Energy use rises to ", percent(ratio))


def _money(problem: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What the price was taken for, where steps have a known length: nobody can see that of a
    number."""
    seconds, price = result.get("states", {}).get("step_seconds"), problem.get("price")
    return f"{MONEY}, {price_in_words(price, seconds)}" if seconds and price else MONEY


def _together(result: Mapping[str, Any], people: int, verb: str) -> Headline:
    """Of all participants what is told of one, with their highest loads where these are told."""
    after = ""
    if {"default_power", "expected_power"} <= result.keys():
        before, now = (
            figure(_times(result, people, name, int(np.argmax(result[name]))), name)
            for name in ("default_power", "expected_power")
        )
        kw = " kW" if "edges" in result["states"] else ""
        after = f"; highest load {now}{kw}, {before}{kw} without control"
    least, saved, more = _least(_times(result, people, "saving"), "", after)
    return Headline(f"All {people:,} together {verb} {least}", saved, more)


def _times(
    result: Mapping[str, Any], people: int, name: str, step: int | None = None
) -> dict[str, Any]:
    """A number of one load, or that of one step, as one of all loads, with its interval where it
    has one."""
    said = result.get("uncertainty") or {}
    value, ends = result[name], said.get("values", {}).get(name) or {}
    if step is not None:
        value, ends = value[step], {end: one[step] for end, one in ends.items()}
    values = (
        {name: {end: people * one for end, one in ends.items()}}
        if ends and None not in ends.values()
        else {}
    )
    lost = said.get("noise_dominates", {}) if step is None else {}
    known = {"uncertainty": {**said, "values": values, "noise_dominates": lost}} if said else {}
    return {name: people * value, **known}


def _event(problem: Mapping[str, Any], result: Mapping[str, Any]) -> Headline:
    """What a load that follows draws less in the steps of the event, and at other times."""
    states = result["states"]
    unit, each = (" kWh", "meter") if "step_seconds" in states else ("", "load")
    less, back = result["event_saving"], result["rebound"]
    signed = result if less >= 0 else _turned(result, "event_saving")
    other = result if back >= 0 else _turned(result, "rebound")
    when = hours_of(problem, states, result["event"])
    after = (
        f"{unit} {'less' if less >= 0 else 'more'} during the event ({when}) and "
        f"{figure(other, 'rebound')}{unit} {'more' if back >= 0 else 'less'} outside it"
    )
    one = headline(DrEnsembleResult, signed, "event_saving", f"Each {each} uses ", after)
    return replace(one, unit="kWh" if unit else one.unit)


def _turned(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The result with the other sign of one number."""
    said = result.get("uncertainty") or {}
    ends = said.get("values", {}).get(name) or {}
    turned = {name: {"lower": -ends["upper"], "upper": -ends["lower"]}} if ends else {}
    values = {**said.get("values", {}), **turned}
    return {
        **result,
        name: -result[name],
        **({"uncertainty": {**said, "values": values}} if said else {}),
    }
