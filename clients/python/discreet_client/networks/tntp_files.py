"""TNTP: `NAME_net.tntp` and `NAME_node.tntp`."""

from __future__ import annotations

from collections.abc import Sequence

from discreet_client import tntp
from discreet_client.networks.roads import AnyFile, Json, Made, Options
from discreet_client.tables import TableError


def read_tntp(paths: Sequence[AnyFile], options: Options) -> Made:
    if options.doubled != "refuse":
        raise TableError(
            "doubled says nothing of TNTP, whose links have numbers: all of them are kept"
        )
    options.refuse("TNTP", "columns", "units", "both_ways", "lane_capacity", "speed")
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in paths}
    nets = [path for path, text in texts.items() if "<NUMBER OF NODES>" in text.upper()]
    others = [path for path in paths if path not in nets]
    if len(nets) != 1 or len(others) > 1 or any(path.suffix.lower() != ".tntp" for path in others):
        raise TableError(
            "TNTP: one file of links (NAME_net.tntp), and one of nodes (NAME_node.tntp) or none"
        )
    file = tntp.read_network(texts[nets[0]])
    costs = file.fixed_costs(options.toll_weight, options.distance_weight)
    network: Json = {
        "nodes": file.nodes,
        "first_through_node": file.first_through_node,
        "links": [
            {
                "tail": link.tail,
                "head": link.head,
                "free_flow_time": link.free_flow_time,
                "capacity": link.capacity,
                "b": link.b,
                "power": link.power,
                **({"fixed_cost": cost} if cost else {}),
            }
            for link, cost in zip(file.links, costs, strict=True)
        ],
    }
    if not isinstance(file.numbers, range):
        network["node_names"] = [str(number) for number in file.numbers]
    if others:
        places = tntp.read_places(texts[others[0]])
        if lacking := [number for number in file.numbers if number not in places]:
            raise TableError(f"{others[0].name}: no coordinates of node {lacking[0]}")
        network["nodes_xy"] = [list(places[number]) for number in file.numbers]
    notes = [
        f"the first {file.zones} nodes are the zones; free_flow_time is in the file's own unit"
    ]
    return Made(network, notes, [], [], file.zones)
