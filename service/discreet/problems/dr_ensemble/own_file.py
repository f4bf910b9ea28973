"""What `discreet init` asks of a table of readings of meters."""

from __future__ import annotations

from discreet.problems.datasets import FileQuestion

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
        "edges", "Between which kW do they lie, one number more, such as [0, 0.5, 2, 4, 7]?"
    ),
    FileQuestion("steps", "How many readings has each meter?"),
    FileQuestion("meters.start", "When does the first period begin, such as 2026-01-15T00:00?"),
    FileQuestion(
        "meters.interval_seconds", "How many seconds are between two readings?", usual="900"
    ),
    FileQuestion(
        "meters.carry", "How many missing readings in a row take the state before?", usual="0"
    ),
    FileQuestion(
        "reader.time_zone",
        "In which time zone are times that have none, such as Europe/Berlin?",
        needed=False,
    ),
    FileQuestion(
        "reader.dates",
        "Of a date such as 01/02/2026, which comes first: day_first or month_first? Nothing where "
        "dates have no slashes",
        needed=False,
    ),
)
