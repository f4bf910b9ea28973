"""Certificates in a transparency log of a million entries: how large their proofs are, and how long
a check takes.

A certificate of one ledger entry, with the checkpoint of the log, three witnesses' cosignatures and
the path to its leaf; it is checked whole, with no server, as `discreet certificate verify` does,
and by the verifier of one file. The peer is one bare verification of an Ed25519 signature in the
same run: a whole check has five of them.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.ledger import certificates, offline
from discreet.ledger.checkpoints import Verifier, cosign, hashes_text, public_bytes, sign_checkpoint
from discreet.ledger.tree import TILE, Tree, commitment, leaf_hash, node_hash, tiles_of, width
from discreet.privacy.events import to_json
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace

LEAVES, NUMBER = 1_000_000, 654_321
ROUNDS = 300
VERIFIER = Path(__file__).parents[1] / "clients" / "verifier" / "discreet_verify.py"
HASH = "ab" * 32
ENTRY = {"account": "acc_1", "seq": 4, "hash": HASH}


def run() -> list[dict[str, Any]]:
    """Bytes of the proofs and of the certificate without its events, and milliseconds of a
    check."""
    key = Ed25519PrivateKey.generate()
    witnesses = {f"witness-{name}.example": Ed25519PrivateKey.generate() for name in "abc"}
    known = [Verifier(name, public_bytes(one), witness=True) for name, one in witnesses.items()]
    salt = bytes(16)
    since = time.perf_counter()
    tree = _tree(leaf_hash(commitment(salt, bytes.fromhex(HASH))))
    point = sign_checkpoint("discreet/bench", LEAVES, tree.root(), key)
    built = time.perf_counter() - since
    lines = [cosign(point, name, one, 1_800_000_000) for name, one in witnesses.items()]
    event = DiscreteLaplace(sensitivity=1.0, scale=10.0, neighbours="one trip is added or removed")
    body = certificates.sign(
        certificates.certificate(
            simulation=False,
            price=event.price(),
            unit="request",
            neighbours=event.neighbours,
            events=[to_json(event)],
            filters=["basic"],
            assumptions=[certificates.FAILURE_ASSUMPTION, certificates.ACCOUNTS_ASSUMPTION],
            versions={"discreet": "0"},
            ledger_entries=[ENTRY],
            job="job_" + "0" * 26,
            result_digest="cd" * 32,
            tables={},
        ),
        key,
    )
    proof = {"account": ENTRY["account"], "seq": ENTRY["seq"], "number": NUMBER}
    proof |= {"salt": base64.b64encode(salt).decode(), "path": hashes_text(tree.inclusion(NUMBER))}
    whole = {**body, "proofs": {"checkpoint": point.cosigned(lines).note, "entries": [proof]}}
    proofs, beside = (
        _bytes(whole["proofs"]),
        _bytes({name: one for name, one in whole.items() if name != "events"}),
    )
    asked = offline.Beside(public_keys=[body["public_key"]], witnesses=known)
    stranger = _stranger()
    keys = [stranger.Key.read(one.text) for one in known]
    for found in (
        offline.check_all(whole, asked),
        stranger.check_whole(whole, [body["public_key"]], witnesses=keys),
    ):
        if any(one.holds is False for one in found) or sum(bool(one.holds) for one in found) < 5:
            raise RuntimeError(f"a true certificate is said not to hold: {found}")
    message = b"m" * 500
    signature, public = key.sign(message), key.public_key()
    bare = _milliseconds(lambda: public.verify(signature, message))
    ours = _milliseconds(lambda: offline.check_all(whole, asked))
    theirs = _milliseconds(
        lambda: stranger.check_whole(whole, [body["public_key"]], witnesses=keys)
    )
    peer = {"peer": "a bare Ed25519 verification", "peer_value": bare, "unit": "ms"}
    log = f"log of {LEAVES:,} entries"
    return [
        {
            "benchmark": f"proofs of a certificate, {log}",
            "ours": proofs,
            "unit": "bytes",
            "note": f"3 cosignatures; {beside} bytes with all of the certificate but its events; "
            f"tree in {built:.1f} s",
        },
        {
            "benchmark": f"check a certificate whole, {log}",
            "ours": ours,
            "ratio": ours / bare,
            **peer,
        },
        {
            "benchmark": f"the same, by the verifier of one file, {log}",
            "ours": theirs,
            "ratio": theirs / bare,
            **peer,
        },
    ]


def _tree(leaf: bytes) -> Tree:
    """A log of many leaves, one of which is given."""
    level = [leaf_hash(number.to_bytes(32, "big")) for number in range(LEAVES)]
    level[NUMBER] = leaf
    wanted = tiles_of(LEAVES, [NUMBER])
    tiles = {}
    for height in range(4):
        for tile in wanted:
            if tile[0] == height:
                tiles[tile] = level[TILE * tile[1] :][: width(tile, LEAVES)]
        for _ in range(8):
            level = [node_hash(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
    return Tree(LEAVES, tiles)


def _stranger() -> Any:
    spec = importlib.util.spec_from_file_location("discreet_verify", VERIFIER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _bytes(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _milliseconds(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        since = time.perf_counter()
        work()
        times.append(time.perf_counter() - since)
    return 1000 * sorted(times)[len(times) // 2]
