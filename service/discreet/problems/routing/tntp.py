"""The TNTP text format of traffic assignment as bodies of POST /v1/jobs; `discreet_client.tntp`
reads it.

Conditions of a valid problem (zones that paths join, limits of counts) are checked where every
other body is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from discreet.errors import InvalidInput
from discreet_client import tntp
from discreet_client.tables import TableError
from discreet_client.tntp import TripsRow
from discreet_client.trips import MOST_PARTS, NEARLY_WHOLE, in_parts, no_parts, scale_of

MOST_COMMON_B = 1e6
"""The largest values of a problem's latency; a link's own may be larger."""

Given = ParamSpec("Given")
Read = TypeVar("Read")


def told(read: Callable[Given, Read]) -> Callable[Given, Read]:
    """The reader, with its errors as InvalidInput with the same sentence."""

    @wraps(read)
    def reading(*given: Given.args, **named: Given.kwargs) -> Read:
        try:
            return read(*given, **named)
        except TableError as error:
            raise InvalidInput(str(error)) from None

    return reading


read_network = told(tntp.read_network)
read_trips = told(tntp.read_trips)


@told
def read_nodes(text: str) -> list[tuple[float, float]]:
    """The coordinates (x, y) of the nodes of the node file `text`, by number."""
    found = tntp.read_places(text)
    return [found[node] for node in sorted(found)]


@told
def convert(
    net_text: str,
    trips_text: str,
    *,
    node_text: str | None = None,
    epsilon: str = "0.1",
    cap: tuple[str, str] = ("1", "0"),
    round_trips: bool = False,
    trip_scale: int = 1,
    toll_weight: float | None = None,
    distance_weight: float | None = None,
    name: str = "trips",
) -> dict[str, Any]:
    """A body of POST /v1/jobs: the trips as one period of an hour of a private dataset, the
    network, BPR latency.

    `epsilon` is the job's, `cap` the dataset's (epsilon, delta), decimals as text. Trips must be
    integers or multiples of 1/`trip_scale`; with `round_trips` they are rounded to these, half up.
    Pairs without trips are left out. `node_text` is only checked against the network: a body has no
    place for coordinates, and `read_nodes` gives them. The weights are those of
    `NetworkFile.fixed_costs`. The latency has the b and power of most links, and other links have
    their own. InvalidInput names file and line of anything that cannot be read.
    """
    network = read_network(net_text)
    trips = read_trips(trips_text, network.numbers)
    if network.zones != trips.zones:
        raise InvalidInput(
            f"the network file has {network.zones} zones, the trips file {trips.zones}"
        )
    if not network.links:
        raise InvalidInput("network file: no links")
    if node_text is not None and (placed := len(read_nodes(node_text))) != network.nodes:
        raise InvalidInput(f"the network file has {network.nodes} nodes, the node file {placed}")
    fixed_costs = network.fixed_costs(toll_weight, distance_weight)
    counts = _counts(trips.rows, scale_of({"trip_scale": trip_scale}), round_trips=round_trips)
    usual = Counter(
        (link.b, link.power)
        for link in network.links
        if link.power >= 1 and link.b <= MOST_COMMON_B
    )
    b, power = usual.most_common(1)[0][0] if usual else (0.15, 4)
    parts = {} if trip_scale == 1 else {"trip_scale": trip_scale}
    return {
        "problem": {
            "kind": "routing",
            "dataset": {
                "name": name,
                "kind": "routing",
                "public": {
                    "unit": "request",
                    "zones": trips.zones,
                    "periods": 1,
                    "period_minutes": 60,
                    **parts,
                },
                "content": {
                    "trips": [
                        {
                            "period": 0,
                            "origin": row.origin,
                            "destination": row.destination,
                            "count": count,
                        }
                        for row, count in zip(trips.rows, counts, strict=True)
                        if count
                    ]
                },
                "cap": {
                    "epsilon": _decimal(cap[0], "cap epsilon"),
                    "delta": _decimal(cap[1], "cap delta"),
                },
                "mode": "private",
            },
            "network": {
                "nodes": network.nodes,
                "first_through_node": network.first_through_node,
                "links": [
                    {
                        "tail": link.tail,
                        "head": link.head,
                        "free_flow_time": link.free_flow_time,
                        "capacity": link.capacity,
                        **(
                            {"b": link.b, "power": link.power}
                            if (link.b, link.power) != (b, power)
                            else {}
                        ),
                        **({"fixed_cost": fixed_cost} if fixed_cost else {}),
                    }
                    for link, fixed_cost in zip(network.links, fixed_costs, strict=True)
                ],
            },
            "latency": {"type": "bpr", "b": b, "power": power},
            "objective": "system_optimum",
        },
        "privacy": {"epsilon": _decimal(epsilon, "epsilon"), "delta": 0},
    }


def _counts(rows: Sequence[TripsRow], scale: int, *, round_trips: bool) -> list[int] | list[float]:
    """The trips of each row, as integer multiples of the unit."""
    trips = np.array([row.trips for row in rows], dtype=np.float64)
    if large := next((row for row in rows if row.trips > MOST_PARTS / scale), None):
        raise InvalidInput(f"trips file, line {large.line}: there are too many trips")
    parts = in_parts(trips, scale)
    kept = parts if scale == 1 else parts / scale
    apart = np.flatnonzero(np.abs(kept - trips) * scale > NEARLY_WHOLE)
    if apart.size and not round_trips:
        row = rows[int(apart[0])]
        raise InvalidInput(
            f"trips file, line {row.line}: {row.trips:g} trips from {row.origin} to "
            f"{row.destination}: a number of trips {no_parts(scale)}; round_trips rounds"
        )
    found: list[int] | list[float] = kept.tolist()
    return found


def _decimal(text: str, what: str) -> int | float:
    """The number whose JSON text has the value of `text`."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"{what}: {text!r} is not a decimal number") from None
    # The exponent is checked first: 1e999999999 must not become an integer of a billion digits.
    if exact.is_finite() and abs(exact.adjusted()) <= 30:
        number = int(exact) if exact == exact.to_integral_value() else float(exact)
        if Decimal(repr(number)) == exact:
            return number
    raise InvalidInput(f"{what}: {text!r} is not a finite number of at most 15 digits")
