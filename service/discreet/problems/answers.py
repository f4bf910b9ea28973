"""What a result answers, in sentences of its field with their intervals, and what each is good for, whatever its kind.

`headline.py` of a kind's folder says the sentences: `headlines(problem, result)`, the answer itself first. Of a kind
without one the first number of which an interval is told is the answer. Lists of jobs keep the first sentence, which
the worker's child makes of what is published: nothing here draws, or loads anything large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from discreet.problems import JOBS
from discreet.problems.headlines import Headline, headline
from discreet.problems.kind_modules import module_of
from discreet.problems.results import properties_of
from discreet_client import intervals

log = structlog.get_logger()

LONGEST_STORED = 200
"""Characters of the sentence that lists of jobs keep."""


def headlines_of(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The sentences of a result, the answer itself first; none where nothing of it is one number.

    `problem` as stored with the job, `result` as the API gives it. A sentence that cannot be made is no reason to hide
    the result, or to lose it: there are none then.
    """
    kind = problem["kind"]
    own = module_of(kind, "headline")
    try:
        found: list[Headline] = _first_number(kind, result) if own is None else own.headlines(problem, result)
    except Exception:
        log.exception("a result has no headline", kind=kind)
        return []
    return found


def stored(problem: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """The first sentence for lists of jobs. One of a result that is no optimum or is mostly noise says so first."""
    found = headlines_of(problem, result)
    if not found:
        return None
    text = found[0].text
    if intervals.is_not_converged(result):
        text = f"Not converged: {text}"
    return text if len(text) <= LONGEST_STORED else f"{text[: LONGEST_STORED - 1]}…"


def _first_number(kind: str, result: Mapping[str, Any]) -> list[Headline]:
    fields = JOBS[kind].Fields if kind in JOBS else None
    for said in intervals.stated(result):
        if fields is not None and intervals.is_number(said.value):
            title = properties_of(fields).get(said.name, {}).get("title", said.name)
            return [headline(fields, result, said.name, f"{title}: ")]
    return []
