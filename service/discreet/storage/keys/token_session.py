"""A session with a PKCS#11 token that is there whenever somebody wants it, and never for longer
than a wait can last.

All calls to tokens of a process come from one thread: libraries differ in what they stand of
several, and a call that hangs, which nothing can end, then holds up that thread alone. Who asks
waits CALL_SECONDS, and hears at once that the token does not answer as long as a call hangs."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pkcs11
from pkcs11 import PKCS11Error, TokenFlag, exceptions

from discreet.storage.keys.provider import KeysUnavailable, SecretsError

CALL_SECONDS = 3.0

ATTEMPTS = 3
"""In the session that is open, in a new one, and in a new one of a library that has begun anew."""

Answer = TypeVar("Answer")

_REFUSED: dict[type[PKCS11Error], str] = {
    exceptions.PinIncorrect: "does not take the PIN",
    exceptions.PinInvalid: "does not take the PIN",
    exceptions.PinLenRange: "does not take the PIN",
    exceptions.PinExpired: "says that the PIN has expired",
    exceptions.PinLocked: "has locked the PIN",
    exceptions.UserPinNotInitialized: "has no user PIN yet",
    exceptions.MechanismInvalid: "lacks a mechanism that is needed (CKM_AES_GCM, CKM_EDDSA)",
    exceptions.TokenWriteProtected: "takes no new keys",
}
"""Errors that waiting does not cure."""


class Line:
    """The thread of all tokens."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._hangs: Future[Any] | None = None

    def ask(self, call: Callable[[], Answer]) -> Answer:
        """The answer of a call; KeysUnavailable where none comes in time."""
        hangs = self._hangs
        if hangs is not None and not hangs.done():
            raise KeysUnavailable(
                "the token does not answer: a call to it hangs; nothing was done, try again"
            )
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="pkcs11", daemon=True)
                self._thread.start()
        answer: Future[Answer] = Future()
        self._orders.put((answer, call))
        try:
            return answer.result(CALL_SECONDS)
        except TimeoutError:
            self._hangs = answer
            raise KeysUnavailable(
                f"the token gives no answer within {CALL_SECONDS:g} s; nothing was done, try again"
            ) from None

    def _serve(self) -> None:
        while True:
            answer, call = self._orders.get()
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)


LINE = Line()


@dataclass
class Session:
    """One login: the library's session, and the keys that were found in it, by id and class."""

    raw: Any
    writes: bool
    found: dict[tuple[bytes, int], Any] = field(default_factory=dict)


class TokenSession:
    """Opened when it is first needed, and again when the token was away."""

    def __init__(self, module: str, label: str, pin: str) -> None:
        """`module`: the library's path; `label`: the token's."""
        self.label = label
        self._module, self._pin = module, pin
        self._open: Session | None = None
        self._refused: SecretsError | None = None

    def __repr__(self) -> str:
        return f"TokenSession({self.label!r})"

    def run(self, call: Callable[[Session], Answer], *, writes: bool = False) -> Answer:
        """What `call` gives on an open session, which `writes` where it makes keys. A call must be
        one that may be said twice. SecretsError where the token refuses for good, KeysUnavailable
        where it is away."""
        return LINE.ask(lambda: self._run(call, writes))

    def _run(self, call: Callable[[Session], Answer], writes: bool) -> Answer:
        for attempt in range(ATTEMPTS):
            try:
                return call(self._session(writes))
            except PKCS11Error as error:
                last = error
            self._close()
            if type(last) in _REFUSED:
                raise self._refusal(last)
            if (
                attempt == ATTEMPTS - 2
            ):  # a library may be unable to find a token again that was away
                self._begin_anew()
        raise KeysUnavailable(
            f"token {self.label} does not answer ({type(last).__name__}); nothing was done, try "
            "again"
        )

    def _session(self, writes: bool) -> Session:
        if self._refused is not None:  # a PIN is not tried again and again: a token locks it
            raise self._refused
        if self._open is None or (writes and not self._open.writes):
            self._close()
            self._open = Session(self._login(writes), writes)
        return self._open

    def _login(self, writes: bool) -> Any:
        library = _library(self._module)
        try:
            token = library.get_token(token_label=self.label)
        except exceptions.MultipleTokensReturned:
            raise SecretsError(f"there are several tokens {self.label}") from None
        if token.flags & (TokenFlag.USER_PIN_FINAL_TRY | TokenFlag.USER_PIN_LOCKED):
            self._refused = SecretsError(
                f"the PIN of token {self.label} was wrong so often that it is locked, or would be "
                "after one more attempt, which is not made: log in once by hand"
            )
            raise self._refused
        try:
            return token.open(rw=writes, user_pin=self._pin)
        except exceptions.UserAlreadyLoggedIn:  # a login is the whole process's
            return token.open(rw=writes)

    def _close(self) -> None:
        if self._open is not None:
            with contextlib.suppress(PKCS11Error):
                self._open.raw.close()
            self._open = None

    def _refusal(self, error: PKCS11Error) -> SecretsError:
        refusal = SecretsError(f"the token {self.label} {_REFUSED[type(error)]}")
        if "PIN" in _REFUSED[type(error)]:
            self._refused = refusal
        return refusal

    def _begin_anew(self) -> None:
        with contextlib.suppress(PKCS11Error, SecretsError):
            _library(self._module).reinitialize()


def _library(path: str) -> Any:
    try:
        return pkcs11.lib(path)
    except PKCS11Error as error:
        if type(error) is not PKCS11Error:  # the library is there, and says something of its tokens
            raise
        raise SecretsError(f"the library of the token, {path}, cannot be loaded") from error
