"""Whether the transparency log holds the ledger entries that a certificate names, from the proofs
beside it alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.ledger.certificates import Check
from discreet.ledger.checkpoints import (
    BadNote,
    Checkpoint,
    Verifier,
    decoded,
    read_checkpoint,
    read_hashes,
    read_joined,
    read_line,
    signers,
)
from discreet.ledger.entries import is_hash
from discreet.ledger.tree import Unproven, check_inclusion, commitment, leaf_hash

_SALT_BYTES = 16
_MOST_HASHES = 64
"""For each leaf; a log of 2^64 leaves has no longer path."""
_NAMES = {"checkpoint", "leaves", "nodes"}


@dataclass(frozen=True)
class Place:
    """Where the log holds the entries of a certificate, as the proofs beside it say; nothing is
    checked."""

    log: str
    size: int
    numbers: Mapping[tuple[str, int], int]
    """Of each entry by account and seq, its leaf, from 0."""
    others: tuple[str, ...]
    """Who has signed the checkpoint beside the log itself, by name."""


def place_of(body: Mapping[str, Any]) -> Place | None:
    """Where the log of the service holds the entries; None where no proofs stand beside the
    certificate."""
    if "proofs" not in body:
        return None
    proofs = body["proofs"]
    checkpoint = read_checkpoint(proofs["checkpoint"])
    places = [(one["account"], one["seq"]) for one in body["ledger_entry"]]
    numbers = (
        {place: leaf["number"] for place, leaf in zip(places, proofs["leaves"], strict=True)}
        if "leaves" in proofs
        else {(one["account"], one["seq"]): one["number"] for one in proofs["entries"]}
    )
    names = dict.fromkeys(read_line(line)[0] for line in checkpoint.lines)
    return Place(
        log=checkpoint.origin,
        size=checkpoint.size,
        numbers=numbers,
        others=tuple(name for name in names if name != checkpoint.origin),
    )


def check_proofs(
    body: Mapping[str, Any],
    signed_by: str | Collection[str] | None = None,
    witnesses: Sequence[Verifier] = (),
    needed: int = 0,
) -> list[Check]:
    """Whether every ledger entry that the certificate names is in the log whose checkpoint stands
    with the proofs, and who has signed that checkpoint: the service, by the certificate's own key
    or one of `signed_by` (base64), and at least `needed` of these witnesses. Empty for a
    certificate that names no entry."""
    named = body.get("ledger_entry")
    if not isinstance(named, list) or not named:
        return []
    if "proofs" not in body:
        return [
            Check(
                "log",
                None,
                "not checked: this certificate comes without proofs of the transparency log",
            )
        ]
    try:
        checkpoint = read_checkpoint(body["proofs"]["checkpoint"])
        if "leaves" in body["proofs"]:
            _require_together(named, body["proofs"], checkpoint)
        else:
            _require_each(named, body["proofs"]["entries"], checkpoint)
        keys = {
            body["public_key"],
            *((signed_by,) if isinstance(signed_by, str) else signed_by or ()),
        }
        own = [Verifier(checkpoint.origin, decoded(key)) for key in keys]
        by_service = signers(checkpoint, own)
        seen = signers(checkpoint, witnesses)
    except (BadNote, Unproven) as error:
        return [Check("log", False, str(error))]
    except (KeyError, TypeError, ValueError, AttributeError):
        return [Check("log", False, "the proofs are not of this format")]
    size = f"{checkpoint.origin} of {checkpoint.size} entries"
    if by_service:
        log = Check("log", True, f"its ledger entries are in the log {size}")
    else:
        log = Check(
            "log", None, f"its ledger entries are in {size}, signed by a key that was not given"
        )
    return [log, _check_witnesses(checkpoint, seen, witnesses, needed)]


def _require_together(
    named: Sequence[Any], proofs: Mapping[str, Any], checkpoint: Checkpoint
) -> None:
    """One proof of all entries: leaf i of it is that of entry i."""
    leaves, nodes = proofs["leaves"], proofs["nodes"]
    if (
        set(proofs) != _NAMES
        or not isinstance(leaves, list)
        or not isinstance(nodes, str)
        or any(set(one) != {"number", "salt"} for one in leaves)
    ):
        raise BadNote("the proofs are not of this format")
    if len(leaves) != len(named):
        raise Unproven("the proof and the certificate differ in their number of entries")
    if len(nodes) > _MOST_HASHES * len(leaves) * 44:  # letters of a hash, at the most
        raise Unproven("the proof is too long")
    hashes = {_number(leaf): _leaf(entry, leaf) for entry, leaf in zip(named, leaves, strict=True)}
    if len(hashes) != len(leaves):
        raise Unproven("two entries have one leaf")
    check_inclusion(hashes, checkpoint.size, read_joined(nodes), checkpoint.root)


def _require_each(named: Sequence[Any], shown: Sequence[Any], checkpoint: Checkpoint) -> None:
    """A path for each entry, as certificates had them until 2026-11-25."""
    proofs = {(one["account"], one["seq"]): one for one in shown}
    for entry in named:
        proof = proofs.get((entry["account"], entry["seq"]))
        if proof is None:
            raise Unproven(f"no proof of entry {entry['seq']} of account {entry['account']}")
        path = read_hashes(proof["path"][:_MOST_HASHES])
        if len(path) != len(proof["path"]):
            raise BadNote("the proofs are not of this format")
        leaf = {_number(proof): _leaf(entry, proof)}
        check_inclusion(leaf, checkpoint.size, path, checkpoint.root)


def _number(leaf: Mapping[str, Any]) -> int:
    number = leaf["number"]
    if type(number) is not int:
        raise BadNote("the proofs are not of this format")
    return number


def _leaf(entry: Mapping[str, Any], leaf: Mapping[str, Any]) -> bytes:
    """The hash of the leaf that this entry has with this salt."""
    if not is_hash(entry["hash"]):
        raise BadNote("the hash of an entry is not of this format")
    salt = decoded(leaf["salt"])
    if len(salt) != _SALT_BYTES:
        raise BadNote("the proofs are not of this format")
    return leaf_hash(commitment(salt, bytes.fromhex(entry["hash"])))


def _check_witnesses(
    checkpoint: Checkpoint, seen: Sequence[Verifier], known: Sequence[Verifier], needed: int
) -> Check:
    others = f"signature lines: {len(checkpoint.lines)}"
    if not known:
        return Check("witnesses", None, f"not checked: no witness's key was given ({others})")
    names = ", ".join(one.name for one in seen) or "none of them"
    found = f"of {len(known)} witnesses that are known signed: {names}"
    least = max(needed, 1)
    return Check(
        "witnesses", len(seen) >= least, found if len(seen) >= least else f"{found}; {least} needed"
    )
