"""Charts over time: who was in a session, and what an account has spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from discreet.figures.charts import Chart, Table
from discreet.figures.style import QUIET
from discreet.figures.traces import Trace, curve, figure, plain
from discreet.solvers.saddle.saddle_point import thinned

MAX_MOMENTS = 1000
"""Of more entries of an account so many are drawn, evenly spread; their sums stay exact."""

EARLIER = "earlier jobs"
"""What stands for all that was before the first entry that is drawn."""


# Sessions -----------------------------------------------------------------------------------------


def session_chart(
    session: Mapping[str, Any], job: Mapping[str, Any], seen_by_the_server: str = ""
) -> Chart:
    """Who was there: when each agent enrolled, whether it is on the roster and accepted its charge,
    when rounds ran.

    `session` as the API gives it, `job` with its times. Who answered which single round is not kept
    by the server.
    """
    moments = [one["enrolled_at"] for one in session["agents"]]
    started, finished = job.get("started_at"), job.get("finished_at")
    ends = finished or max(
        [*moments, *filter(None, (session["approved_at"], started))], default=None, key=_time
    )
    names: list[str] = []
    traces: list[Trace] = []
    rows: list[tuple[str, ...]] = []
    seen: dict[str, int] = {}
    for one in session["agents"]:
        name = str(one["name"])
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    for place, (name, colour, since, until, member) in enumerate(
        (
            ("enrolled, waiting", QUIET, None, session["approved_at"] or ends, None),
            (
                "on the roster, before the first round",
                "#b7791f",
                session["approved_at"],
                started or ends,
                True,
            ),
            ("rounds", "#2f6f9f", started, ends, True),
        )
    ):
        x: list[Any] = []
        y: list[Any] = []
        for agent, label in zip(session["agents"], names, strict=True):
            begin = since or (agent["enrolled_at"] if place == 0 else None)
            if begin is None or until is None or (member and not agent["on_roster"]):
                continue
            x += [_iso(begin), _iso(until), None]
            y += [plain(label), plain(label), None]
        if x:
            line = {"color": colour, "width": 6 + 6 * place}
            mark = {"color": colour, "size": 8 + 5 * place, "symbol": "square"}
            shape = {"mode": "lines+markers", "line": line, "marker": mark, "hoverinfo": "x+name"}
            traces.append({"type": "scatter", "name": name, "x": x, "y": y, **shape})
    for agent, label in zip(session["agents"], names, strict=True):
        told = ("yes" if agent[field] else "no" for field in ("on_roster", "accepted"))
        rows.append((label, agent["fingerprint"], _iso(agent["enrolled_at"]), *told))
    least = session["terms"].get("quorum") or session["terms"]["agents"]
    terms = (
        "every agent of the roster answered every round, since one that misses a round ends the job"
        if session["terms"].get("on_missing", "abort") == "abort"
        else f"at least {least} agents answered each round; who missed one is not kept"
    )
    done = int(session["round"])
    said = f"{done} exchanges are done: {terms}." if done else "No round has begun."
    return Chart(
        name="session",
        title="Who was there",
        caption=f"Each agent from its enrolment on, then the rounds. {said} {seen_by_the_server}",
        figure=figure(
            traces,
            height=max(220, 120 + 36 * len(names)),
            xaxis={"type": "date"},
            yaxis={
                "type": "category",
                "range": [max(len(names), 1) - 0.5, -0.5],
                "showgrid": False,
            },
        ),
        table=Table.of(("agent", "key", "enrolled", "on the roster", "accepted its charge"), rows),
    )


# Budgets ------------------------------------------------------------------------------------------


def spending_chart(
    rows: Sequence[tuple[datetime | str, int, str | None, str, str, int, int]],
    earlier: tuple[int, int] = (0, 0),
    *,
    several: bool = True,
) -> Chart:
    """Epsilon of an account over time, by analyst; a marker for each job.

    `rows` are entries of one account, ascending: at, seq, job id, principal, kind, epsilon in 1e-9,
    delta in 1e-18. What is reserved counts from its reservation until it is released. `earlier`:
    the sums of epsilon and delta, in the same units, of what was before them. `several`: whether
    the cap has several ways of adding up, of which the best counts.
    """
    held: dict[str, tuple[str, int, int]] = {}
    sums: dict[str, int] = {}
    before, delta_sum = earlier
    moments: list[str] = []
    history: list[dict[str, int]] = []
    bases: list[int] = []
    labels: list[str] = []
    table = []
    for at, seq, job, principal, kind, epsilon, delta in rows:
        if kind == "reserve" and job is not None:
            held[job] = (principal, epsilon, delta)
            sums[principal] = sums.get(principal, 0) + epsilon
            delta_sum += delta
        elif kind == "release" and job in held:
            owner, *price = held.pop(job)
            sums[owner] -= price[0]
            delta_sum -= price[1]
        elif kind == "release":  # of a job that was reserved earlier
            before -= epsilon
            delta_sum -= delta
        else:
            continue
        moments.append(_iso(at))
        history.append(dict(sums))
        bases.append(before)
        labels.append(f"entry {seq}: {kind} by {plain(principal)}, {plain(job)}")
        total = before + sum(sums.values())
        table.append(
            (
                _iso(at),
                seq,
                kind,
                job,
                principal,
                _nano(epsilon),
                _nano(total),
                f"{delta_sum / 10**18:.6g}",
            )
        )
    if len(moments) > MAX_MOMENTS:
        kept = (thinned(len(moments), MAX_MOMENTS) - 1).tolist()
        moments, history, bases, labels = (
            [part[k] for k in kept] for part in (moments, history, bases, labels)
        )
    if moments:  # a little room before the first step and after the last
        first, last = _time(moments[0]), _time(moments[-1])
        room = max(0.06 * (last - first), timedelta(seconds=1))
        moments = [_iso(first - room), *moments, _iso(last + room)]
        history, bases = [{}, *history, history[-1]], [earlier[0], *bases, bases[-1]]
        labels = ["what was before" if earlier[0] else "nothing yet", *labels, "so far"]
    traces = []
    heights = {name: [one.get(name, 0) for one in history] for name in sums}
    if any(bases):
        heights = {EARLIER: bases, **heights}
    for place, (name, height) in enumerate(heights.items()):
        step = curve(name, moments, [one / 10**9 for one in height], place, steps=True)
        step |= {
            "mode": "lines+markers",
            "stackgroup": "spending",
            "text": labels,
            "hovertemplate": "%{y:.9~f} by %{fullData.name}<br>%{text}<extra></extra>",
            "marker": {"size": 6, "symbol": "circle"},
        }
        traces.append(step)
    return Chart(
        name="spending",
        title="Spending over time",
        caption="Epsilon that jobs have reserved or spent on this account, stacked by analyst; "
        "each step is a job. It is the plain sum of prices"
        + (
            ": what counts against the cap may be less, by the best of several ways of adding up."
            if several
            else ", which is what counts against the cap."
        )
        + ("" if earlier == (0, 0) else f" What was before is one sum, called “{EARLIER}”."),
        figure=figure(
            traces, x="", y="epsilon, reserved or spent", height=340, xaxis={"type": "date"}
        ),
        table=Table.of(
            ("at", "entry", "kind", "job", "by", "epsilon", "sum of epsilon", "sum of delta"), table
        ),
    )


def _nano(epsilon: int) -> str:
    """Epsilon in 1e-9 as a decimal, exactly."""
    whole, part = divmod(epsilon, 10**9)
    return f"{whole}.{part:09d}".rstrip("0").rstrip(".")


def _iso(at: datetime | str) -> str:
    return at if isinstance(at, str) else at.isoformat()


def _time(at: datetime | str) -> datetime:
    return datetime.fromisoformat(at) if isinstance(at, str) else at
