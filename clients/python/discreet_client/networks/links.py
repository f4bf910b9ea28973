"""A table of links, of CSV or of the properties of GeoJSON: times that it has, or that follow from
lengths and speeds."""

from __future__ import annotations

import math
from collections import ChainMap
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from discreet_client.networks.measures import (
    MEASURED,
    capacities_of_lanes,
    distance_costs,
    doubts_about,
    toll_costs,
    units_of,
    weight_notes,
)
from discreet_client.networks.roads import (
    LENGTH,
    LINK,
    LINK_OPTIONAL,
    NODES,
    OWN,
    Json,
    Options,
    all_at_once,
    unread_columns,
)
from discreet_client.tables import Issue, Table, TableError, missing

LANES_UNUSED = (
    "lanes change no capacity: the column capacity is taken for that of all lanes of a link; where "
    "it is of one lane, give each link the product of the two"
)
ABOVE = {"speed": "speed", "lanes": "number of lanes", "capacity": "capacity"}


class _Links(NamedTuple):
    """A table of links by the names of LINK and LINK_OPTIONAL, and what is to be said of it."""

    table: Table
    notes: list[str]
    left_out: list[str]
    warnings: list[str]


def links_of(source: Table, file: str, of: str, options: Options, *, ends: bool) -> _Links:
    """With the times that the table has, or those that follow from length and speed. `ends`: it
    names tail and head."""
    timed = options.columns.get("free_flow_time", "free_flow_time") in source.columns
    if options.speed is not None:
        if timed or options.columns.get("speed", "speed") in source.columns:
            options.refuse(f"{of} with a column {'free_flow_time' if timed else 'speed'}", "speed")
        every = np.full(source.rows, options.speed)
        added = {options.columns.get("speed", "speed"): every}
        source = replace(source, columns=ChainMap(added, cast(dict[str, Any], source.columns)))
    measured = not timed and all(options.columns.get(one, one) in source.columns for one in LENGTH)
    chosen = {
        role: name
        for role, name in options.columns.items()
        if role in (*LINK, *LINK_OPTIONAL, *LENGTH)
    }
    counted = options.columns.get("capacity", "capacity") in source.columns
    if lacking := _lacking(source, options, timed=timed or measured, counted=counted, ends=ends):
        raise TableError.of(lacking, f"columns are: {source.listed()}")
    if timed:
        options.refuse(f"{of} with a column free_flow_time", "units")
    if counted:
        options.refuse(f"{of} with a column capacity", "lane_capacity")
    derived = [
        *(["free_flow_time"] if measured else []),
        *(["capacity"] if options.lane_capacity else []),
    ]
    needed = [one for one in LINK[0 if ends else 2 :] if one not in derived]
    weighed = options.distance_weight is not None
    if weighed and options.columns.get("length", "length") not in source.columns:
        options.refuse(f"{of} without a column length", "distance_weight")
    lengths_of = LENGTH if measured else LENGTH[:1] if weighed else ()
    needed += lengths_of if weighed and not measured else ()
    roles = (*needed, *LINK_OPTIONAL, *lengths_of)
    table = source.named(
        {role: chosen[role] for role in chosen if role in roles}, needed, roles, options.words
    )
    _check_cells(table)
    if "toll" not in table.columns:
        options.refuse(f"{of} without a column toll", "toll_weight")
    if weighed or "toll" in table.columns:
        table = _with_costs(table, options)
    left_out = unread_columns(source, [chosen.get(role, role) for role in roles], file)
    notes = (
        []
        if options.speed is None
        else [f"the speed of every link is taken to be {options.speed:g}"]
    )
    if options.lane_capacity is not None:
        table, says = capacities_of_lanes(table, options.lane_capacity)
        notes.append(says)
    elif "lanes" in table.columns and not np.all(table.numbers("lanes") == 1):
        notes.append(LANES_UNUSED)
    notes += weight_notes(options)
    if not measured:
        return _Links(table, notes, left_out, [])
    options.refuse("links of lengths and speeds, which make minutes", "time_unit")
    length, speed = units_of(options, None)
    speeds, lengths = table.numbers("speed"), table.numbers("length")
    time = lengths * length / (speeds * speed) * 60
    warnings = doubts_about(table, lengths * length, speeds * speed, options.words)
    table = replace(table, columns={**table.columns, "free_flow_time": time})
    return _Links(table, [MEASURED, *notes], left_out, warnings)


