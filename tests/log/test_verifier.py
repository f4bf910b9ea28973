"""The verifier of one file that knows nothing of discreet's code, against that code: random and
altered certificates, ledgers, logs and proofs, verdict for verdict."""

from __future__ import annotations

import ast
import base64
import copy
import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.log import sparse_tree
from discreet.cli.files import read_json
from discreet.errors import InvalidInput
from discreet.ledger import certificates, offline
from discreet.ledger.certificates import Check
from discreet.ledger.checkpoints import (
    BadNote,
    Verifier,
    cosign,
    hashes_text,
    joined,
    public_bytes,
    read_checkpoint,
    read_joined,
    sign_checkpoint,
)
from discreet.ledger.entries import GENESIS, Broken, entry_line, head_line, sign_head
from discreet.ledger.proofs import check_proofs, place_of
from discreet.ledger.tree import (
    Tree,
    commitment,
    leaf_hash,
    node_hash,
    nodes_of,
    tile_path,
    tiles_of,
    width,
)
from discreet.ledger.verification import verify
from discreet.privacy.events import EVENTS, to_json
from discreet.privacy.filters import Cap
from discreet.privacy.mechanisms import discrete_laplace, gaussian, laplace
from discreet_agent import canonical
from tests.ledgers import KEY, OTHER_KEY, Writer

FILE = Path(__file__).parents[2] / "clients" / "verifier" / "discreet_verify.py"
CERTIFICATES, LEDGERS, LOGS, PROOFS = (
    (6000, 2500, 1500, 20_000)
    if os.environ.get("DISCREET_FUZZ") == "long"
    else (1200, 500, 300, 2000)
)
"""Random and altered cases; as many as docs/transparency.md names in `make fuzz`."""


