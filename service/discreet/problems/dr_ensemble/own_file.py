"""What `discreet init` asks of a table of readings of meters."""

from __future__ import annotations

from discreet.problems.datasets import DATES_ASKED, TIME_ZONE_ASKED, FileQuestion

QUESTIONS = (
    FileQuestion("participant", "Which column says whose meter it is?", "column"),
    FileQuestion("time", "Which column says when it was read?", "column"),
    FileQuestion(
        "kw", "Which column is power in kW? None where meters count energy", "column", needed=False
    ),
    FileQuestion(
        "kwh", "Which column is energy in kWh? None where it is power", "column", needed=False
    ),
    FileQuestion(
        "participants",
        "How many participants are there? Nothing where that is private",
        needed=False,
    ),
    FileQuestion("states", "How many states of power are told apart?", usual="4"),
    FileQuestion(
        "edges",
        "Between which kW do they lie? One number more than states, such as [0, 0.5, 2, 4, 7]",
    ),
    FileQuestion("steps", "How many readings has each meter?"),
    FileQuestion("meters.start", "When was the first reading, such as 2026-01-15T00:00?"),
    FileQuestion(
        "meters.interval_seconds", "How many seconds are between two readings?", usual="900"
    ),
    FileQuestion(
        "meters.carry", "How many missing readings in a row take the state before?", usual="0"
    ),
    TIME_ZONE_ASKED,
    DATES_ASKED,
)