def _lacking(
    source: Table, options: Options, *, timed: bool, counted: bool, ends: bool
) -> list[Issue]:
    """What a table of links has no column of, all at once, with the ways out and the option of
    each."""
    chosen, words = options.columns, options.words
    said: list[Issue] = []
    if ends and (head := chosen.get("head", "head")) not in source.columns:
        said.append(
            Issue(
                f"no column {head}; say {words.columns('head')}, where a link ends", about="columns"
            )
        )
    if not timed and chosen.get("free_flow_time") is not None:
        said.append(Issue(f"no column {chosen['free_flow_time']}", about="columns"))
    elif not timed:
        there = [one for one in LENGTH if chosen.get(one, one) in source.columns]
        says = (
            f"no column free_flow_time; say {words.columns('free_flow_time')}, or "
            f"{words.columns('length', 'speed')} with {words.option('units', 'km,kph')}, from "
            "which it follows, in minutes"
        )
        if there == ["length"]:
            one = words.option("speed", "N")
            says = f"{says}; or {one}, of all links, beside the lengths that are there"
        said.append(Issue(says, about="columns"))
    measured = chosen.get("free_flow_time", "free_flow_time") not in source.columns
    if timed and measured and options.units is None:
        such = words.option("units", "km,kph")
        said.append(Issue(f"units of length and speed are needed: say {such}", about="units"))
    if not counted and chosen.get("capacity") is not None:
        said.append(Issue(f"no column {chosen['capacity']}", about="columns"))
    elif not counted and options.lane_capacity is None:
        lane = words.option("lane_capacity", "N")
        says = f"no column capacity; say {words.columns('capacity')}, or {lane}, which is "
        said.append(Issue(f"{says}multiplied by a column `lanes` if there is one", about="columns"))
    return said


def _check_cells(table: Table) -> None:
    """TableError of all columns of links in which something wrong stands."""

    def check(column: str) -> None:
        if column in NODES:
            table.names(column)
        elif column == "directed":
            table.truths(column)
        elif column != "name":
            found = table.numbers(column, may_lack=column in (*OWN, "toll"))
            if column in ABOVE:
                table.refuse(~(found > 0), column, f"a {ABOVE[column]} above 0 is needed", found)
            table.refuse(found < 0, column, "a number of 0 or more is needed", found)

    all_at_once([partial(check, column) for column in table.columns])


def _with_costs(table: Table, options: Options) -> Table:
    """The toll and the length of each link in its fixed cost, by the weights that are given."""
    cost = np.array(toll_costs(table, options)) + distance_costs(table, options)
    if "fixed_cost" in table.columns:
        fixed = table.numbers("fixed_cost", may_lack=True)
        cost = np.where(np.isnan(fixed), cost, fixed + cost)
    cost[cost == 0] = np.nan  # none of its own
    return replace(table, columns={**table.columns, "fixed_cost": cost})


def street_names(table: Table) -> list[str | None]:
    """What each link is called; None of those that have no name."""
    found: list[str | None] = [None] * table.rows
    if "name" in table.columns:
        there = np.flatnonzero(~missing(table.columns["name"]))
        for row, name in zip(
            there.tolist(), table.ordered(there).names("name").tolist(), strict=True
        ):
            found[row] = name
    return found


def link_figures(table: Table) -> list[Json]:
    """What each link costs; a value of b, power or fixed_cost that is missing is none of its
    own."""
    names = [one for one in (*LINK[2:], *OWN) if one in table.columns]
    columns = [table.numbers(one, may_lack=one in OWN).tolist() for one in names]
    return [
        {name: value for name, value in zip(names, values, strict=True) if not math.isnan(value)}
        for values in zip(*columns, strict=True)
    ]
