"""Two jobs side by side: what was asked, what it cost, what came out, and their charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from discreet.dashboard import answers, submissions, words
from discreet.dashboard.answers import Answer
from discreet.dashboard.pages import HEADERS, environment, render
from discreet.dashboard.sessions import Reader
from discreet.problems import JOBS
from discreet.problems.reuse import WHERE_THE_DATA_ARE
from discreet.usecases.services import Services
from discreet.web.drawings import drawn
from discreet.web.security import CurrentServices
from discreet_client import intervals

if TYPE_CHECKING:
    from discreet_client.comparison import Comparison, Difference

router = APIRouter(include_in_schema=False)

LONGEST_VALUE = 240
"""Characters of a value that are shown; whole values are compared."""
MOST_LINKS = 20
"""Links whose changes are shown."""


@dataclass(frozen=True)
class Line:
    """A line of a table with a column for each job; a value is None where a job has none."""

    name: str
    values: tuple[str | None, str | None]
    differs: bool


class Change(NamedTuple):
    """A figure of both answers, in words; None where one has none."""

    name: str
    before: str | None
    now: str | None
    change: str | None


@router.get("/jobs/compare")
async def show_comparison(
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    job: Annotated[list[str] | None, Query()] = None,
    part: str = "",
) -> Response:
    """Two jobs side by side, or how to choose two if there are more or fewer; with `part=answer`
    what a script puts beside the answer of the first. NotFound unless both may be read."""
    chosen = list(dict.fromkeys(job or []))
    if len(chosen) != 2:
        return render(request, "compare_choose.html", status=422, count=len(chosen))
    both = [await answers.of_job(services, viewer, one) for one in chosen]
    lines = await anyio.to_thread.run_sync(_asked, both)
    headlines = [_headlines(one) for one in both]
    charts = [{chart.name: chart for chart in one.charts} for one in both]
    differences = await _differences(services, viewer, both)
    shown: dict[str, Any] = {
        "differences": differences,
        "changes": [] if differences is None else _changes(both[0].row["kind"], differences),
        "charts": [
            [one.get(name) for one in charts] for name in dict.fromkeys([*charts[0], *charts[1]])
        ],
        "both": both,
        "lines": lines,
        "answers": [
            _said(name, headlines) for name in dict.fromkeys([*headlines[0], *headlines[1]])
        ],
        "noise": _noise(both),
    }
    if part == "answer":
        text = environment.get_template("compare_answer.html").render(**shown)
        return Response(text, media_type="text/html", headers=HEADERS)
    return render(request, "compare.html", **shown)


async def _differences(services: Services, viewer: Reader, both: list[Answer]) -> Comparison | None:
    """What changed from the first to the second; None unless both have a result, of one kind."""
    if None in (one.result for one in both) or both[0].row["kind"] != both[1].row["kind"]:
        return None
    from discreet_client.answers import answer_of  # noqa: PLC0415 - few ask for it
    from discreet_client.comparison import compare  # noqa: PLC0415

    found = []
    for one in both:
        drawing = await drawn(services, viewer.principal, one.row["id"])
        answer = answer_of({"job": one.job, "result": drawing.result}, {})
        answer.network = drawing.row["problem"].get("network") or {}
        found.append(answer)
    return await anyio.to_thread.run_sync(lambda: compare(*found))


def _changes(kind: str, found: Comparison) -> list[tuple[str, list[Change]]]:
    """Captions and rows of tables of what changed: the figures, and the links that changed most."""
    figures = [_change(words.field(row.name, kind), row, found) for row in found.figures]
    links = [_change(row.name, row, found) for row in found.links[:MOST_LINKS]]
    captions = ("The figures of both", f"Links, largest change first, at most {MOST_LINKS}")
    return [(name, rows) for name, rows in zip(captions, (figures, links), strict=True) if rows]


def _change(name: str, row: Difference, found: Comparison) -> Change:
    before, now = (None if one is None else intervals.figure(one) for one in (row.before, row.now))
    change = None if row.change is None else intervals.plain(row.change, 3)
    if row.change is not None and None not in (row.lower, row.upper, found.level):
        ends = row.lower, row.upper, found.level or 0.0
        change = intervals.with_interval(row.change, *ends, kind=found.kind)
    return Change(name, before, now, change)


def _asked(both: list[Answer]) -> list[Line]:
    asked = [
        _flat(
            {
                name: value
                for name, value in {**one.problem, **_names(one)}.items()
                if name not in WHERE_THE_DATA_ARE
            }
        )
        for one in both
    ]
    return [_line(name, asked) for name in dict.fromkeys([*asked[0], *asked[1]])]


def _names(one: Answer) -> dict[str, str]:
    """The names for values of the problem that are positions, such as closed roads."""
    kind = JOBS.get(one.row["kind"])
    if kind is None or kind.left_out is None:
        return {}
    return {name: ", ".join(names) for name, names in kind.left_out.named(one.problem).items()}


def _flat(problem: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a problem that are set, by name; a member of an object is `field.member`."""
    found: dict[str, Any] = {}
    for name, value in problem.items():
        if isinstance(value, Mapping) and value:
            found |= {f"{name}.{inner}": one for inner, one in _flat(value).items()}
        elif value is not None:
            found[name] = value
    return found


def _line(name: str, asked: list[dict[str, Any]]) -> Line:
    first, second = (_text(one[name]) if name in one else None for one in asked)
    return Line(name, (first, second), asked[0].get(name) != asked[1].get(name))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else submissions.as_text(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _headlines(one: Answer) -> dict[str, str]:
    """The numbers and short texts of a result, with intervals where it states them, by label."""
    if one.result is None:
        return {}
    kind = one.row["kind"]
    told = {name: text for name, text, _ in one.told}
    for name, value in one.result.items():
        if (
            name not in told
            and isinstance(value, str | int | float)
            and not isinstance(value, bool)
        ):
            told[name] = value if isinstance(value, str) else f"{value:,.6g}"
    return {words.field(name, kind): text for name, text in told.items()}


def _said(name: str, headlines: list[dict[str, str]]) -> Line:
    first, second = (one.get(name) for one in headlines)
    return Line(name, (first, second), first != second)


def _noise(both: list[Answer]) -> list[Line]:
    """The standard deviation of the noise, by the quantity that it is added to."""
    deviations = [
        {one["quantity"]: f"{one['standard_deviation']:.4g}" for one in answer.row["plan"]["noise"]}
        for answer in both
    ]
    return [_said(name, deviations) for name in dict.fromkeys([*deviations[0], *deviations[1]])]
