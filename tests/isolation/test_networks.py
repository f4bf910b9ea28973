"""Files of road networks in a child: nothing is loaded and nothing opened, whatever they hold."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from discreet.dashboard import network_forms
from discreet.isolation.network_files import ENCODINGS
from tests.clients.test_networks import CONFIG_CSV, CSV, GMNS, LINES
from tests.isolation.test_rehearsed import (
    Watch,
    Watching,
    reading,  # noqa: F401 - a fixture
    torn,
    watched_children,  # noqa: F401 - a fixture
)
from tests.problems.test_tntp import NETWORK, NODES

LIMIT = {"setting": "job_body_bytes", "unit": "bytes", "allowed": 1 << 20}
GEOJSON = json.dumps({"features": LINES})
OPTIONS: list[dict[str, Any]] = [
    {},
    {"units": "km,kph", "both_ways": True, "distance_weight": 2.0, "doubled": "sum"},
    {"columns": {"free_flow_time": "fft"}, "through_zones": False, "period_minutes": 30.0},
    {"lane_capacity": 9.0, "speed": 30.0, "time_unit": "hours", "toll_weight": 1.0},
    *({"encoding": encoding} for encoding in ENCODINGS),
]


def cases() -> Iterator[tuple[str, dict[str, bytes], dict[str, Any]]]:
    """Good files with all options, then torn and cut ones."""
    draw = random.Random(1)
    sets = [
        {"a_net.tntp": NETWORK, "a_node.tntp": NODES},
        {**GMNS, "config.csv": CONFIG_CSV},
        {"a.csv": CSV},
        {"a.csv": CSV.replace("tail,head", "Von-Knoten;Nach-Knoten")},
        {"a.geojson": GEOJSON},
    ]
    for number, texts in enumerate(sets):
        files = {name: text.encode() for name, text in texts.items()}
        for place, options in enumerate(OPTIONS):
            yield f"{number} with options {place}", files, options
        for place in range(8):
            bad = {name: torn(draw, content) for name, content in files.items()}
            yield f"{number} torn {place}", bad, OPTIONS[place % 4]
            cut = {name: one[: draw.randrange(len(one))] for name, one in files.items()}
            yield f"{number} cut {place}", cut, OPTIONS[place % 4]


def test_a_reader_of_networks_loads_and_opens_nothing(
    reading: Watching,  # noqa: F811 - the fixture
) -> None:
    async def work(watch: Watch) -> None:
        for name, files, options in cases():
            for chosen in (True, False):
                arguments = {
                    "files": [[one, len(content)] for one, content in files.items()],
                    "options": options,
                    **network_forms.WORDS,
                    "chosen": chosen,
                    "limit": LIMIT,
                }
                await watch.run(
                    f"{name}, {chosen}",
                    {"step": "read_network", "arguments": arguments},
                    b"".join(files.values()),
                )

    watch = reading(work)
    assert not watch.caught
    assert {*watch.ends.values()} == {"done"}, watch.ends
