"""Units of lengths and speeds, weights of tolls and lengths, capacities of lanes and of periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discreet_client.networks.roads import Json, Made, Options
from discreet_client.option_words import Words
from discreet_client.reading import is_figure
from discreet_client.tables import Floats, Table, TableError

KILOMETRES = {
    **dict.fromkeys(("km", "kilometers", "kilometres"), 1.0),
    **dict.fromkeys(("m", "meters", "metres"), 0.001),
    **dict.fromkeys(("mi", "miles"), 1.609344),
    **dict.fromkeys(("ft", "feet"), 0.0003048),
}
SPEEDS = {
    **dict.fromkeys(("kph", "km/h", "kmh"), 1.0),
    "mph": 1.609344,
    **dict.fromkeys(("mps", "m/s"), 3.6),
}
LONGEST_LINK, LONG_LINK, SHORT_LINK = 300.0, 30.0, 0.001
"""Kilometres: no road has a link beyond the first; half of a network's are below the second, and
above the third."""
FASTEST, SLOW = 250.0, 2.0
"""Kilometres an hour: no car is faster than the first; half of a network's links are faster than
the second."""
MOST_MINUTES = 1e6
"""Of a period."""
MEASURED = "free_flow_time is length / speed, in minutes"


def units_of(options: Options, config: Table | None) -> tuple[float, float]:
    """Kilometres of a unit of length, kilometres an hour of a unit of speed."""
    if options.units is not None:
        words = [word.strip().lower() for word in options.units.split(",")]
    elif config is not None and {"long_length", "speed"} <= config.columns.keys():
        words = [str(config.columns[one][0]).strip().lower() for one in ("long_length", "speed")]
    else:
        words = []
    if len(words) != 2 or words[0] not in KILOMETRES or words[1] not in SPEEDS:
        found = f", not {', '.join(words)}" if words else ""
        known = f"lengths are in {', '.join(KILOMETRES)}; speeds in {', '.join(SPEEDS)}"
        raise TableError(
            f"units of length and speed are needed{found}: say "
            f"{options.words.option('units', 'km,kph')}, or a config.csv; {known}",
            "units",
        )
    return KILOMETRES[words[0]], SPEEDS[words[1]]


def toll_costs(table: Table, options: Options) -> list[float]:
    if "toll" not in table.columns:
        return [0.0] * table.rows
    tolls = table.numbers("toll", may_lack=True)
    tolls[np.isnan(tolls)] = 0.0  # the file says none
    if options.toll_weight is None:
        says = (
            f"a toll whose weight nobody says: give {options.words.option('toll_weight')}, "
            "how much time a unit of it is worth; 0 leaves tolls out"
        )
        table.refuse(tolls != 0, "toll", says, about="toll_weight")
    return [(options.toll_weight or 0.0) * toll for toll in tolls.tolist()]


def distance_costs(table: Table, options: Options) -> Floats:
    """What the length of each link costs by its weight."""
    weight = options.distance_weight
    if weight is None:
        return np.zeros(table.rows)
    if not (is_figure(weight) and weight >= 0):
        raise TableError(
            f"{options.words.name('distance_weight')} is a number of at least 0, not "
            f"{str(weight)[:40]}",
            "distance_weight",
        )
    costs: Floats = weight * table.numbers("length")
    return costs


def weight_notes(options: Options) -> list[str]:
    if options.distance_weight is None:
        return []
    unit = "the file's length" if options.units is None else options.units.split(",")[0].strip()
    return [f"a link costs {options.distance_weight:g} of time for each unit of {unit} beside it"]


def capacities_of_lanes(table: Table, capacity: float) -> tuple[Table, str]:
    """The capacity of each link by its lanes, which is an assumption and said to be one."""
    lanes = table.numbers("lanes") if "lanes" in table.columns else np.ones(table.rows)
    told = "its lanes" if "lanes" in table.columns else "one lane"
    says = f"the capacity of a link is taken to be {capacity:g} for each of {told}"
    return replace(table, columns={**table.columns, "capacity": lanes * capacity}), says


def doubts_about(table: Table, lengths: Floats, speeds: Floats, words: Words) -> list[str]:
    """What cannot be meant of links so long, in km, and so fast, in km/h: metres taken for
    kilometres most of all."""
    found = []
    longest, fastest = int(np.argmax(lengths)), int(np.argmax(speeds))
    middle, usual = float(np.median(lengths)), float(np.median(speeds))
    where = f"the link of {table.unit} {table.places[longest]} is {lengths[longest]:,.0f} km long"
    takes = f"and takes {lengths[longest] / speeds[longest] * 60:,.0f} minutes"
    if lengths[longest] > LONGEST_LINK or middle > LONG_LINK:
        says = f"{where} {takes}, half of all links are longer than {middle:.3g} km"
        found.append(f"{says}: are lengths in metres? Then say {words.option('units', 'm,kph')}")
    elif middle < SHORT_LINK:
        says = f"half of all links are shorter than {middle * 1000:.2g} m"
        found.append(f"{says}: are lengths in another unit than {words.name('units')} says?")
    if speeds[fastest] > FASTEST:
        where = (
            f"on the link of {table.unit} {table.places[fastest]} cars drive "
            f"{speeds[fastest]:,.0f} km/h"
        )
        found.append(f"{where}: are speeds in another unit than {words.name('units')} says?")
    elif usual < SLOW:
        says = f"on half of all links cars drive less than {usual:.2g} km/h"
        found.append(f"{says}: are speeds in another unit than {words.name('units')} says?")
    return found


def in_a_period(made: Made, gmns: bool, minutes: float | None, words: Words) -> Made:
    """With capacities of a period of so many minutes, where the file's are of an hour."""
    network, notes = made.network, made.notes
    if minutes is None and not gmns:
        says = (
            "capacities are taken as vehicles per period, as they stand in the file; if they are "
            f"per hour, give {words.option('period_minutes')}"
        )
        return made._replace(notes=[*notes, says])
    minutes = 60.0 if minutes is None else minutes
    if not (isinstance(minutes, int | float) and 0 < minutes <= MOST_MINUTES):
        raise TableError(
            f"{words.name('period_minutes')} is a number of minutes above 0, not "
            f"{str(minutes)[:40]}",
            "period_minutes",
        )
    links = [{**link, "capacity": link["capacity"] * minutes / 60} for link in network["links"]]
    says = f"capacities, per hour in the file, were converted to periods of {minutes:g} minutes"
    return made._replace(
        network={**network, "links": links, "period_minutes": minutes}, notes=[*notes, says]
    )


def said_in_minutes(network: Json, notes: Sequence[str]) -> Json:
    """The network, which says so where its times follow from lengths and speeds."""
    return {**network, "time_unit": "minutes"} if MEASURED in notes else network
