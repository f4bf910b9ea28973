"""The request to a witness, and when it signs (C2SP tlog-witness): only checkpoints of a log that
it knows, and that has only grown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from discreet.ledger.checkpoints import (
    LONGEST_NOTE,
    BadNote,
    Checkpoint,
    Verifier,
    hashes_text,
    read_checkpoint,
)
from discreet.ledger.checkpoints import read_hashes as hashes_of
from discreet.ledger.tree import Unproven, check_consistency

MOST_HASHES = 63
"""Hashes of a proof at most, as the specification says."""
LONGEST_REQUEST = LONGEST_NOTE + 4096

SIZE_TYPE = "text/x.tlog.size"
"""Media type of the answer to a conflict: the size that the witness signed last."""


@dataclass
class Refused(Exception):
    """The answer of a witness that does not sign."""

    status: int
    why: str

    def __str__(self) -> str:
        return self.why


class AnotherTree(Refused):
    """The log has signed two trees of one size: it shows people different ledgers."""


def request_text(old: int, path: Sequence[bytes], checkpoint: Checkpoint) -> str:
    """The request to a witness that has signed the first `old` leaves, with the proof that the log
    still holds them."""
    return "".join(f"{line}\n" for line in (f"old {old}", *hashes_text(path), "")) + checkpoint.note


def judge(
    text: str, logs: Collection[Verifier], last: Callable[[str], Checkpoint | None]
) -> Checkpoint:
    """The checkpoint of a request, if it may be signed: one of these logs has signed it, and it
    extends `last(origin)`, the checkpoint of that log signed last. Refused otherwise."""
    head, found, note = text.partition("\n\n")
    first, *hashes = head.split("\n")
    word, _, number = first.partition(" ")
    if len(text) > LONGEST_REQUEST or not found or word != "old" or len(hashes) > MOST_HASHES:
        raise Refused(
            400, "a request is `old N`, the hashes of a proof, an empty line, and a checkpoint"
        )
    if not (
        number.isascii() and number.isdigit() and len(number) < 19 and str(int(number)) == number
    ):
        raise Refused(400, "the old size is not a number")
    try:
        checkpoint, path = read_checkpoint(note), hashes_of(hashes)
    except BadNote as error:
        raise Refused(400, str(error)) from None
    known = [log for log in logs if log.name == checkpoint.origin]
    if not known:
        raise Refused(404, "this log is not known here")
    try:
        signed = any(checkpoint.signed_by(log) for log in known)
    except BadNote as error:
        raise Refused(403, str(error)) from None
    if not signed:
        raise Refused(403, "the checkpoint is not signed by a key of this log that is known here")
    _require_growth(int(number), path, checkpoint, last(checkpoint.origin))
    return checkpoint


def _require_growth(
    old: int, path: Sequence[bytes], checkpoint: Checkpoint, before: Checkpoint | None
) -> None:
    size = 0 if before is None else before.size
    if old > checkpoint.size:
        raise Refused(400, "the old size is larger than the checkpoint's")
    if old != size:
        raise Refused(409, f"{size}\n")
    if before is not None and size == checkpoint.size and before.root != checkpoint.root:
        raise AnotherTree(409, f"{size}\n")
    try:
        if before is not None:
            check_consistency(old, checkpoint.size, before.root, checkpoint.root, path)
        elif path:
            raise Unproven("there is nothing to prove to a witness that has seen nothing")
    except Unproven as error:
        raise Refused(422, str(error)) from None
