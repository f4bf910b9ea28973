"""Roads that are closed by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discreet.cli import jobs
from discreet.errors import InvalidInput
from discreet.problems.routing.closures import LEFT_OUT
from discreet_client.closing import UnknownLink, names_of, streets_of, without

WAYS = [
    (1, 2, "High St"),
    (2, 1, "High St (back)"),
    (2, 3, "Mill (2 → 3)"),
    (3, 2, "Mill (3 → 2)"),
    (1, 3, "Bypass"),
]
LINKS = [{"tail": tail, "head": head, "free_flow_time": 1, "capacity": 9} for tail, head, _ in WAYS]
NETWORK: dict[str, Any] = {
    "nodes": 3,
    "links": LINKS,
    "node_names": ["Inn", "Mill", "Pond"],
    "nodes_xy": [[0, 0], [1, 0], [1, 1]],
    "link_names": [name for *_, name in WAYS],
    "link_shapes": [[[place, 0]] for place in range(5)],
}


@pytest.mark.parametrize(
    ("names", "kept", "open_ways"),
    [
        (["High St"], [2, 3, 4], []),
        (["High St (back)"], [0, 2, 3, 4], ["High St"]),
        (["Inn->Mill"], [1, 2, 3, 4], ["High St (back)"]),
        (["high-st."], [2, 3, 4], []),
        (["HighSt"], [2, 3, 4], []),
        (["bypass"], [0, 1, 2, 3], []),
        (["Inn->Pond"], [0, 1, 2, 3], []),
        ([" Pond → Mill "], [0, 1, 2, 4], ["Mill (2 → 3)"]),
        (["High St*"], [2, 3, 4], []),
        (["Mill"], [0, 1, 4], []),
        (["mill."], [0, 1, 4], []),
        (["high*", "Mill (2 → 3)"], [3, 4], ["Mill (3 → 2)"]),
    ],
)
def test_links_are_closed_by_name_or_by_their_ends(
    names: list[str], kept: list[int], open_ways: list[str]
) -> None:
    found = without(NETWORK, names)
    assert found.kept == kept
    assert found.names == [
        name for place, name in enumerate(names_of(NETWORK)) if place not in kept
    ]
    assert found.network == {
        **NETWORK,
        **{
            field: [NETWORK[field][place] for place in kept]
            for field in ("links", "link_names", "link_shapes")
        },
    }
    assert found.open_ways == open_ways


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "Mil",
            '"Mill (2 → 3)" (Mill → Pond), "Mill (3 → 2)" (Pond → Mill); "Mil*" stands for all '
            "that begin like this",
        ),
        ("Low St", "no link is called 'Low St'; links are: \"High St\" (Inn → Mill), "),
        ("igh", "no link is called 'igh', but 2 similarly: \"High St\""),
        ("*", "no link is called '*'; links are: "),
        ("", "no link is called ''; links are: "),
        ("...", "no link is called '...'; links are: "),
        ("1", "no link is called '1'; links are: "),
    ],
)
def test_names_of_no_link_or_of_several_are_refused_with_the_candidates(
    name: str, says: str
) -> None:
    with pytest.raises(UnknownLink) as refused:
        without(NETWORK, [name])
    assert says in str(refused.value).replace("(1 → 2)", "")
    assert len(str(refused.value)) < 500


def test_of_a_network_without_names_links_are_called_by_their_ends() -> None:
    bare = {"nodes": 3, "links": [*LINKS, LINKS[0]]}
    assert names_of(bare)[:2] == ["1 → 2", "2 → 1"]
    assert without(bare, ["2->1"]).kept == [0, 2, 3, 4, 5]
    with pytest.raises(UnknownLink, match="2 links are called '1->2'"):
        without(bare, ["1->2"])
    with pytest.raises(UnknownLink, match="no link would be left"):
        without({"nodes": 3, "links": LINKS[:1]}, ["1->2"])


def test_closed_links_are_named_by_their_positions_and_the_network_stays() -> None:
    problem = {"kind": "routing", "network": NETWORK, "select_links": [0, 4, 2]}
    asked, told = jobs.closed(problem, ["High St (back)"])
    assert asked == {**problem, "closed_links": [1]}
    assert jobs.closed(asked, ["Bypass"])[0]["closed_links"] == sorted(
        {1, names_of(NETWORK).index("Bypass")}
    )
    assert told.startswith(
        "closed: High St (back); the opposite direction stays open: High St; --close that too"
    )
    assert (
        jobs.closed({**problem, "select_links": [4]}, ["High St"])[1]
        == "closed: High St, High St (back)"
    )
    with pytest.raises(InvalidInput, match="--close is for problems on a network"):
        jobs.closed({"kind": "dr_ensemble"}, ["Bypass"])


def test_no_file_of_a_question_has_numbers_that_no_request_carries(tmp_path: Path) -> None:
    texts = {"a.json": '{"problem": {"b": NaN}}', "b.json": '{"problem": {"b": [1, 1e999]}}'}
    for name, text in {**texts, "c.toml": "[problem]\nb = inf\n"}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidInput, match="finite number") as told:
            jobs.fields_of(f"@{tmp_path / name}")
        assert told.value.issues[0].pointer.startswith("/problem/b")


def test_one_figure_of_a_field_has_another_value() -> None:
    """With another type all of them begin anew: the figures of one are none of the other's."""
    problem = {"latency": {"type": "bpr", "b": 0.2, "power": 4}, "objective": "system_optimum"}
    changed = jobs.changed
    assert changed(problem, [("latency.b", 0.3)])["latency"] == {
        "type": "bpr",
        "b": 0.3,
        "power": 4,
    }
    assert changed(problem, [("latency.type", "affine")])["latency"] == {"type": "affine"}
    assert changed(problem, [("latency.type", "bpr")]) == problem
    both = [("latency.type", "affine"), ("latency.factor", 2)]
    assert changed(problem, both)["latency"] == {"type": "affine", "factor": 2}
    assert problem["latency"] == {"type": "bpr", "b": 0.2, "power": 4}
    assert changed({}, [("a.b.c", 1)]) == {"a": {"b": {"c": 1}}}
    with pytest.raises(InvalidInput, match=r"--set objective\.b: .* not an object, so it has no b"):
        changed(problem, [("objective.b", 1)])


