"""Certificates in transparency logs: how large their proofs are, and how long a check takes.

A certificate of 1, 3 or 6 ledger entries, which its transaction wrote side by side, with the
checkpoint of a log of a thousand or ten million leaves, the cosignatures of two witnesses and the
proof of its leaves; it is checked whole, with no server, as `discreet certificate verify` does, and
by the verifier of one file. The peer is one bare verification of an Ed25519 signature in the same
run: a whole check has four of them.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.ledger import certificates, offline
from discreet.ledger.checkpoints import (
    Verifier,
    cosign,
    hashes_text,
    joined,
    public_bytes,
    sign_checkpoint,
)
from discreet.ledger.entries import Signer
from discreet.ledger.tree import TILE, Tree, commitment, leaf_hash, node_hash, tiles_of, width
from discreet.privacy.events import to_json
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace

SIZES, ACCOUNTS = (1_000, 10_000_000), (1, 3, 6)
ROUNDS = 300
VERIFIER = Path(__file__).parents[1] / "clients" / "verifier" / "discreet_verify.py"


def run() -> list[dict[str, Any]]:
    """Bytes of the proofs and of the certificate without its events, and milliseconds of a
    check."""
    key = Ed25519PrivateKey.generate()
    message = b"m" * 500
    signature, public = key.sign(message), key.public_key()
    bare = _milliseconds(lambda: public.verify(signature, message))
    found = []
    for size in SIZES:
        for many in ACCOUNTS:
            found += _measured(key, size, many, bare)
    return found


def _measured(key: Signer, size: int, many: int, bare: float) -> list[dict[str, Any]]:
    witnesses = {f"witness-{name}.example": Ed25519PrivateKey.generate() for name in "ab"}
    known = [Verifier(name, public_bytes(one), witness=True) for name, one in witnesses.items()]
    event = DiscreteLaplace(sensitivity=1.0, scale=10.0, neighbours="one trip is added or removed")
    hashes = [hashlib.sha256(bytes([one])).hexdigest() for one in range(many)]
    entries = [
        {"account": f"acc_{one:026}", "seq": 2900 + one, "hash": digest}
        for one, digest in enumerate(hashes)
    ]
    body = certificates.sign(
        certificates.certificate(
            simulation=False,
            price=event.price(),
            unit="request",
            neighbours=event.neighbours,
            events=[to_json(event)],
            filters=["basic", "zcdp"],
            assumptions=[
                certificates.FAILURE_ASSUMPTION,
                *certificates.NOT_COVERED,
                certificates.TIMING_ASSUMPTION.format(quantum=0.5),
            ],
            versions={"discreet": "0.1.0", "sampler": "discrete_laplace/1"},
            ledger_entries=entries,
            job="job_" + "0" * 26,
            result_digest="cd" * 32,
            tables={},
            headline_digest="cd" * 32,
            problem_digest="cd" * 32,
            release_digest="cd" * 32,
        ),
        key,
    )
    first = 654 * size // 1000
    numbers = range(first, first + many)
    proofs = proofs_of(hashes, numbers, size, key, list(witnesses.items()))
    whole = {**body, "proofs": proofs}
    asked = offline.Beside(public_keys=[body["public_key"]], witnesses=known)
    stranger = _stranger()
    keys = [stranger.Key.read(one.text) for one in known]

    def by_us() -> Any:
        return offline.check_all(whole, asked)

    def by_stranger() -> Any:
        return stranger.check_whole(whole, [body["public_key"]], witnesses=keys)

    for found in (by_us(), by_stranger()):
        if any(one.holds is False for one in found) or sum(bool(one.holds) for one in found) < 5:
            raise RuntimeError(f"a true certificate is said not to hold: {found}")
    ours, theirs = _milliseconds(by_us), _milliseconds(by_stranger)
    peer = {"peer": "a bare Ed25519 verification", "peer_value": bare, "unit": "ms"}
    case = f"{many} account{'s' if many > 1 else ''}, log of {size:,}"
    beside = bytes_of({name: one for name, one in whole.items() if name != "events"})
    apart = bytes_of(_apart(entries, proofs, size, numbers))
    return [
        {
            "benchmark": f"a certificate beside its events, {case}",
            "ours": beside,
            "unit": "bytes",
            "note": f"2 cosignatures; {bytes_of(proofs)} of proofs, {apart} with a path an entry",
        },
        {"benchmark": f"check it whole, {case}", "ours": ours, "ratio": ours / bare, **peer},
        {
            "benchmark": f"the same, by the verifier of one file, {case}",
            "ours": theirs,
            "ratio": theirs / bare,
            **peer,
        },
    ]


def _apart(
    entries: Sequence[Mapping[str, Any]],
    proofs: Mapping[str, Any],
    size: int,
    numbers: Sequence[int],
) -> dict[str, Any]:
    """The same proofs as certificates had them until 2026-11-25, which named each entry again and
    had a path for each."""
    tree = sparse_tree(size, dict.fromkeys(numbers, bytes(32)))
    return {
        "checkpoint": proofs["checkpoint"],
        "entries": [
            {
                "account": entry["account"],
                "seq": entry["seq"],
                **leaf,
                "path": hashes_text(tree.inclusion([leaf["number"]])),
            }
            for entry, leaf in zip(entries, proofs["leaves"], strict=True)
        ],
    }


def proofs_of(
    hashes: Sequence[str], numbers: Sequence[int], size: int, key: Signer, witnesses: list[Any]
) -> dict[str, Any]:
    """What the service would put beside a certificate of these entries (their hashes, hexadecimal)
    if its log of `size` leaves held them under these numbers; `witnesses`: names and keys."""
    salts = [hashlib.sha256(one.encode()).digest()[:16] for one in hashes]
    tree = sparse_tree(
        size,
        {
            number: leaf_hash(commitment(salt, bytes.fromhex(one)))
            for number, salt, one in zip(numbers, salts, hashes, strict=True)
        },
    )
    point = sign_checkpoint(f"discreet/{'0' * 32}", size, tree.root(), key)
    lines = [cosign(point, name, one, 1_800_000_000) for name, one in witnesses]
    leaves = [
        {"number": number, "salt": base64.b64encode(salt).decode()}
        for number, salt in zip(numbers, salts, strict=True)
    ]
    return {
        "checkpoint": point.cosigned(lines).note,
        "leaves": leaves,
        "nodes": joined(tree.inclusion(numbers)),
    }


def sparse_tree(size: int, leaves: Mapping[int, bytes]) -> Tree:
    """A tree of `size` leaves in which these have these hashes. The others are made up, as are
    whole subtrees that have none of these: a tree of any size costs a few tiles."""
    tiles, known, level = {}, dict(leaves), 0
    wanted = sorted(tiles_of(size, leaves))
    while size >> 8 * level:
        above = {}
        for tile in (one for one in wanted if one[0] == level):
            first = TILE * tile[1]
            tiles[tile] = [
                known.get(at) or hashlib.sha256(b"%d/%d" % (level, at)).digest()
                for at in range(first, first + width(tile, size))
            ]
            if len(tiles[tile]) == TILE:
                above[tile[1]] = _root(tiles[tile])
        known, level = above, level + 1
    return Tree(size, tiles)


def _root(hashes: list[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = [node_hash(*hashes[at : at + 2]) for at in range(0, len(hashes), 2)]
    return hashes[0]


def bytes_of(value: Any) -> int:
    """Of compact JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _stranger() -> Any:
    spec = importlib.util.spec_from_file_location("discreet_verify", VERIFIER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _milliseconds(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        since = time.perf_counter()
        work()
        times.append(time.perf_counter() - since)
    return 1000 * sorted(times)[len(times) // 2]
