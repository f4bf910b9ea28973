"""The answer of a demand response: what control saves."""

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
LESS = 0.95
"""Of the energy without control: where it is less, control sheds load more than it moves it."""


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The saving of one load, states whose moves are only noise, and of simulations what it saves
    in truth."""
    found = []
    limits = result.get("limits")
    if limits and not limits["kept"]:
        found.append(Headline(limits["says"]))
    if "saving" in result:
        people, lost = (
            result.get("states", {}).get("participants"),
            intervals.is_mostly_noise(result),
        )
        every = (
            f", {figure(_times(result, people, 'saving'), 'saving')} for all {people:,}"
            if people and not lost
            else ""
        )
        after = (
            f" for each load against no control{every}, in the money of the price, discomfort "
            "deducted"
        )
        one = headline(
            DrEnsembleResult, result, "saving", "Following the released policy saves ", after
        )
        found.append(replace(one, unit=_money(problem, result)))
        if people and not lost and "edges" in result["states"]:
            found.append(_together(result, people))
        if (share := _energy(result)) and one.good_for not in UNKNOWN:
            less = (
                "; what is not drawn then is not drawn later: loads are shed, not moved"
                if share < LESS
                else ""
            )
            found.append(
                Headline(
                    "With control a load takes some ",
                    percent(share),
                    f" of the energy without{less}",
                )
            )
    if limits and limits["kept"]:
        found.append(Headline(limits["says"]))
    if "event_saving" in result:
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
        found.append(Headline("How loads go on from ", f"{noise:,} of {what}", " is only noise"))
    if {"achieved_saving", "true_saving"} <= result.keys():
        best = f", where the best policy would save {figure(result, 'true_saving')} (simulation)"
        found.append(
            Headline("Of the true loads it saves ", figure(result, "achieved_saving"), best)
        )
    return found


def _money(problem: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What the price was taken for, where steps have a known length: nobody can see that of a
    number."""
    seconds, price = result.get("states", {}).get("step_seconds"), problem.get("price")
    return f"{MONEY}, {price_in_words(price, seconds)}" if seconds and price else MONEY


def _together(result: Mapping[str, Any], people: int) -> Headline:
    """Of all participants what is told of one, with their highest loads where these are told."""
    after = ""
    if {"default_power", "expected_power"} <= result.keys():
        before, now = (
            figure(_times(result, people, name, int(np.argmax(result[name]))), name)
            for name in ("default_power", "expected_power")
        )
        after = f"; their highest load is {now} kW, and {before} kW without control"
    saved = figure(_times(result, people, "saving"), "saving")
    return Headline(f"All {people:,} participants together save ", saved, after)


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
    """What control takes in the steps of the event, and what is drawn more at other times."""
    states = result["states"]
    unit = " kWh" if "step_seconds" in states else ""
    less, back = result["event_saving"], result["rebound"]
    signed = result if less >= 0 else _turned(result, "event_saving")
    other = result if back >= 0 else _turned(result, "rebound")
    outside = (
        f"{figure(other, 'rebound')}{unit} {'more' if back >= 0 else 'less'} at all other times"
    )
    people = states.get("participants")
    every = ""
    if people and not intervals.is_mostly_noise(result):
        every = (
            f"; of all {people:,} that is {plain(people * abs(less), 3)} and "
            f"{plain(people * abs(back), 3)}"
        )
    when = hours_of(problem, states, result["event"])
    after = f"{unit} {'less' if less >= 0 else 'more'} than without control, and {outside}{every}"
    one = headline(
        DrEnsembleResult, signed, "event_saving", f"In the event ({when}) a load draws ", after
    )
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


def _energy(result: Mapping[str, Any]) -> float:
    """What a load draws with control, over all steps, in parts of what it draws without; 0 where
    that is not told."""
    drawn, before = (sum(result.get(name, ())) for name in ("expected_power", "default_power"))
    return 0.0 if intervals.is_mostly_noise(result) or before <= 0 else max(drawn, 0.0) / before
