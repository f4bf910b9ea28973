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
from discreet.problems.results import LONGEST_STORED, Headline, headline, properties_of
from discreet_client import intervals


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
    """The first sentence for lists of jobs; one of a result that is no optimum says so first. A
    sentence that cannot be made is no reason to lose a result that was paid for: there is none
    then."""
    try:
        found = headlines_of(problem, result)
    except Exception:  # whoever opens the job's page makes it again, and logs why it cannot be made
        return None
    if not found:
        return None
    said = found[0]
    if intervals.is_not_converged(result):
        said = replace(said, before=f"Not converged: {said.before}")
    return _shortened(said)


def _shortened(said: Headline) -> str:
    """The sentence in `LONGEST_STORED` characters: its figure stays, which is the answer."""
    if len(said.text) <= LONGEST_STORED:
        return said.text
    room = LONGEST_STORED - 1 - len(said.before) - len(said.figure)
    if room >= 0 or not said.figure:
        words = said.text[: LONGEST_STORED - 1]
        return (
            f"{words[: max(words.rfind(' '), len(said.before) + len(said.figure))].rstrip(' ,')}…"
        )
    begin = said.before[: max(LONGEST_STORED - 3 - len(said.figure), 0)]
    return f"{begin}… {said.figure}…"[:LONGEST_STORED]


def _first_number(kind: type[Problem] | None, result: Mapping[str, Any]) -> list[Headline]:
    fields = None if kind is None else kind.Fields
    for said in intervals.stated(result):
        if fields is not None and intervals.is_number(said.value):
            title = properties_of(fields).get(said.name, {}).get("title", said.name)
            return [headline(fields, result, said.name, f"{title}: ")]
    return []
