"""The Merkle tree of the log against its definition, and its proofs against everything near
them."""

from __future__ import annotations

import random

import pytest

from discreet.ledger.tree import (
    EMPTY,
    ENTRIES,
    Tile,
    Tree,
    Unproven,
    check_consistency,
    check_inclusion,
    leaf_hash,
    node_hash,
    nodes_of,
    read_tile_path,
    tile_path,
    tiles_of,
    width,
)

# The reference tree of certificate-transparency (google/certificate-transparency, merkletree
# tests): leaves, and roots.
REFERENCE = [
    bytes.fromhex(one) for one in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")
]
REFERENCE.append(bytes(range(0x60, 0x70)))
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
SIZES = (1, 2, 3, 5, 7, 8, 9, 255, 256, 257, 300, 511, 512, 513, 700, 65_539)


def root_of(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, as it is written there."""
    if not leaves:
        return EMPTY
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    middle = 1
    while 2 * middle < len(leaves):
        middle *= 2
    return node_hash(root_of(leaves[:middle]), root_of(leaves[middle:]))


def all_tiles(leaves: list[bytes]) -> dict[Tile, list[bytes]]:
    found, level = {}, 0
    hashes = [leaf_hash(one) for one in leaves]
    while hashes:
        found |= {(level, at // 256): hashes[at : at + 256] for at in range(0, len(hashes), 256)}
        above = []
        for at in range(0, len(hashes) - 255, 256):
            whole = hashes[at : at + 256]
            while len(whole) > 1:
                whole = [node_hash(*whole[one : one + 2]) for one in range(0, len(whole), 2)]
            above += whole
        hashes, level = above, level + 1
    return found


def test_roots_are_those_of_certificate_transparency() -> None:
    for size in range(1, 9):
        leaves = REFERENCE[:size]
        assert Tree(size, all_tiles(leaves)).root().hex() == ROOTS[size - 1]


@pytest.mark.parametrize("size", SIZES)
def test_proofs_hold_for_what_is_there_and_for_nothing_else(size: int) -> None:
    draw = random.Random(size)
    leaves = [draw.randbytes(8) for _ in range(size)]
    whole, root = all_tiles(leaves), root_of(leaves)
    for number in draw.sample(range(size), min(size, 12)):
        tree = Tree(size, {one: whole[one][: width(one, size)] for one in tiles_of(size, [number])})
        assert tree.root() == root
        path, leaf = tree.inclusion([number]), leaf_hash(leaves[number])
        check_inclusion({number: leaf}, size, path, root)
        others = [
            ({number - 1: leaf}, size, path),
            ({number + 1: leaf}, size, path),
            ({number: bytes(32)}, size, path),
            ({number: leaf}, size, [*path, root]),
        ]
        others += (
            [({number: leaf}, size, path[:-1]), ({number: leaf}, size, [root, *path[1:]])]
            if path
            else []
        )
        for other in others:
            with pytest.raises(Unproven):
                check_inclusion(*other, root)

        old = number + 1
        tree = Tree(size, {one: whole[one] for one in tiles_of(size, [old - 1, old])})
        path, before = tree.consistency(old), root_of(leaves[:old])
        assert tree.root(old) == before
        check_consistency(old, size, before, root, path)
        changed = root_of([*leaves[: old - 1], b"another"])
        lies = [
            (old, size, changed, root, path),
            (old, size, before, changed, path),
            (size, old, root, before, path),
        ]
        lies += [(old, size, before, root, [*path, root])]
        lies += (
            [(old, size, before, root, path[:-1]), (old, size, before, root, [root, *path[1:]])]
            if path
            else []
        )
        for lie in lies if old < size else lies[:2]:
            with pytest.raises(Unproven):
                check_consistency(*lie)


def path_of(leaves: list[bytes], number: int) -> list[bytes]:
    """RFC 9162, section 2.1.3.1, as it is written there."""
    if len(leaves) == 1:
        return []
    middle = 1
    while 2 * middle < len(leaves):
        middle *= 2
    if number < middle:
        return [*path_of(leaves[:middle], number), root_of(leaves[middle:])]
    return [*path_of(leaves[middle:], number - middle), root_of(leaves[:middle])]


def test_a_proof_of_all_sets_of_leaves_of_small_trees() -> None:
    """One proof for each set: that of one leaf is the RFC's path; none holds for another set, for
    other hashes, another size, or with nodes that are missing, too many or in another order."""
    for size in range(1, 9):
        hashes = [bytes([one]) for one in range(size)]
        tree, root = Tree(size, all_tiles(hashes)), root_of(hashes)
        for chosen in range(1, 1 << size):
            numbers = [one for one in range(size) if chosen >> one & 1]
            leaves = {one: leaf_hash(hashes[one]) for one in reversed(numbers)}
            nodes = tree.inclusion(reversed(numbers))
            check_inclusion(leaves, size, nodes, root)
            if len(numbers) == 1:
                assert nodes == path_of(hashes, *numbers)
            assert len(nodes) <= sum(len(path_of(hashes, one)) for one in numbers)
            lies = [(leaves, size, [*nodes, root]), (leaves, size, [root, *nodes])]
            lies += [(leaves, size, nodes[:at] + nodes[at + 1 :]) for at in range(len(nodes))]
            lies += [(leaves, size, [*nodes[:at], root, *nodes[at:]]) for at in range(len(nodes))]
            lies += [
                (leaves, size, [*nodes[:at], *nodes[at : at + 2][::-1], *nodes[at + 2 :]])
                for at in range(len(nodes) - 1)
            ]
            lies += [({**leaves, one: bytes(32)}, size, nodes) for one in range(size)]
            for one in numbers:
                fewer = {place: leaf for place, leaf in leaves.items() if place != one}
                lies.append((fewer, size, nodes))
                lies += [({**fewer, other: leaves[one]}, size, nodes) for other in (-1, size)]
                lies += [
                    ({**fewer, other: leaves[one]}, size, nodes)
                    for other in range(size)
                    if other not in leaves
                ]
            for at in range(len(numbers) - 1):
                first, second = numbers[at], numbers[at + 1]
                other = {**leaves, first: leaves[second], second: leaves[first]}
                lies.append((other, size, nodes))
            for lie in lies:
                with pytest.raises(Unproven):
                    check_inclusion(*lie, root)
            for other_size in range(max(numbers) + 1, 10):
                try:
                    check_inclusion(leaves, other_size, nodes, root)
                except Unproven:
                    continue
                # Where the nodes that a set calls for are as many and at the same places.
                assert list(nodes_of(other_size, numbers)) == list(nodes_of(size, numbers))


def test_a_leaf_is_no_node() -> None:
    """An entry that is written as two hashes is not taken for the node over them."""
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    root = node_hash(left, right)
    with pytest.raises(Unproven):
        check_inclusion({0: leaf_hash(left + right)}, 1, [], root)


def test_a_tree_begins_with_nothing() -> None:
    assert Tree(0, {}).root() == EMPTY
    check_consistency(0, 5, EMPTY, bytes(32), [])
    with pytest.raises(Unproven):
        check_consistency(0, 5, bytes(32), bytes(32), [])


def test_a_tile_that_is_cut_off_gives_no_root() -> None:
    with pytest.raises(Unproven):
        Tree(300, {(0, 1): [bytes(32)] * 43, (1, 0): [bytes(32)]}).root()


def test_paths_of_tiles_are_those_of_c2sp() -> None:
    assert tile_path((0, 1_234_067)) == "0/x001/x234/067"
    assert tile_path((63, 0), 112) == "63/000.p/112"
    assert tile_path((ENTRIES, 1000), 1) == "entries/x001/000.p/1"
    for number in (0, 7, 999, 1000, 999_999, 1_000_000, 123_456_789):
        for count in (1, 255, 256):
            assert read_tile_path(tile_path((2, number), count)) == (2, number, count)
    strange = [
        "",
        "0",
        "0/1",
        "0/0001",
        "00/001",
        "-1/000",
        "0/x000/000",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/01",
    ]
    strange += ["0/000/", "entries/x1/000", "0/../000", "0/٠٠٠", "0/000\n", "99999999999/000"]
    strange += ["0/" + "x001/" * 9 + "000"]
    assert [read_tile_path(one) for one in strange] == [None] * len(strange)