def test_streets_are_found_as_people_write_them() -> None:
    named = {
        **NETWORK,
        "link_names": ["Haupt Str.", "Haupt Str. (back)", "Am Bach", "Ring-Straße", "Ring 2"],
    }
    for name, kept in (
        ("Hauptstr", [2, 3, 4]),
        ("hauptstraße", [2, 3, 4]),
        ("ringstr.", [0, 1, 2, 4]),
    ):
        assert without(named, [name]).kept == kept, name
    with pytest.raises(UnknownLink, match="2 similarly"):
        without(named, ["ring "])
    twice = {**NETWORK, "link_names": ["A B", "C", "AB", "D", "E"]}
    with pytest.raises(UnknownLink, match="2 similarly"):
        without(twice, ["a-b"])


def test_a_street_of_several_links_is_closed_by_its_name_and_no_other_that_begins_so() -> None:
    """As a town has them: `Bahnhofstr.` is all of the Bahnhofstraße, and not the Bahnhofstraße-Ost,
    one link."""
    names = [
        "Bahnhofstraße (A → B)",
        "Bahnhofstraße (B → A)",
        "Bahnhofstraße (B → C)",
        "Bahnhofstraße-Ost",
        "Ring",
    ]
    network = {**NETWORK, "link_names": names}
    for called in ("Bahnhofstraße", "bahnhofstr.", "Bahnhof-Straße"):
        assert without(network, [called]).kept == [3, 4]
    assert streets_of(network) == ["Bahnhofstraße"]
    assert LEFT_OUT.choices({"network": network})["closed_links"][0] == (
        "Bahnhofstraße",
        "Bahnhofstraße",
    )
    assert LEFT_OUT.positions({"network": network}, "closed_links", ["Bahnhofstraße", 4]) == [
        0,
        1,
        2,
        4,
    ]
    two = {
        **NETWORK,
        "link_names": [
            "Am See (A → B)",
            "Am See (B → A)",
            "Amsee (B → C)",
            "Amsee (C → B)",
            "Ring",
        ],
    }
    with pytest.raises(UnknownLink, match="but 4 similarly"):
        without(two, ["am-see"])
    assert without(two, ["amsee"]).kept == [0, 1, 4]


def test_a_slip_in_the_name_of_a_street_is_answered_with_the_name() -> None:
    """Of a town whose streets are many links each: its streets are offered, not the first links."""
    ends = [(node, node + 1) for node in range(1, 9)]
    names = [
        f"{'Ringstraße' if node % 2 else 'Schloßallee'} ({node} → {node + 1})" for node, _ in ends
    ]
    links = [{"tail": tail, "head": head} for tail, head in ends] + [
        {"tail": head, "head": tail} for tail, head in ends
    ]
    names += [
        f"{name.partition(' (')[0]} ({head} → {tail})"
        for name, (tail, head) in zip(names, ends, strict=True)
    ]
    town = {"nodes": 9, "links": links, "link_names": names}
    for name, says in (
        ("Ringstrase", "no link is called 'Ringstrase'; did you mean \"Ringstraße\"?"),
        ("Schlosallee", 'did you mean "Schloßallee"?'),
        ("Broadway", 'streets are: "Ringstraße", "Schloßallee"; a single link is called by its'),
    ):
        with pytest.raises(UnknownLink) as refused:
            without(town, [name])
        assert says in str(refused.value)
