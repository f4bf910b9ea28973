"""A witness: it keeps the last checkpoint that it has signed of each log, and signs another only if
the log has only grown since. A signed checkpoint is on disk before the signature is returned."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import DiscreetError
from discreet.ledger.checkpoints import (
    BadNote,
    Checkpoint,
    Verifier,
    cosign,
    public_bytes,
    read_checkpoint,
)
from discreet.ledger.witnessing import AnotherTree, judge
from discreet.private_files import private_folder, write_private

log = structlog.get_logger()

_KEY = "witness.key"


class Witness:
    """One witness, whose key and checkpoints are in a folder."""

    def __init__(self, folder: Path, name: str, logs: Sequence[Verifier]) -> None:
        """The key is made if the folder has none. `logs`: the logs whose checkpoints it signs."""
        self._folder = private_folder(folder)
        self._name = name
        self._logs = tuple(logs)
        with self._locked():
            self._key = self._read_key()

    @property
    def verifier(self) -> Verifier:
        """The public key with which others check its signatures."""
        return Verifier(self._name, public_bytes(self._key), witness=True)

    def sign(self, request: str) -> str:
        """The signature line for a log's request, with its line break. Raises Refused."""
        with self._locked():
            try:
                checkpoint = judge(request, self._logs, self.last)
            except AnotherTree:
                evidence = self._folder / f"{hashlib.sha256(request.encode()).hexdigest()}.evidence"
                write_private(evidence, request)
                log.error("a log has signed two trees of one size", evidence=str(evidence))
                raise
            write_private(self._place(checkpoint.origin), checkpoint.note)
        return cosign(checkpoint, self._name, self._key, int(time.time())) + "\n"

    def last(self, origin: str) -> Checkpoint | None:
        """The last checkpoint of a log that it has signed; None if it has signed none."""
        try:
            return read_checkpoint(self._place(origin).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (BadNote, UnicodeDecodeError) as error:
            raise DiscreetError(f"{self._place(origin)} is not a checkpoint: {error}") from None

    def _place(self, origin: str) -> Path:
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.checkpoint"

    def _read_key(self) -> Ed25519PrivateKey:
        place = self._folder / _KEY
        if not place.exists():
            write_private(
                place,
                base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode() + "\n",
            )
        try:
            return Ed25519PrivateKey.from_private_bytes(
                base64.b64decode(place.read_text().strip(), validate=True)
            )
        except ValueError:
            raise DiscreetError(
                f"{place} is not the key of a witness, which is 32 bytes in base64"
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, so that only one process at a time signs."""
        file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)
