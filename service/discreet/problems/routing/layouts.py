"""What a page asks about a file of trips."""

from __future__ import annotations

from discreet.problems.datasets import LEFT_OUT, TIME_ZONE, Column, ReaderRule
from discreet.problems.routing.public import RoutingPublic

RULES = (
    ReaderRule("zones", "Zones", "zones"),
    ReaderRule("other_zones", "A trip from or to another zone", "choice", LEFT_OUT),
    ReaderRule(
        "start",
        "Period 0 begins",
        says="Such as 2026-11-02T07:00, where a column says when trips begin.",
    ),
    ReaderRule(
        "every",
        "The other periods begin",
        "choice",
        (
            (None, "one after the other"),
            ("day", "each day at this time"),
            ("weekday", "each day from Monday to Friday"),
            ("week", "each week at this time"),
        ),
    ),
    TIME_ZONE,
    ReaderRule("outside", "A trip at another time", "choice", LEFT_OUT),
    ReaderRule("missing", "A trip that lacks a value", "choice", LEFT_OUT),
    ReaderRule(
        "round_trips",
        "Counts that are fractions",
        "choice",
        ((None, "are refused"), (True, "are rounded, half up")),
    ),
    ReaderRule("matrix", "Matrix of an OMX file", says="Where the file has several."),
    ReaderRule(
        "lookup",
        "Lookup of an OMX file, which names its zones",
        says="Where the file has several; “none” numbers zones from 1.",
    ),
)


def columns(public: RoutingPublic) -> list[Column]:
    parts = "" if public.trip_scale == 1 else f", in parts of 1/{public.trip_scale}"
    classes = ", ".join(public.user_classes or ())
    return [
        Column("origin", "Zone where a trip begins"),
        Column("destination", "Zone where it ends"),
        Column("time", "When it begins", needed=False, times=True),
        Column("period", "Or its period, counted from 0", needed=False),
        Column("count", f"How many trips a row stands for{parts}; without it one", needed=False),
        *([Column("user_class", f"Class of users: {classes}")] if classes else []),
        *([Column("person", "Whose trip it is")] if public.unit == "person" else []),
    ]
