"""What a page asks about a file of an ensemble: states, or readings of meters."""

from __future__ import annotations

from discreet.problems.datasets import TIME_ZONE, Column, ReaderRule
from discreet.problems.dr_ensemble.public import DrEnsemblePublic

OTHER_FILES = (
    "Your file has kW at times? Change the public part: `edges` are the kW between states, "
    "`meters` says when readings begin and how many seconds they are apart. Then time and kW are "
    "asked for here."
)
"""Shown where a dataset takes states and not readings."""
RULES = (
    TIME_ZONE,
    ReaderRule(
        "participants",
        "A row of the file is",
        "choice",
        ((None, "a reading of one meter"), ("columns", "a time, with a column for each meter")),
    ),
    ReaderRule(
        "except",
        "Columns that are no meters, one per line",
        "lines",
        says="Of a file with a column for each meter: totals, weather, prices.",
    ),
    ReaderRule(
        "units",
        "Values are",
        "choice",
        ((None, "as their column says"), ("kW", "power, in kW"), ("kWh", "energy, in kWh")),
        "Energy is divided by the hours of a period, which then is the time between two readings.",
    ),
)


def other_files(public: DrEnsemblePublic) -> str:
    return "" if public.meters is not None or public.row_change is not None else OTHER_FILES


def rules(public: DrEnsemblePublic) -> tuple[ReaderRule, ...]:
    return RULES if public.meters is not None else ()


def columns(public: DrEnsemblePublic) -> list[Column]:
    """Of transitions, of readings or of states."""
    if public.row_change is not None:
        return [
            Column("from", "State before, counted from 0"),
            Column("to", "State after, counted from 0"),
            Column("probability", "How probable the step is"),
        ]
    if public.meters is not None:
        return [
            Column("participant", "Whose meter it is", needed=False),
            Column("time", "When it was read", times=True),
            Column("kw", "Power in kW", needed=False),
            Column("kwh", "Or energy in kWh", needed=False),
        ]
    return [
        Column("participant", "Whose row it is"),
        Column("step", "Place in the sequence, counted from 0"),
        Column("state", "State, counted from 0"),
    ]
