"""A folder of public networks, each at the user equilibrium of its public demand, compared with the
best-known link flows.

    for row in road_networks(folder):
        row.to_json()

Nothing is private here, no noise is added, and trips keep their fractions. The files are those of
the collection "Transportation Networks for Research": `NAME_net.tntp`, `NAME_trips.tntp` beside it,
and `NAME_flow.tntp` (From, To, Volume, Cost) if link flows are published. The weights of toll and
length are in the network file or, mostly, nowhere: then they are those that explain the published
costs at the published volumes.
"""

from __future__ import annotations

import re
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.errors import DiscreetError, InvalidInput
from discreet.problems.routing.dataset import read_network, read_trips
from discreet.solvers.errors import NoSolution
from discreet.solvers.traffic.determined import open_links
from discreet.solvers.traffic.path_flows import Floats
from discreet.solvers.traffic.traffic_assignment import (
    Assignment,
    Latency,
    Network,
    assign,
    unreachable_pairs,
)
from discreet_client.tntp import NetworkFile

GAP, MOST_ITERATIONS = 1e-10, 300
MOST_DISTANCES = 5_000_000
"""Of zones to nodes, up to which it is looked for links whose flow is not determined."""
EXPLAINED = 1e-4
"""Weights explain published costs if they leave at most this fraction of the largest."""
_NETWORK = re.compile(r"(.+)[_-]net\.(tntp|txt)", re.IGNORECASE)


