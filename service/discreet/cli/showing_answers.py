"""Answers and rehearsals in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from discreet.cli.rehearsed import show_rehearsal
from discreet.cli.roads import show_busiest, show_changes, show_law
from discreet.cli.texts import printable
from discreet_client import intervals

if TYPE_CHECKING:
    from discreet_client.comparison import Comparison, Difference

FEW = 6
"""Numbers of a result that are shown as they are."""


def _show_left(budgets: Sequence[Mapping[str, Any]], screen: Console) -> None:
    """What is left on the accounts that a job was charged to, and who can give more; of blocks with
    as much left it is said once."""
    alike: dict[tuple[Any, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for budget in budgets:
        named = ", ".join(dataset["name"] for dataset in budget["datasets"]) or budget["subject"]
        left, cap = budget["largest_request"]["epsilon"], budget["cap"]["epsilon"]
        # Who has nothing left is told of which account the cap is to be raised.
        key = (left, cap, budget["scope"], None if left else budget["id"])
        alike.setdefault(key, []).append((named, budget))
    for found in alike.values():
        found.sort(key=lambda one: one[0])
        said, budget = found[0]
        if len(found) > 1:
            said = f"{len(found)} accounts, {said} to {found[-1][0]}, each"
        names = as_said(said)
        left, cap = budget["largest_request"]["epsilon"], budget["cap"]["epsilon"]
        raises = f"cap grant {budget['id']}" if budget["scope"] == "data" else "cap set"
        more = (
            ""
            if left
            else f"; an owner can raise the cap: discreet {raises} --epsilon E --reason R"
        )
        screen.print(
            f"left on {names}: epsilon {left:.9g} of {cap:.9g}{more}",
            highlight=False,
            soft_wrap=True,
        )


MOST_COMPARED = 10
"""Links of a comparison that are shown."""


def show_comparison(found: Comparison) -> None:
    """The figures of two answers, and the links whose flows differ most."""
    screen = Console()
    for title, rows in (("What changed", found.figures), ("Links", found.links[:MOST_COMPARED])):
        if not rows:
            continue
        table = Table("", title=title)
        for column in ("before", "now", "change"):
            table.add_column(column, justify="right")
        for row in rows:
            figures = (
                "" if one is None else intervals.plain(one, 4) for one in (row.before, row.now)
            )
            table.add_row(Text(printable(row.name)), *figures, _change_of(row, found))
        screen.print(table)
    if len(found.links) > MOST_COMPARED:
        more = f"{len(found.links) - MOST_COMPARED:,} more links: --out FILE, or --json"
        screen.print(more, highlight=False)
    for note in found.notes:
        screen.print(f"{note}.", highlight=False, soft_wrap=True)


def _change_of(row: Difference, found: Comparison) -> str:
    if row.change is None:
        return ""
    sign = "+" if row.change > 0 else ""
    if row.lower is None or row.upper is None or found.level is None:
        return f"{sign}{intervals.plain(row.change, 3)}"
    kind = {"kind": found.kind}
    return sign + intervals.with_interval(row.change, row.lower, row.upper, found.level, **kind)


def show_answer(
    answer: Mapping[str, Any],
    out: Path | None,
    roads: Mapping[str, Any] | None = None,
    left: Sequence[Mapping[str, Any]] = (),
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Doubts first, then what the result answers in a sentence, then its numbers, of `roads` the
    busiest links, its certificate, and what is left of the budgets that it was charged to.
    `fields`: of a rehearsal, what is published of the fields of what was rehearsed."""
    screen = Console()
    if intervals.is_mostly_noise(answer["result"]):
        screen.print(f"{intervals.MOSTLY_NOISE}.", style="bold yellow")
    if intervals.is_not_converged(answer["result"]):
        screen.print(f"{intervals.NOT_CONVERGED}.", style="bold yellow")
    # There is no job of a rehearsal without a server.
    if headline := answer.get("job", {}).get("headline"):
        screen.print(Text(headline, style="bold"))
        if judgement := _good_for(answer["job"]["kind"], answer["result"], headline):
            screen.print(judgement, highlight=False)
    show_law(answer["result"], screen)
    if "reference_epsilon" in answer["result"]:
        show_rehearsal(answer["result"], out, fields or {})
        return
    guarantee = answer["certificate"]["guarantee"]
    table = Table("field", "value", title=f"Job {answer['job']['id']}")
    told = {one.name: one for one in intervals.stated(answer["result"])}
    for name, value in answer["result"].items():
        if name in ("uncertainty", "latency_law") or value == []:
            continue
        if name == "combined":
            table.add_row(name, intervals.combined(answer["result"]))
        elif name in told and isinstance(value, int | float):
            table.add_row(name, told[name].text)
        elif isinstance(value, float):
            table.add_row(name, f"{value:.6g}")
        elif isinstance(value, int | str):
            table.add_row(name, f"{value}")
        elif (
            isinstance(value, list)
            and len(value) <= FEW
            and all(isinstance(one, int | float) for one in value)
        ):
            apart = f" ({told[name].text})" if name in told else ""
            table.add_row(name, ", ".join(f"{one:.6g}" for one in value) + apart)
        elif (
            isinstance(value, list)
            and len(value) <= FEW
            and all(isinstance(one, str) for one in value)
        ):
            table.add_row(name, printable(", ".join(value)))
        elif isinstance(value, Mapping) and value.keys() == {"lower", "upper"}:
            table.add_row(
                name, f"{intervals.figure(value['lower'])} to {intervals.figure(value['upper'])}"
            )
        elif isinstance(value, Mapping):
            table.add_row(name, ", ".join(value))
        elif value:
            how_many = "1 entry" if len(value) == 1 else f"{len(value)} entries"
            called = _rows_called(roads, name, len(value))
            said = f"; {told[name].words(called)}" if name in told else ""
            table.add_row(name, as_said(f"{how_many}{said}"))
    screen.print(table)
    if roads is not None:
        show_busiest(answer["result"], roads, screen)
        show_changes(answer["result"], roads, screen)
    if guarantee["type"] == "none":
        screen.print("certificate: no guarantee; this is a simulation on data declared public")
    elif guarantee["type"] == "post_processing":
        for first in answer["certificate"]["follows_from"]["releases"]:
            own = first["guarantee"]
            screen.print(
                f"certificate: follows from what {first['job']} released, which was charged "
                f"epsilon {own['epsilon']:.9g}, delta {own['delta']:.9g}; nothing more was "
                f"charged; neighbouring datasets: {own['neighbours']}"
            )
    elif guarantee["type"] == "cryptographic":
        screen.print(f"certificate: cryptographic; protects {guarantee['neighbours']}")
    else:
        delta = f", delta {guarantee['delta']:.9g}" if guarantee["delta"] else ""
        screen.print(
            f"certificate: epsilon {guarantee['epsilon']:.9g}{delta}; neighbouring datasets: "
            f"{guarantee['neighbours']}"
        )
    if exposure := answer["certificate"].get("exposure"):
        screen.print(f"exposure: {exposure['sentence']}")
    _show_left(left, screen)
    if out is not None:
        screen.print(f"written to {out}", highlight=False, soft_wrap=True)


def _rows_called(roads: Mapping[str, Any] | None, field: str, rows: int) -> list[str] | None:
    """How people call the rows of a field, where these are the links of a network that is known."""
    if field not in ("link_flows", "link_flow_changes"):
        return None
    if roads is None or len(roads["links"]) != rows:
        return None
    from discreet_client import closing  # noqa: PLC0415 - numpy, which most commands do not need

    return closing.names_of(roads)


def _good_for(kind: str, result: Mapping[str, Any], headline: str) -> str:
    """What the interval in a job's sentence lets one say; empty where nothing is to be said. A
    sentence whose number is the same says it: others of its words may follow from the problem,
    which the answer does not hold."""
    from discreet.problems.answers import headlines_of  # noqa: PLC0415 - the kinds, which most commands do not need

    try:
        found = headlines_of({"kind": kind}, result)
    except (
        Exception
    ):  # some sentences of some kinds need the problem; the answer is shown all the same
        return ""
    return next((one.good_for for one in found if one.figure and one.figure in headline), "")


def as_said(text: str) -> Text:
    """A text of others: no markup, and nothing that a terminal obeys."""
    return Text(printable(text))
