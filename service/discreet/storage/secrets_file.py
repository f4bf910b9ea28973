"""The secrets as they stand in their file now: a rotation reaches running processes by itself."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from pathlib import Path

import structlog

from discreet.errors import DiscreetError
from discreet.storage import secrets
from discreet.storage.impatience import Impatience, Silent
from discreet.storage.keys.opening import IN_FILE, Keys
from discreet.storage.keys.provider import KeysUnavailable, SecretsError
from discreet.storage.secrets import Secrets

log = structlog.get_logger()

RETRY_SECONDS = 2.0
"""Wait before keys are asked for again in a place that did not answer."""

LATE_SECONDS = 1.0
"""Seconds after which a place that has not opened the keys of a changed file is asked in the
background, since the caller may be an event loop."""

Stamp = tuple[int, int, int] | None


class SecretsFile:
    """The secrets of one process. Keys that lie elsewhere are opened once and stay in memory.

    A place that does not answer when the file has changed, or when the process starts, is asked
    again beside the work: until then what was opened before is used, but no master key that the
    file names no longer, so that nothing is written under a key that was retired."""

    def __init__(self, path: Path, keys: Keys = IN_FILE) -> None:
        """SecretsError when the file, or a key in it, cannot be used. A place that does not answer
        raises nothing here: `current` does, until it answers."""
        self.path, self.keys = path, keys
        self._lock = threading.Lock()
        self._impatience = Impatience("keys")
        self._seen: Stamp = None
        self._loaded: Secrets | None = None
        self._trouble: DiscreetError | None = None
        self._unread: SecretsError | None = None
        """Why this process cannot use the current file and continues with the last one."""
        with self._lock:
            try:
                self._take(*self._read())
            except KeysUnavailable as error:
                self._ask_again(error)

    @property
    def current(self) -> Secrets:
        """Looks at the file's date. A file that cannot be read now, in the middle of being
        replaced, is read later. KeysUnavailable while no keys could be opened yet."""
        with self._lock:
            try:
                stamp = self._stamp()
                if self._trouble is not None:
                    self._forget_retired()
                elif stamp != self._seen:
                    known = self.keys.are_open(secrets.texts(self.path))
                    within = self._impatience.within
                    self._take(*(self._read() if known else within(LATE_SECONDS, self._read)))
            except Silent:
                self._ask_again(KeysUnavailable("keys of the changed secrets file do not open yet"))
            except KeysUnavailable as error:
                self._ask_again(error)
            except (OSError, SecretsError) as error:
                self._unread = error if isinstance(error, SecretsError) else None
                self._forget_retired()
            if self._loaded is None:
                assert self._trouble is not None
                raise KeysUnavailable(self._trouble.detail)
            return self._loaded

    def check(self) -> None:
        """DiscreetError where this process lacks keys that the file names, or cannot use those of a
        token."""
        _ = self.current
        if (trouble := self._trouble or self._unread) is not None:
            raise KeysUnavailable(trouble.detail)
        self.keys.check()

    def _read(self) -> tuple[Stamp, Secrets]:
        seen = self._stamp()  # before: a file that is replaced meanwhile is read again
        return seen, secrets.load(self.path, self.keys)

    def _take(self, seen: Stamp, loaded: Secrets) -> None:
        """Under the lock."""
        self._loaded, self._seen, self._trouble, self._unread = loaded, seen, None, None
        self.keys.forget_others(secrets.texts(self.path))

    def _forget_retired(self) -> None:
        """Where the file can be read at all."""
        if self._loaded is None:
            return
        with contextlib.suppress(OSError, SecretsError):
            named = secrets.content_key_ids(self.path)
            kept = {name: key for name, key in self._loaded.content_keys.items() if name in named}
            if len(kept) < len(self._loaded.content_keys):
                self._loaded = replace(self._loaded, content_keys=kept)

    def _ask_again(self, error: KeysUnavailable) -> None:
        """Under the lock."""
        log.warning("keys cannot be opened", why=error.detail)
        self._trouble = error
        self._forget_retired()
        threading.Thread(target=self._keep_asking, name="keys", daemon=True).start()

    def _keep_asking(self) -> None:
        while True:
            time.sleep(RETRY_SECONDS)
            try:
                found = self._read()
                with self._lock:
                    self._take(*found)
            except (OSError, DiscreetError) as error:
                if isinstance(error, DiscreetError):
                    self._trouble = error
                continue
            log.info("keys are open again")
            return

    def _stamp(self) -> Stamp:
        """None where there is no file: `load` says so."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