@dataclass(frozen=True)
class Row:
    """A network: loaded, or refused with the reason. The differences are those from the published
    flows, of links whose flow the model determines: the largest relative to the largest flow, and
    their sum relative to the sum of flows; None if none are published. `objective_difference`: how
    far the objective is above that of the published flows, in parts of it. `undetermined`: how
    many flows the model leaves open, None if nobody looked; `left`: what the comparison leaves
    open, in words."""

    network: str
    status: str
    reason: str | None
    gap: float | None
    largest_difference: float | None
    total_difference: float | None
    objective_difference: float | None
    undetermined: int | None
    left: str | None
    seconds: float
    mib: float

    def to_json(self) -> dict[str, Any]:
        """Without fields that do not apply; `gap` is always present."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value is not None or name == "gap"
        }


def road_networks(folder: Path, threads: int = 1) -> Iterator[Row]:
    """A row for each network in the folder and its subfolders, by path; assigned with this many
    threads."""
    one = Network(2, 2, 0, np.array([0, 1]), np.array([1, 0]), np.ones(2), np.ones(2))
    start = Latency(np.ones(2), np.ones(2), np.zeros(2))
    # Kernels are loaded before anything is measured: an unreachable gap runs one step of all of
    # them.
    assign(one, start, np.ones((2, 2)), "user_equilibrium", gap=-1.0, max_iterations=1)
    for path in sorted(folder.rglob("*")):
        if (name := _NETWORK.fullmatch(path.name)) and path.is_file():
            yield _row(name[1], path, threads)


def _row(name: str, path: Path, threads: int) -> Row:
    _forget_peak()
    begun = time.perf_counter()
    reason, found = None, Compared(None)
    try:
        reason, found = _solved(name, path, threads)
    except InvalidInput as error:
        reason = error.issues[0].detail
    except (DiscreetError, OSError, ValueError) as error:
        reason = str(error)
    except MemoryError:
        reason = "there is not enough memory"
    status = "refused" if found.gap is None else "loaded"
    seconds, mib = round(time.perf_counter() - begun, 3), round(_peak_mib(), 1)
    return Row(name, status, reason, *found, seconds, mib)


class Compared(NamedTuple):
    """What was found of a network: the fields of its `Row`."""

    gap: float | None
    largest_difference: float | None = None
    total_difference: float | None = None
    objective_difference: float | None = None
    undetermined: int | None = None
    left: str | None = None


def _solved(name: str, path: Path, threads: int) -> tuple[str | None, Compared]:
    """The remark on it, and the comparison."""
    if "asym" in f"{path.parent.name} {name}".lower():
        raise InvalidInput(
            "its costs are asymmetric (a link's depends on other links' flows), which is not "
            "modelled"
        )
    file = read_network(_text(path))
    beside = _beside(path, name, "trips")
    if beside is None:
        raise InvalidInput(f"there is no trips file {name}_trips beside it")
    trips = read_trips(_text(beside), file.numbers)
    if trips.zones != file.zones:
        raise InvalidInput(f"the network file has {file.zones} zones, the trips file {trips.zones}")
    network, latency = _arrays(file)
    published = _beside(path, name, "flow")
    flows, said = (None, None) if published is None else _published(_text(published), file)
    weights: tuple[float, float] | None = None
    if flows is not None and file.toll_factor is None and file.distance_factor is None:
        weights = _weights(file, flows[1] - latency.times(network, flows[0]))
        if weights is None:
            said = (
                "the published costs are not those of the network file by any weights of toll "
                "and length"
            )
    fixed_cost = np.array(file.fixed_costs(*(weights or (None, None))))
    demand = np.zeros((file.zones, file.zones))
    for row in trips.rows:
        demand[row.origin - 1, row.destination - 1] = row.trips
    latency = Latency(latency.coefficient, latency.power, fixed_cost)
    try:
        found = assign(
            network,
            latency,
            demand,
            "user_equilibrium",
            gap=GAP,
            max_iterations=MOST_ITERATIONS,
            threads=threads,
        )
    except NoSolution as error:
        ends = next(
            (
                [file.numbers[zone] for zone in pair]
                for pair in unreachable_pairs(network)
                if demand[pair]
            ),
            None,
        )
        says = (
            str(error)
            if ends is None
            else f"trips, but no path, lead from zone {ends[0]} to zone {ends[1]}"
        )
        raise InvalidInput(says) from None
    if found.status != "converged":
        says = f"stopped after {found.iterations} iterations"
        said = says if said is None else f"{said}; {says}"
    return said, _compared(network, latency, demand, found, None if flows is None else flows[0])


def _compared(
    network: Network,
    latency: Latency,
    demand: Floats,
    found: Assignment,
    published: Floats | None,
) -> Compared:
    left_open = np.zeros(network.tail.size, dtype=np.bool_)
    looked = network.nodes * network.zones <= MOST_DISTANCES
    if looked:
        left_open = open_links(network, latency, "user_equilibrium", found, demand)
    count = int(left_open.sum()) if looked else None
    many = f"the flows of {count:,} of {left_open.size:,} links are not determined by the model"
    if published is None:
        return Compared(found.relative_gap, undetermined=count, left=many if count else None)
    apart, known = np.abs(found.link_flows - published), ~left_open
    tiny = np.finfo(float).tiny
    best = _objective(network, latency, published)
    left = None
    if count:
        far = float(apart[left_open].max())
        left = f"{many}: there the published ones differ by up to {far:,.4g}, and are as good"
    elif not looked:
        left = "whether the model determines all flows was not looked for, of so many distances"
    return Compared(
        found.relative_gap,
        float(apart[known].max(initial=0.0) / max(published.max(initial=0.0), tiny)),
        float(apart[known].sum() / max(published.sum(), tiny)),
        (_objective(network, latency, found.link_flows) - best) / max(best, tiny),
        count,
        left,
    )


def _objective(network: Network, latency: Latency, flow: Floats) -> float:
    """What a user equilibrium minimizes: the sum of the integrals of the link costs."""
    power = np.asarray(latency.power)
    raised = (flow / network.capacity) ** power
    time = network.free_flow_time * (1 + latency.coefficient * raised / (power + 1))
    return float(flow @ (time + latency.fixed_cost))


def _arrays(file: NetworkFile) -> tuple[Network, Latency]:
    """The network as the solver takes it, without tolls and lengths."""
    rows = file.links
    network = Network(
        nodes=file.nodes,
        zones=file.zones,
        first_through_node=file.first_through_node - 1,
        tail=np.array([row.tail - 1 for row in rows], dtype=np.int64),
        head=np.array([row.head - 1 for row in rows], dtype=np.int64),
        free_flow_time=np.array([row.free_flow_time for row in rows]),
        capacity=np.array([row.capacity for row in rows]),
    )
    return network, Latency(
        np.array([row.b for row in rows]), np.array([row.power for row in rows])
    )


def _weights(file: NetworkFile, rest: Floats) -> tuple[float, float] | None:
    """The least-squares weights of toll and length, if they fully explain the costs that times do
    not explain; otherwise None. They are rounded if that explains as much, since publishers choose
    round figures."""
    columns = np.array([(row.toll, row.length) for row in file.links], dtype=np.float64)
    sizes = np.maximum(np.abs(columns).max(axis=0, initial=0.0), np.finfo(float).tiny)
    found = np.linalg.lstsq(columns / sizes, rest, rcond=None)[0] / sizes
    found = np.round(
        np.where(np.abs(found) * sizes > EXPLAINED * np.abs(rest).max(initial=1e-9), found, 0.0), 6
    )
    enough = EXPLAINED * max(1.0, float(np.abs(rest).max(initial=0.0)))
    if (found < 0).any() or np.abs(rest - columns @ found).max(initial=0.0) > enough:
        return None
    return float(found[0]), float(found[1])


def _published(text: str, file: NetworkFile) -> tuple[tuple[Floats, Floats] | None, str | None]:
    """The flows and costs of the network's links, each float64[m], or why there are none."""
    given: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for line in text.splitlines():
        fields = line.partition("~")[0].replace(";", " ").replace(":", " ").split()
        try:
            figures = float(fields[2]), float(fields[3])
        except (IndexError, ValueError):
            continue
        given[fields[0], fields[1]].append(figures)
    rows = []
    for link in reversed(file.links):  # of parallel links each takes the last remaining one
        ends = str(file.numbers[link.tail - 1]), str(file.numbers[link.head - 1])
        if not given[ends]:
            return None, f"the flow file has no flow of the link from {ends[0]} to {ends[1]}"
        rows.append(given[ends].pop())
    flow, cost = np.array(rows[::-1]).reshape(-1, 2).T
    return (flow, cost), None


def _beside(path: Path, name: str, what: str) -> Path | None:
    """The file of this network of another kind, ignoring case; or the folder's only one of that
    kind."""
    files = [
        one for one in sorted(path.parent.iterdir()) if one.suffix.lower() in (".tntp", ".txt")
    ]
    same = [
        one
        for one in files
        if one.stem.lower().replace("-", "_") == f"{name}_{what}".lower().replace("-", "_")
    ]
    if same:
        return same[0]
    alone = sum(_NETWORK.fullmatch(one.name) is not None for one in files) == 1
    likely = [one for one in files if one.stem.lower().endswith(what)]
    return likely[0] if alone and len(likely) == 1 else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _forget_peak() -> None:
    """Reset the peak of memory if the kernel allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak_mib() -> float:
    """The peak memory of this process, since `_forget_peak` if that works."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
