"""What files of an ensemble look like: states or readings, one in each row, or readings with a
column for each meter."""

from __future__ import annotations

from discreet.problems.datasets import Column, Layout
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet_client.meters import NO_METER

OWNER = Column(
    "participant",
    "names",
    "Whose row it is",
    words=("meter", "customer", "household", "user", "zahler", "zaehler", "zahlpunkt", "id"),
    owner=True,
)
TIME = Column(
    "time",
    "times",
    "When it was read",
    words=("timestamp", "date", "datetime", "when", "zeit", "zeitstempel", "datum"),
)
GAPS = {
    "refuse": "A period in which a meter has no reading is a gap then, and the public part refuses "
    "a file with gaps: “Change it” above, where “Carry” fills them and “Gaps” leaves out such "
    "meters.",
    "leave_out": "A meter with a gap, a period without any reading, is left out then, as the "
    "public part says.",
    "end": "Only the readings of a meter before its first gap, a period without any reading, are "
    "taken then, as the public part says.",
}
"""What becomes of gaps, by `public.meters.gaps`."""
CARRIED = " The first periods of a gap, as many as “Carry” says, take the state of the one before."
OTHER_FILES = (
    "Your file has kW at times? Change the public part: `edges` are the kW between states, "
    "`meters` says when readings begin and how many seconds they are apart. Then time and kW are "
    "asked for here."
)
"""Shown where a dataset takes states and not readings."""


def other_files(public: DrEnsemblePublic) -> str:
    return "" if public.meters is not None or public.row_change is not None else OTHER_FILES


def layouts(public: DrEnsemblePublic) -> list[Layout]:
    """The layouts of a file; readings come in two."""
    if public.meters is None:
        return [Layout("", columns(public))]
    return [
        Layout("a reading of one meter", columns(public)),
        Layout("a time, with a column for each meter", [TIME, _power(public)], "wide"),
    ]


def columns(public: DrEnsemblePublic) -> list[Column]:
    """The columns of an upload."""
    last = public.states - 1
    if public.row_change is not None:
        return [
            Column(
                "from",
                "integers",
                "State before, counted from 0",
                0,
                last,
                words=("origin", "state"),
            ),
            Column(
                "to",
                "integers",
                "State after, counted from 0",
                0,
                last,
                words=("next", "next_state"),
            ),
            Column(
                "probability", "numbers", "How probable the step is", 0, 1, words=("p", "share")
            ),
        ]
    if public.meters is not None:
        return [OWNER, TIME, _power(public)]
    return [
        OWNER,
        Column(
            "step",
            "integers",
            "Place in the sequence, counted from 0",
            0,
            words=("period", "t", "time"),
        ),
        Column("state", "integers", "State, counted from 0", 0, last, words=("s", "bin", "level")),
    ]


def _power(public: DrEnsemblePublic) -> Column:
    assert public.edges is not None
    assert public.meters is not None
    low, high = (
        (public.edges[0], public.edges[-1]) if public.meters.outside == "refuse" else (None, None)
    )
    words = ("power", "load", "value", "kilowatt", "kwh", "energy", "leistung", "verbrauch")
    hours = public.meters.interval_seconds / 3600
    return Column(
        "kw",
        "numbers",
        "Power in kW; where your file has energy in kWh, say so below",
        low,
        high,
        words=words,
        gaps=GAPS[public.meters.gaps] + (CARRIED if public.meters.carry else ""),
        never=NO_METER,
        hours=hours,
    )
