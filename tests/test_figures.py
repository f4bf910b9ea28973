"""Pictures of networks: real files, looked at pixel by pixel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from discreet import cli
from discreet.errors import InvalidInput
from discreet.figures import geometry
from discreet.figures import network as figures
from discreet.solvers.traffic.traffic_assignment import Network
from tests import bodies

INCH = figures.DOTS_PER_INCH


def line(links: list[tuple[int, int]], nodes: int = 2, zones: int = 2) -> Network:
    tail, head = np.array(links).T
    return Network(nodes, zones, 0, tail, head, np.ones(len(links)), np.full(len(links), 100.0))


def ring(nodes: int) -> Network:
    return line([(node, (node + 1) % nodes) for node in range(nodes)], nodes, nodes)


def drawn(network: Network, flows: Any, path: Path, **options: Any) -> Any:
    """The map's pixels: float[rows, columns, 3]."""
    figures.draw_link_flows(network, flows, path, **options)
    return imread(path)[:, :, :3]


def column(picture: Any, inches: float) -> Any:
    """The pixels of one column of the map of two nodes at (0, 0) and (1, 0), from top to bottom."""
    return picture[:, round((figures.MARGIN + inches) * INCH)]


EAST_WEST = [(0, 1), (1, 0)]
FLAT = [(0.0, 0.0), (1.0, 0.0)]


def test_links_lie_on_the_right_of_their_direction_as_wide_as_their_flow(tmp_path: Path) -> None:
    strip = column(drawn(line(EAST_WEST), [50, 25], tmp_path / "a.png", coordinates=FLAT), 4)
    inked = np.flatnonzero((strip < 0.95).any(axis=1))
    middle = len(strip) / 2
    above, below = inked[inked < middle], inked[inked > middle]
    # From west to east, so right is south: the larger flow is below. Widths are proportional, to a
    # pixel at each edge.
    assert below.size == pytest.approx(0.8 * 0.2 * INCH, abs=2)
    assert above.size == pytest.approx(below.size / 2, abs=2)