def quarter_and_whole(cases: int) -> pytest.MarkDecorator:
    """`make test` tries a quarter of these cases, and `make test-all` all."""
    return pytest.mark.parametrize(
        "cases", [cases // 4, pytest.param(cases, marks=pytest.mark.long)]
    )


ORIGIN = "discreet/test"
WITNESSES = {
    f"witness.example/{name}": Ed25519PrivateKey.from_private_bytes(name.encode() * 32)
    for name in ("a", "b", "c")
}
PUBLIC = certificates.public_key(KEY)
SALT = base64.b64encode(bytes(range(16))).decode()
EVENTS_OF = {
    "discrete_laplace": (discrete_laplace.DiscreteLaplace.example(), Cap(8 * 10**9, 0)),
    "laplace": (laplace.Laplace.example(), Cap(5 * 10**9, 4 * 10**12)),
    "gaussian": (gaussian.Gaussian.example(), Cap(7 * 10**9, 10**14)),
}


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("discreet_verify", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


stranger = _load()


class World:
    """A true ledger, the log that holds it, and a certificate of each of its jobs."""

    def __init__(self, name: str) -> None:
        event, cap = EVENTS_OF[name]
        self.writer = Writer(to_json(event), cap)
        for account in ("acc_1", "acc_2"):
            self.writer.write(account, "open")
            self.writer.life(account, "job_1", "reserve", "data_touched", "commit")
            self.writer.life(account, f"job_of_{account}", "reserve", "release")
        self.writer.life("acc_2", "job_2", "reserve", "data_touched", "commit")
        self.lines = self.writer.lines()
        entries = [json.loads(line) for line in self.lines[1:]]
        salts = {one["hash"]: hashlib.sha256(one["hash"].encode()).digest()[:16] for one in entries}
        strangers = [hashlib.sha256(bytes([one])).digest() for one in range(40)]
        leaves = strangers[:21] + [
            commitment(salts[one["hash"]], bytes.fromhex(one["hash"])) for one in entries
        ]
        leaves += strangers[21:]
        self.log = Log([leaf_hash(one) for one in leaves])
        jobs = ("job_1", "job_2")
        self.answers = [self._answer(job, entries, salts) for job in jobs]
        self.older = [self._answer(job, entries, salts, older=True) for job in jobs]
        """With a path for each entry, as certificates had them until 2026-11-25."""

    def _answer(
        self, job: str, entries: list[Any], salts: dict[str, bytes], *, older: bool = False
    ) -> dict[str, Any]:
        named = [
            one for one in entries if one["body"]["job"] == job and one["body"]["kind"] == "commit"
        ]
        result = {"flows": [1.5, 2e-7, 3], "name": "Straße 漢", "gap": 1e21}
        problem = {"kind": "routing", "objective": "user_equilibrium"}
        body = certificates.certificate(
            simulation=False,
            price=EVENTS.validate_python((self.writer.event,))[0].price(),
            unit="request",
            neighbours="one trip",
            events=[self.writer.event],
            filters=["basic"],
            assumptions=["a sentence"],
            versions={"discreet": "0"},
            ledger_entries=[
                {name: one["body"][name] for name in ("account", "seq")} | {"hash": one["hash"]}
                for one in named
            ],
            job=job,
            result_digest=canonical.digest(result),
            tables={"policy": "ab" * 32},
            headline_digest=certificates.digest_of_headline("All trips", canonical.dumps(result)),
            problem_digest=canonical.digest(problem),
            release_digest="cd" * 32,
        )
        numbers = [21 + entries.index(one) for one in named]
        leaves = [
            {"number": number, "salt": base64.b64encode(salts[one["hash"]]).decode()}
            for number, one in zip(numbers, named, strict=True)
        ]
        signed = certificates.sign(body, KEY)
        if older:
            for leaf, one in zip(leaves, body["ledger_entry"], strict=True):
                leaf |= {"account": one["account"], "seq": one["seq"]}
                leaf["path"] = hashes_text(self.log.tree().inclusion([leaf["number"]]))
            signed["proofs"] = {"checkpoint": self.log.note(), "entries": leaves}
        else:
            nodes = joined(self.log.tree().inclusion(numbers))
            signed["proofs"] = {"checkpoint": self.log.note(), "leaves": leaves, "nodes": nodes}
        return {
            "job": {"id": job, "problem": problem, "headline": "All trips"},
            "certificate": signed,
            "result": result,
        }


class Log:
    """A log of these leaves."""

    def __init__(self, hashes: list[bytes]) -> None:
        self.hashes = hashes

    def tree(self, size: int | None = None) -> Tree:
        size = len(self.hashes) if size is None else size
        return Tree(size, {tile: self._tile(tile, size) for tile in tiles_of(size, range(size))})

    def _tile(self, tile: tuple[int, int], size: int) -> list[bytes]:
        level, number = tile
        found = []
        for at in range(256 * number, 256 * number + width(tile, size)):
            hashes = self.hashes[at << 8 * level : (at + 1) << 8 * level]
            while len(hashes) > 1:
                hashes = [node_hash(*hashes[one : one + 2]) for one in range(0, len(hashes), 2)]
            found += hashes
        return found

    def note(
        self, size: int | None = None, witnesses: tuple[str, ...] = tuple(WITNESSES)[:2]
    ) -> str:
        size = len(self.hashes) if size is None else size
        point = sign_checkpoint(ORIGIN, size, self.tree(size).root(), KEY)
        return point.cosigned(
            cosign(point, name, WITNESSES[name], 1_700_000_000) for name in witnesses
        ).note


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values within a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for name, one in inner for place in leaves_of(one, (*path, name)))]


