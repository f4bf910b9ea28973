"""The questions of `discreet init` about a table of trips."""

from __future__ import annotations

from discreet.problems.datasets import DATES_ASKED, TIME_ZONE_ASKED, FileQuestion

QUESTIONS = (
    FileQuestion("origin", "Which column says where a trip begins?", "column"),
    FileQuestion("destination", "Which column says where it ends?", "column"),
    FileQuestion(
        "time", "Which column says when it begins? None of one period", "column", needed=False
    ),
    FileQuestion(
        "count",
        "Which column says how many trips a row stands for? None where it is one",
        "column",
        needed=False,
    ),
    FileQuestion(
        "zones",
        "Which stored network, or file of zones by name, are the trips on? Nothing where zones are "
        "numbers from 1",
        "zones",
        needed=False,
    ),
    FileQuestion(
        "zones", "How many zones are there? Nothing where a network says it", needed=False
    ),
    FileQuestion("periods", "How many periods are observed, such as five mornings?", usual="1"),
    FileQuestion("period_minutes", "How many minutes has a period?", usual="60"),
    FileQuestion(
        "reader.start",
        "When does the first period begin, such as 2026-11-02T07:00? Nothing where no column is a "
        "time",
        needed=False,
    ),
    FileQuestion(
        "reader.every",
        "The others begin each day, weekday or week at this time? Nothing where they follow one "
        "another",
        needed=False,
    ),
    TIME_ZONE_ASKED,
    DATES_ASKED,
)