def test_colour_tells_flow_over_capacity(tmp_path: Path) -> None:
    network = Network(2, 2, 0, *np.array(EAST_WEST).T, np.ones(2), np.array([100.0, 25.0]))
    strip = column(drawn(network, [50, 50], tmp_path / "a.png", coordinates=FLAT), 4)
    below, above = strip[len(strip) // 2 + 8], strip[len(strip) // 2 - 8]
    assert above == pytest.approx(figures.COLOURS(1.0)[:3], abs=0.01)  # 2.0, the most there is
    assert below == pytest.approx(figures.COLOURS(0.5 / 1.5)[:3], abs=0.02)


def test_a_network_that_is_nearly_empty_is_not_dark(tmp_path: Path) -> None:
    """The darkest colour is 150 % of capacity, not the fullest there is."""
    network = Network(2, 2, 0, *np.array(EAST_WEST).T, np.ones(2), np.array([100.0, 100.0]))
    strip = column(drawn(network, [15, 15], tmp_path / "a.png", coordinates=FLAT), 4)
    for row in (len(strip) // 2 + 8, len(strip) // 2 - 8):
        assert strip[row] == pytest.approx(figures.COLOURS(0.15 / 1.5)[:3], abs=0.02)


def test_parallel_links_lie_side_by_side(tmp_path: Path) -> None:
    one = column(drawn(line([(0, 1)]), [50], tmp_path / "1.png", coordinates=FLAT), 4)
    two = column(drawn(line([(0, 1), (0, 1)]), [50, 50], tmp_path / "2.png", coordinates=FLAT), 4)
    inked_one, inked_two = (int((strip < 0.95).any(axis=1).sum()) for strip in (one, two))
    assert inked_two == pytest.approx(2 * inked_one, abs=3)


def test_the_larger_coordinate_is_above_and_to_the_right(tmp_path: Path) -> None:
    """A link of full load in the corner that the coordinates say; equal aspect makes the map
    square."""
    corners = [(0, 0), (10, 0), (10, 10), (0, 10)]
    picture = drawn(ring(4), [0, 100, 0, 0], tmp_path / "a.png", coordinates=corners)
    red = (np.abs(picture - figures.COLOURS(1.0 / 1.5)[:3]) < 0.02).all(axis=2)
    rows, columns = np.nonzero(red[:, : round((8 + 2 * figures.MARGIN) * INCH)])
    assert abs(columns.mean() / INCH - figures.MARGIN - 8) < 0.2
    assert np.ptp(rows) / INCH == pytest.approx(8, abs=0.6)  # from node to node


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ".PNG"])
def test_formats(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    figures.draw_link_flows(ring(5), np.arange(5), path, title="Five nodes")
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[ending.lower()]
    assert path.read_bytes().startswith(start)


def test_zones_have_their_names(tmp_path: Path) -> None:
    """Also such as no circle holds, that are too long, or that matplotlib would read as
    mathematics."""
    path = tmp_path / "a.svg"
    for names in (["Inn", "$\\frac{$ --> Mill", "x" * 60], ["1", "22", "333"]):
        figures.draw_link_flows(ring(3), np.ones(3), path, names=names)
        text = path.read_text()
        assert [one for one in names if f"<!-- {one} -->" not in text] == (
            names[1:] if "Inn" in names else []
        )
    figures.draw_link_flows(
        ring(3), np.ones(3), path, names=["Inn", "$\\frac{$ --> Mill", "x" * 60]
    )
    assert f"<!-- {'x' * figures.LONGEST_NAME}… -->" in path.read_text()


def test_drawing_leaves_pyplot_alone(tmp_path: Path) -> None:
    figures.draw_link_flows(ring(3), np.ones(3), tmp_path / "a.png")
    pyplot = sys.modules.get("matplotlib.pyplot")  # another test may have imported it
    assert pyplot is None or pyplot.get_fignums() == []


def test_the_same_picture_of_the_same_network(tmp_path: Path) -> None:
    for name in ("1.png", "2.png"):
        figures.draw_link_flows(ring(12), np.arange(12), tmp_path / name)
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()


def test_a_layout_keeps_distances() -> None:
    """A ring becomes a circle, a path a straight line, and the leaves of a star do not coincide."""
    circle = geometry.layout(ring(16))
    radii = np.hypot(*circle.T)
    assert np.ptp(radii) < 0.02 * radii.mean()
    path = geometry.layout(line([(node, node + 1) for node in range(9)], 10, 10))
    assert np.abs(path[:, 1]).max() < 0.02 * np.abs(path[:, 0]).max()
    assert np.diff(path[:, 0]) == pytest.approx(np.full(9, path[1, 0] - path[0, 0]), rel=0.02)
    star = geometry.layout(line([(0, leaf) for leaf in range(1, 8)], 8, 8))[1:]
    apart = np.hypot(*(star[:, None] - star[None]).transpose(2, 0, 1)) + 9 * np.eye(7)
    assert apart.min() > 0.4


@pytest.mark.parametrize("nodes", [1, 2, 3, geometry.STRESS_NODES + 1])
def test_a_layout_of_every_size_and_of_parts_that_nothing_joins(nodes: int) -> None:
    links = [(node, node + 1) for node in range(nodes // 2)] or [(0, 0)]
    where = geometry.layout(line(links, nodes, nodes))
    assert where.shape == (nodes, 2)
    assert np.isfinite(where).all()
    assert len({tuple(place) for place in where.tolist()}) == nodes


def test_nothing_flows_and_all_nodes_at_one_place(tmp_path: Path) -> None:
    figures.draw_link_flows(
        line(EAST_WEST), [0, 0], tmp_path / "a.png", coordinates=[(1, 1), (1, 1)]
    )
    assert (tmp_path / "a.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("flows", "name", "coordinates", "why"),
    [
        ([1], "a.png", FLAT, "2 links need as many link flows"),
        ([1, -1], "a.png", FLAT, "finite and not negative"),
        ([1, float("nan")], "a.png", FLAT, "finite and not negative"),
        ([1, 1], "a.gif", FLAT, "a.gif: a picture is one of .png, .svg, .pdf"),
        ([1, 1], "a.png", [(0, 0)], "2 nodes need as many finite coordinates"),
        ([1, 1], "a.png", [(0, 0), (1, float("inf"))], "2 nodes need as many finite coordinates"),
    ],
)
def test_what_cannot_be_drawn(
    tmp_path: Path, flows: Any, name: str, coordinates: Any, why: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        figures.draw_link_flows(line(EAST_WEST), flows, tmp_path / name, coordinates=coordinates)
    assert why in refused.value.issues[0].detail
    assert not (tmp_path / name).exists()


def test_the_command_draws_a_result(tmp_path: Path) -> None:
    problem, result, out = tmp_path / "job.json", tmp_path / "result.json", tmp_path / "a.svg"
    problem.write_text(json.dumps(bodies.job("dst_x")))
    result.write_text(json.dumps({"result": {"link_flows": [10.0] * 12}}))
    assert cli.run(["draw", str(result), "--problem", str(problem), "--out", str(out)]) == 0
    assert out.read_text().count("<!-- 4 -->") == 1  # the label of node 4
