"""The answer of a result of any kind as sentences with intervals, and what each is good for.

Lists of jobs keep the first sentence, which the worker's child makes of what is published: nothing
here draws, or loads anything large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.problems import JOBS
from discreet.problems.base import Problem
from discreet.problems.results import Headline, headline, properties_of
from discreet_client import intervals

LONGEST_STORED = 200
"""Characters of a sentence that the database keeps. Kinds make none that is longer."""
NOT_OPTIMAL = "Not optimal. "
"""Before an answer of a result that is no optimum and does not say so itself."""


def headlines_of(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The sentences of a result, the answer itself first; none if no field is a single number.

    `problem` as stored with the job, `result` as the API gives it.
    """
    kind = JOBS.get(problem["kind"])
    if kind is None or kind.headlines is None:
        return _first_number(kind, result)
    found: list[Headline] = kind.headlines(problem, result)
    return found


def stored_headline(problem: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """The first sentence, whole, for lists of jobs; one of a result that is no optimum says so
    first. A sentence that cannot be made is no reason to lose a result that was paid for: there is
    none then."""
    try:
        found = headlines_of(problem, result)
    except Exception:  # whoever opens the job's page makes it again, and logs why it cannot be made
        return None
    if not found:
        return None
    said = found[0]
    if intervals.is_not_converged(result) and "not optimal" not in said.text.lower():
        said = replace(said, before=f"{NOT_OPTIMAL}{said.before}")
    return said.text if len(said.text) <= LONGEST_STORED else None


def _first_number(kind: type[Problem] | None, result: Mapping[str, Any]) -> list[Headline]:
    fields = None if kind is None else kind.Fields
    for said in intervals.stated(result):
        if fields is not None and intervals.is_number(said.value):
            title = properties_of(fields).get(said.name, {}).get("title", said.name)
            return [headline(fields, result, said.name, f"{title}: ")]
    return []
