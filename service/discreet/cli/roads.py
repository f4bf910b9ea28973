"""Answers on road networks: the busiest links for a terminal, and the field's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from discreet.cli.texts import printable
from discreet.errors import InvalidInput
from discreet_client import intervals

if TYPE_CHECKING:
    from discreet_client.client import Client

MOST_SHOWN, MOST_CHANGED = 10, 6
"""Links on a terminal."""


def roads_of(problem: Any) -> Mapping[str, Any] | None:
    """The network that a problem holds; None where it names a stored one, or has none."""
    network = problem.get("network") if isinstance(problem, Mapping) else None
    return network if isinstance(network, Mapping) else None


def roads_of_answer(client: Client, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The network that a job held or named, where its result has link flows to show and the reader
    may see it."""
    if not answer["result"].get("link_flows"):
        return None
    problem: Mapping[str, Any] = client.job(answer["job"]["id"])["problem"] or {}
    named = problem.get("network")
    return _stored(client, named) if isinstance(named, str) else roads_of(problem)


def _stored(client: Client, network_id: str) -> Mapping[str, Any]:
    return dict(client.networks.get(network_id)["network"] or {})


def show_busiest(result: Mapping[str, Any], roads: Mapping[str, Any], screen: Console) -> None:
    """A table of the links with the largest flows."""
    from discreet_client import flows  # noqa: PLC0415 - for this alone

    try:
        rows = flows.busiest(result, roads, MOST_SHOWN)
    except flows.NotWritten:
        return
    if not rows:
        return
    of = len(roads["links"])
    title = f"The {len(rows)} busiest of {of:,} links" if len(rows) < of else "Links, busiest first"
    table = Table(Column("link", overflow="fold"), "from", "to", title=title)
    table.add_column("flow a period", overflow="fold")
    table.add_column("of capacity", justify="right")
    for row in rows:
        level = (result.get("uncertainty") or {}).get("level", 0.9)
        ends = (row.get("flow_lower"), row.get("flow_upper"))
        flow = intervals.with_interval(
            row["flow"],
            *ends,
            level,
            noise=row["noise"],
            kind=intervals.kind_of(result, "link_flows"),
        )
        if row.get("determined") is False:
            flow += " (not determined)"
        names = (Text(printable(str(row[field]))) for field in ("name", "from_node", "to_node"))
        table.add_row(*names, flow, intervals.percent(row["flow_over_capacity"]))
    screen.print(table)


def show_law(result: Mapping[str, Any], screen: Console) -> None:
    """By which law the travel times of a result grow, in its own sentence."""
    if law := result.get("latency_law"):
        screen.print(Text(f"{printable(str(law))}."))


def show_changes(result: Mapping[str, Any], roads: Mapping[str, Any], screen: Console) -> None:
    """The links whose flows change most by closing some, with intervals."""
    from discreet_client import flows  # noqa: PLC0415 - for this alone

    try:
        rows = flows.changes(result, roads, MOST_CHANGED)
    except flows.NotWritten:
        return
    table = Table(Column("link", overflow="fold"), title="The flows that change most")
    for column in ("before", "now", "change"):
        table.add_column(column, justify="right")
    for row in rows:
        figures = [intervals.plain(row["before"], 3), intervals.plain(row["after"], 3)]
        moved, ends = (
            row["after"] - row["before"],
            (row.get("change_lower"), row.get("change_upper")),
        )
        text = (
            intervals.with_interval(
                moved, *ends, row["level"], kind=intervals.kind_of(result, "link_flow_changes")
            )
            if ends[0] is not None and ends[1] is not None
            else intervals.plain(moved, 3)
        )
        table.add_row(
            Text(printable(str(row["name"]))), *figures, text if moved < 0 else f"+{text}"
        )
    if rows:
        screen.print(table)


def in_the_fields_form(
    client: Client,
    answer: Mapping[str, Any],
    form: str,
    decimal: str = ".",
    start: str | None = None,
    table: str | None = None,
) -> bytes:
    """The file of a result's tables (`table`: one of them; `decimal`: of CSV), of its demand, of
    its link flows on the network that its job held or named, or of the signal of loads, or what
    they draw from `start` on."""
    from discreet_client import flows, results  # noqa: PLC0415 - for this alone

    if form in results.FORMATS:
        try:
            whole = client.answer(answer["job"]["id"])
            return results.written(whole, form, table, decimal=decimal)
        except flows.NotWritten as error:
            raise InvalidInput(str(error)) from None
    if table is not None:
        says = f"--table goes with --format {', '.join(results.FORMATS)}, not with {form}"
        raise InvalidInput(says)
    if form in ("openadr", "openadr-signal", "signal"):
        return _of_loads(client, answer, form, start)
    if form == "omx":
        try:
            return flows.demand_matrix(answer["result"])
        except flows.NotWritten as error:
            raise InvalidInput(str(error)) from None
    problem: Mapping[str, Any] = client.job(answer["job"]["id"])["problem"] or {}
    network = problem.get("network") or {"links": []}
    if isinstance(network, str):
        network = _stored(client, network)
    try:
        if form == "select-link":
            return flows.selected_links(answer["result"], network)
        return flows.link_flows(answer["result"], network, form, decimal=decimal)
    except flows.NotWritten as error:
        raise InvalidInput(str(error)) from None


def _of_loads(client: Client, answer: Mapping[str, Any], form: str, start: str | None) -> bytes:
    """The signal of a demand response as CSV or as an OpenADR event, or a report of the load."""
    from discreet_client.openadr import event_of, report_of  # noqa: PLC0415 - for this alone

    result = answer["result"]
    if form == "signal":
        if "signal" not in result:
            raise InvalidInput("this result has no signal; results of dr_ensemble have one")
        lines = ["step,state,cost"]
        for step, costs in enumerate(result["signal"]):
            lines += [f"{step},{state},{cost!r}" for state, cost in enumerate(costs)]
        return "\n".join([*lines, ""]).encode()
    if start is None:
        raise InvalidInput(
            "--start says when step 0 begins, such as --start 2026-01-15T00:00:00+01:00"
        )
    try:
        if form == "openadr":
            made = report_of(result, start=start)
        else:
            problem: Mapping[str, Any] = client.job(answer["job"]["id"])["problem"] or {}
            made = event_of(result, problem.get("discomfort_weight", 1.0), start=start)
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    return json.dumps(made, indent=2).encode()