def altered(value: Any, chance: random.Random) -> Any:
    """The value with something else in one place."""
    value = copy.deepcopy(value)
    *path, last = chance.choice([place for place in leaves_of(value) if place])
    within = value
    for name in path:
        within = within[name]
    old = within[last]
    other = [
        None,
        True,
        0,
        -1,
        1.0,
        2**53,
        10**40,
        1e-300,
        "",
        "x",
        [],
        {},
        [old],
        {"a": old},
        str(old),
    ]
    if isinstance(old, str) and old:
        at = chance.randrange(len(old))
        other += [
            old[:at] + chance.choice("0aZ/=é") + old[at + 1 :],
            old + "=",
            old[:-1],
            old + "\n",
            " " + old,
        ] * 3
    elif isinstance(old, int | float) and not isinstance(old, bool):
        other += [old + 1, old - 1, float(old), -old, old * 2] * 2
    elif isinstance(old, list) and old:
        other += [old[::-1], old[1:], old[:-1], old + old[:1]] * 2
    what = chance.random()
    if what < 0.1 and isinstance(within, dict):
        del within[last]
    elif what < 0.15 and isinstance(within, dict):
        within[f"{last}_"] = old
    else:
        within[last] = chance.choice(other)
    return value


def resigned(answer: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """With another certificate of the key's holder, or of a stranger."""
    body = {
        name: one
        for name, one in answer["certificate"].items()
        if name not in ("signature", "public_key")
    }
    proofs = body.pop("proofs")
    body = altered(body, chance)
    try:
        signed = certificates.sign(body, chance.choice((KEY, KEY, OTHER_KEY)))
    except (ValueError, OverflowError):
        return answer
    return {**answer, "certificate": {**signed, "proofs": proofs}}


def otherwise_proven(world: World, answer: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """With proofs of another tree, in another order, of another length, or of other leaves."""
    answer = copy.deepcopy(answer)
    proofs = answer["certificate"]["proofs"]
    within = "leaves" if "leaves" in proofs else "entries"
    one = chance.choice(proofs[within])
    size = chance.randrange(1, len(world.log.hashes) + 1)
    for change in chance.sample(range(8), chance.choice((1, 1, 2))):
        if change == 0:
            proofs["checkpoint"] = world.log.note(
                size, chance.choice(((), tuple(WITNESSES), tuple(WITNESSES)[1:]))
            )
        elif change == 1 and size > max(each["number"] for each in proofs[within]):
            proofs["checkpoint"] = world.log.note(size)
            tree, numbers = world.log.tree(size), [each["number"] for each in proofs[within]]
            if within == "leaves":
                proofs["nodes"] = joined(tree.inclusion(numbers))
            else:
                for each in proofs[within]:
                    each["path"] = hashes_text(tree.inclusion([each["number"]]))
        elif change == 2:
            start, end = chance.randrange(8), chance.randrange(8)
            if within == "leaves":
                hashes = read_joined(proofs["nodes"])
                proofs["nodes"] = joined(hashes[:start] + hashes[end:])
            else:
                one["path"] = one["path"][:start] + one["path"][end:]
        elif change == 3:
            one["number"] = chance.randrange(-1, len(world.log.hashes) + 2)
        elif change == 4:
            proofs[within] = proofs[within][chance.randrange(2) :] * chance.choice((1, 2))
        elif change == 5:
            other = Log([bytes(32), *world.log.hashes[1:]])
            proofs["checkpoint"] = other.note(len(world.log.hashes))
        elif change == 6:
            proofs["checkpoint"] = proofs["checkpoint"].replace(
                ORIGIN, "discreet/other", chance.choice((1, 9))
            )
        else:
            text = proofs["checkpoint"]
            at = chance.randrange(len(text))
            proofs["checkpoint"] = (
                text[:at] + chance.choice("\n1A=— ") + text[at + chance.choice((0, 1)) :]
            )
    return answer


def told(found: list[Check]) -> Counter[tuple[str, bool | None]]:
    return Counter((one.name, one.holds) for one in found)


def agree(ours: list[Check], theirs: list[Any], case: Any) -> None:
    """Both come to one verdict, and to one on all that both have looked at. Of prices that follow
    from no arithmetic the stranger says nothing."""
    left_open = {one.name for one in theirs if one.holds is None}
    names = {one.name for one in ours} & {one.name for one in theirs}
    for name in names - left_open:
        here = {one.holds for one in ours if one.name == name}
        there = {one.holds for one in theirs if one.name == name}
        assert None in here or here == there, (name, ours, theirs, case)
    broken = {one.name for one in ours if one.holds is False}
    if broken and broken <= {"price"} & left_open:
        return
    assert bool(broken) == any(one.holds is False for one in theirs), (ours, theirs, case)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [World(name) for name in EVENTS_OF]


@quarter_and_whole(CERTIFICATES)
def test_certificates(worlds: list[World], tmp_path: Path, cases: int) -> None:
    chance, file, seen = random.Random(1), tmp_path / "answer.json", Counter[bool]()
    known = {
        name: Verifier(name, public_bytes(key), witness=True) for name, key in WITNESSES.items()
    }
    ways: list[Callable[[World, dict[str, Any]], dict[str, Any]]] = [
        *[lambda world, answer: answer] * 2,
        lambda world, answer: altered(answer, chance),
        lambda world, answer: {**answer, "certificate": altered(answer["certificate"], chance)},
        lambda world, answer: resigned(answer, chance),
        lambda world, answer: otherwise_proven(world, answer, chance),
    ]
    for case in range(cases):
        world = chance.choice(worlds)
        answer = chance.choice(ways)(world, chance.choice(world.answers + world.older))
        text = bytearray(json.dumps(answer, ensure_ascii=chance.random() < 0.5).encode())
        if chance.random() < 0.1:
            text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
        file.write_bytes(text)
        names = chance.sample(sorted(known), chance.randrange(4))
        needed = chance.choice((None, 1, 1))
        key = chance.choice((None, *[PUBLIC] * 5, certificates.public_key(OTHER_KEY)))
        tables = chance.choice(
            ({}, *[{"policy": "ab" * 32}] * 5, {"policy": "00" * 32}, {"other": "ab" * 32})
        )
        export = chance.choice((*[None] * 12, *[world.lines] * 3, world.lines[:-1]))
        given = {
            "witnesses": [stranger.Key.read(known[name].text) for name in names],
            "needed": needed,
            "tables": tables,
            "ledger": export,
        }
        try:
            theirs = stranger.check_whole(
                stranger.read_json(bytes(text)), [] if key is None else [key], **given
            )
        except stranger.Bad:
            theirs = None
        try:
            whole = read_json(file)
            body = whole.get("certificate", whole)
            if not isinstance(body, dict):
                raise InvalidInput("no certificate")
            beside = offline.Beside(
                answer=whole if whole is not body else {},
                tables=tables,
                public_keys=() if key is None else (key,),
                witnesses=[known[name] for name in names],
                witnesses_needed=needed,
            )
            ours = offline.check_all(body, beside, export)
        except InvalidInput:
            ours = None
        assert (ours is None) == (theirs is None), (case, text)
        if ours is not None and theirs is not None:
            agree(ours, theirs, (case, bytes(text)))
            seen[all(one.holds is not False for one in ours)] += 1
    assert min(seen.values()) > cases / 10


def body_of(numbers: Sequence[int], size: int, tree: Tree, hashes: list[str]) -> dict[str, Any]:
    """As much of a certificate as the proof of its entries is about."""
    nodes = joined(tree.inclusion(numbers))
    leaves = [{"number": one, "salt": SALT} for one in numbers]
    point = sign_checkpoint(ORIGIN, size, tree.root(), KEY)
    return {
        "public_key": PUBLIC,
        "ledger_entry": [
            {"account": f"acc_{at}", "seq": 1, "hash": one} for at, one in enumerate(hashes)
        ],
        "proofs": {"checkpoint": point.note, "leaves": leaves, "nodes": nodes},
    }


def reproven(body: dict[str, Any], chance: random.Random) -> None:
    """Change one thing of a proof: a node, the order, the length, the numbers, the size."""
    proofs = body["proofs"]
    leaves, entries, nodes = proofs["leaves"], body["ledger_entry"], read_joined(proofs["nodes"])
    at, to = chance.randrange(len(leaves)), chance.randrange(len(leaves))
    place, second = chance.randrange(len(nodes) + 1), chance.randrange(len(nodes) + 1)
    point = read_checkpoint(proofs["checkpoint"])
    strange = chance.randbytes(32)
    what = chance.randrange(16)
    if what == 0:
        del nodes[place:]
    elif what == 1:
        del nodes[place : place + 1]
    elif what == 2:
        nodes.insert(place, chance.choice((strange, *nodes)))
    elif what == 3 and nodes:
        nodes[place % len(nodes)] = strange
    elif what == 4 and nodes:
        one, two = place % len(nodes), second % len(nodes)
        nodes[one], nodes[two] = nodes[two], nodes[one]
    elif what == 5:
        nodes.extend(chance.choice((nodes, [strange] * 5000)))
    elif what == 6:
        leaves[at], leaves[to] = leaves[to], leaves[at]
    elif what == 7:
        entries[at]["hash"], entries[to]["hash"] = entries[to]["hash"], entries[at]["hash"]
    elif what == 8:
        leaves[at]["number"] = chance.choice(
            (leaves[to]["number"], -1, point.size, point.size - 1, True, 0.0, 2**70, None)
        )
    elif what == 9:
        leaves[at]["number"] += chance.choice((-1, 1))
    elif what == 10:
        leaves.append(dict(leaves[at]))
        if chance.random() < 0.5:
            entries.append(dict(entries[at]))
    elif what == 11:
        del leaves[at]
        if chance.random() < 0.5:
            del entries[at]
    elif what == 12:
        size = max(0, point.size + chance.choice((-1, 1, point.size)))
        proofs["checkpoint"] = sign_checkpoint(ORIGIN, size, point.root, KEY).note
    elif what == 13:
        root = chance.choice((bytes(32), hashlib.sha256().digest()))
        proofs["checkpoint"] = sign_checkpoint(ORIGIN, point.size, root, KEY).note
    elif what == 14:  # the root as the only node, or a node as the root
        nodes[:] = [point.root]
    else:
        other = altered({"leaves": leaves, "nodes": proofs["nodes"]}, chance)
        body["proofs"] = {"checkpoint": proofs["checkpoint"], **other}
        return
    proofs["nodes"] = joined(nodes)


def is_proven(body: dict[str, Any], tree: Tree, size: int, hashes: Mapping[int, str]) -> bool:
    """Whether the proof is, to the last node, the one that the log gives for these entries:
    anything else would need another hash of the same value. Of the size that is signed with the
    root nothing is proven but that it calls for the same nodes."""
    try:
        proofs, entries = body["proofs"], body["ledger_entry"]
        numbers = [one["number"] for one in proofs["leaves"]]
        if not all(type(one) is int and 0 <= one < size for one in numbers):
            return False
        point = read_checkpoint(proofs["checkpoint"])
        true = body_of(numbers, size, tree, [hashes.get(one, "") for one in numbers])
        return (
            len(set(numbers)) == len(numbers) > 0
            and point.root == tree.root()
            and point.size > max(numbers)
            and list(nodes_of(point.size, numbers)) == list(nodes_of(size, numbers))
            and proofs == {**true["proofs"], "checkpoint": proofs["checkpoint"]}
            and [one["hash"] for one in entries] == [one["hash"] for one in true["ledger_entry"]]
        )
    except (BadNote, KeyError, TypeError, ValueError, AttributeError):
        return False


@quarter_and_whole(PROOFS)
def test_proofs(cases: int) -> None:
    """One proof of several entries: in logs of any size, of entries that lie side by side or far
    apart, in any order; true, or changed once or twice. We and the stranger take the one proof
    that the log gives, and no other."""
    chance, seen, salt = random.Random(5), Counter[bool](), base64.b64decode(SALT)
    for _ in range(cases // 10):
        size = chance.choice(
            (chance.randrange(1, 20), chance.randrange(1, 1100), 10**7, 2**24, 10**17)
        )
        many = min(size, chance.choice((1, 2, 3, 6, 12)))
        first = chance.randrange(size - many + 1)
        numbers = list(range(first, first + many))
        if chance.random() < 0.4:
            numbers = sorted({chance.randrange(size) for _ in range(many)})
        if chance.random() < 0.3:
            chance.shuffle(numbers)
        hashes = {one: chance.randbytes(32).hex() for one in numbers}
        leaves = {
            one: leaf_hash(commitment(salt, bytes.fromhex(digest)))
            for one, digest in hashes.items()
        }
        tree = sparse_tree(size, leaves)
        true = body_of(numbers, size, tree, list(hashes.values()))
        for changes in (0, 0, 1, 1, 1, 1, 1, 1, 2, 3):
            body = copy.deepcopy(true)
            for _ in range(changes):
                # What was changed before may have left nothing that this could change.
                with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
                    reproven(body, chance)
            ours, theirs = check_proofs(body), stranger.check_proofs(body)
            agree(ours, theirs, body)
            held = changes == 0 or is_proven(body, tree, size, hashes)
            assert (told(ours)["log", True] == 1) == held, (ours, body)
            seen[held] += 1
    assert min(seen.values()) > cases / 10


def rewritten(world: World, chance: random.Random) -> list[bytes]:
    """A ledger whose writer keeps to no rule, with hashes and signature of his own."""
    writer = copy.deepcopy(world.writer)
    chain = chance.choice(list(writer.bodies.values()))
    at = chance.randrange(len(chain))
    what = chance.random()
    if what < 0.7:
        chain[at] = altered(chain[at], chance)
    elif what < 0.8:
        del chain[at]
    elif what < 0.9:
        chain.insert(at, copy.deepcopy(chance.choice(chain)))
    else:
        other = chance.randrange(len(chain))
        chain[at]["kind"], chain[other]["kind"] = chain[other]["kind"], chain[at]["kind"]
    lines, ends = [], []
    for account, bodies in sorted(writer.bodies.items()):
        previous = GENESIS
        for number, body in enumerate(bodies, 1):
            if what >= 0.7:
                body["seq"] = number
            text = rfc8785.dumps(body)
            digest = hashlib.sha256(previous + text).digest()
            lines.append(entry_line(text.decode(), digest, previous))
            previous = digest
        ends.append((account, len(bodies), previous))
    return [head_line(sign_head("ten_1", ends, chance.choice((KEY, OTHER_KEY)))), *lines]


def shuffled(world: World, chance: random.Random) -> list[bytes]:
    """Lines that are gone, twice there, exchanged, or of another ledger; or one bit."""
    lines = list(world.lines)
    at, other = (chance.randrange(len(lines)) for _ in range(2))
    what = chance.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(other, lines[at])
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        line = bytearray(lines[at])
        line[chance.randrange(len(line))] ^= 1 << chance.randrange(8)
        lines[at] = bytes(line)
    else:
        line = lines[at]
        place = chance.randrange(len(line))
        lines[at] = line[:place] + chance.choice((b" ", b"0", b"\n", b"e0", b",")) + line[place:]
    return b"".join(lines).splitlines(keepends=True)


@quarter_and_whole(LEDGERS)
def test_ledgers(worlds: list[World], cases: int) -> None:
    chance, seen = random.Random(2), Counter[bool]()
    for case in range(cases):
        world = chance.choice(worlds)
        try:
            lines = chance.choice(
                (shuffled, rewritten, rewritten, lambda world, chance: world.lines)
            )(world, chance)
        except (ValueError, OverflowError):  # what no canonical JSON holds
            continue
        key = chance.choice((None, PUBLIC))
        head = chance.choice(
            (None, None, json.loads(world.lines[0]), altered(json.loads(world.lines[0]), chance))
        )
        theirs = stranger.check_ledger(lines, [] if key is None else [key], head)
        try:
            verify(lines, public_key=key, head=head)
            ours, says = True, "it holds"
        except Broken as broken:
            ours, says = False, str(broken)
        seen[ours] += 1
        if not ours and says.endswith(
            ("its events have no price", "the price does not follow from the events")
        ):
            assert theirs[-1].holds in (None, False), (
                case,
                says,
                theirs,
            )  # of a curve the stranger says nothing
            continue
        assert ours == all(one.holds is not False for one in theirs), (case, says, theirs)
    assert min(seen.values()) > cases / 10


@quarter_and_whole(LOGS)
def test_logs(tmp_path: Path, cases: int) -> None:
    """Tiles as they are served, between two checkpoints; any of the three may lie."""
    chance, seen = random.Random(3), Counter[bool]()
    for case in range(cases):
        size = chance.choice((1, 2, 3, 255, 256, 257, 300))
        entries = [chance.randbytes(32) for _ in range(size)]
        log = Log([leaf_hash(one) for one in entries])
        folder = tmp_path / str(case)
        for number in range(-(-size // 256)):
            wide = width((0, number), size)
            for level, parts in (
                (0, log.hashes),
                (-1, [len(one).to_bytes(2, "big") + one for one in entries]),
            ):
                place = folder / tile_path((level, number), wide)
                place.parent.mkdir(parents=True, exist_ok=True)
                tile = bytearray(b"".join(parts[256 * number : 256 * number + wide]))
                if chance.random() < 0.1:
                    tile[chance.randrange(len(tile))] ^= 1
                place.write_bytes(tile)
        sizes = sorted((chance.randrange(size + 1), chance.choice((size, size, size + 1))))
        notes, true = [], True
        for one in sizes:
            held = Log(log.hashes if one <= size else [*log.hashes, bytes(32)])
            if chance.random() < 0.1 and one:
                held = Log([bytes(32), *held.hashes[1:]])
            notes.append(held.note(one))
            true = true and one <= size and held.hashes[:one] == log.hashes[:one]
        served = b"".join(
            (folder / tile_path((0, number), width((0, number), size))).read_bytes()
            for number in range(-(-size // 256))
        )
        bundles = b"".join(
            (folder / tile_path((-1, number), width((0, number), size))).read_bytes()
            for number in range(-(-size // 256))
        )
        most = max(sizes)
        true = true and served[: 32 * most] == b"".join(log.hashes[:most])
        true = true and bundles[: 34 * most] == b"".join(b"\0 " + one for one in entries[:most])
        key = Verifier(ORIGIN, public_bytes(chance.choice((KEY, KEY, KEY, OTHER_KEY))))
        keys = chance.choice(([], [stranger.Key.read(key.text)]))
        true = true and (not keys or key.key == public_bytes(KEY))
        chance.shuffle(notes)
        found = stranger.check_log(folder, *notes, keys)
        assert true == all(one.holds is not False for one in found), (case, sizes, found)
        seen[true] += 1
    assert min(seen.values()) > cases / 10


def test_it_needs_nothing_but_python_and_cryptography(worlds: list[World], tmp_path: Path) -> None:
    """In another folder, apart from this installation's packages but one."""
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else one.name
        for node in ast.walk(ast.parse(FILE.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for one in node.names
    }
    assert {name.partition(".")[0] for name in imported} <= {
        *sys.stdlib_module_names,
        "cryptography",
    }
    answer, ledger, head = (
        tmp_path / "answer.json",
        tmp_path / "ledger.jsonl",
        tmp_path / "head.json",
    )
    answer.write_text(json.dumps(worlds[0].answers[0]))
    ledger.write_bytes(b"".join(worlds[0].lines))
    head.write_bytes(worlds[0].lines[0])

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-I", str(FILE), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.stderr == ""
        return done.returncode, done.stdout

    witness = Verifier(
        next(iter(WITNESSES)), public_bytes(next(iter(WITNESSES.values()))), witness=True
    )
    given = ("--ledger", str(ledger), "--public-key", PUBLIC, "--witness", witness.text)
    status, said = run("certificate", str(answer), *given)
    assert (status, "BROKEN" in said) == (0, False), said
    for name in (
        "signature",
        "price",
        "guarantee",
        "result",
        "headline",
        "problem",
        "log",
        "witnesses",
        "inclusion",
    ):
        assert f"holds  {name}:" in said
    assert run("ledger", str(ledger), "--head", str(head))[0] == 0
    ledger.write_bytes(b"".join(worlds[0].lines[:-1]))
    status, said = run("ledger", str(ledger), "--json")
    assert (status, json.loads(said)["valid"]) == (1, False)
    assert run("certificate", str(ledger)) == (1, run("certificate", str(ledger))[1])


def test_what_it_leaves_open_it_does_not_call_held(worlds: list[World]) -> None:
    """Noise that is too small for what its events were charged: the curve is not its business, and
    it says so."""
    world = worlds[2]
    event = {**world.writer.event, "scale": 0.1}
    body = {
        name: one
        for name, one in world.answers[0]["certificate"].items()
        if name not in ("signature", "proofs")
    }
    signed = certificates.sign({**body, "events": [event]}, KEY)
    assert {one.name: one.holds for one in certificates.check(signed)}["price"] is False
    assert {one.name: one.holds for one in stranger.check_certificate(signed)}["price"] is None


def test_what_was_asked_again(worlds: list[World]) -> None:
    first = worlds[0].answers[0]["certificate"]
    body = {
        name: one
        for name, one in first.items()
        if name not in ("signature", "public_key", "proofs")
    }
    free = dict.fromkeys(("delta", "delta_z", "epsilon", "rho"), "0")
    body |= {"events": [], "price": free, "ledger_entry": [], "job": "job_9"}
    body["guarantee"] = {
        **first["guarantee"],
        "type": "post_processing",
        "epsilon": 0.0,
        "delta": 0.0,
    }
    body["follows_from"] = {
        "sentence": "",
        "releases": [{name: first[name] for name in certificates.FOLLOWED}],
    }
    again = certificates.sign(body, KEY)
    chance = random.Random(4)
    for case in range(300):
        given = chance.choice(
            ([], [first], [altered(first, chance)], [first, worlds[0].answers[1]["certificate"]])
        )
        shown = chance.choice((again, altered(again, chance)))
        if not all(isinstance(one, dict) for one in given) or not isinstance(shown, dict):
            continue
        export = chance.choice((None, worlds[0].lines))
        ours = offline.check_all(shown, replace(offline.Beside(), firsts=given), export)
        theirs = stranger.check_whole(shown, [], firsts=given, ledger=export)
        agree(ours, theirs, (case, shown))


def test_older_proofs_say_what_newer_ones_say(worlds: list[World]) -> None:
    """A path for each entry, as certificates had them until 2026-11-25: they hold as they did, and
    tell of the same leaves."""
    for world in worlds:
        for newer, older in zip(world.answers, world.older, strict=True):
            before, now = older["certificate"], newer["certificate"]
            assert set(before["proofs"]) == {"checkpoint", "entries"}
            assert check_proofs(before) == check_proofs(now)
            assert check_proofs(before)[0].holds is True
            assert stranger.check_proofs(before)[0].holds is True
            assert place_of(before) == place_of(now)
            assert len(place_of(now).numbers) == len(now["ledger_entry"])
