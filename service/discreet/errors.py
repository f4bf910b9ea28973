"""What discreet refuses, drawn once.

    DiscreetError
    ├── InvalidInput          a field is wrong; carries JSON pointers
    ├── Unauthenticated       no key, or one that is not valid
    ├── Forbidden             the key's role does not allow it
    ├── NotFound              no such object for this tenant
    ├── Gone                  it was deleted at the end of its retention period
    ├── Conflict              the object is in a state that does not allow it
    │   ├── BudgetExhausted   a cap would be exceeded; carries the binding cap
    │   ├── Exposed           opened sums show too much of few agents, and nobody has accepted that;
    │   │                     carries JSON pointers
    │   └── ReleaseDiffers    what is asked differs from what the release fixed; carries JSON
    │                         pointers
    ├── PayloadTooLarge       a body over its limit
    ├── TooManyRequests       the key has used up its requests for now
    ├── TooManyAtOnce         too much of a key or tenant is in flight: uploads, bodies, streams
    ├── ResultAltered         a stored result is not what was published
    ├── Unavailable           a part that discreet needs does not answer
    └── StateHeld             another process owns the state folder

The docstring of each class is its default message. Transport (status codes, problem documents, exit
codes) is decided by the layer that speaks to the outside, never here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class FieldIssue:
    """One bad field: a JSON pointer (RFC 6901) into the request body and one sentence."""

    pointer: str
    detail: str
    more: Mapping[str, object] | None = None
    """Of a mistake in a table: row, column, cause, found, expected, way_out, count, last."""


@dataclass(frozen=True)
class Limit:
    """A limit that a request exceeded: its setting (or fixed name), what it allows, and what was
    sent. `came` is None where reading stopped at the limit.
    """

    setting: str
    unit: str
    allowed: int
    came: int | None = None


class DiscreetError(Exception):
    """discreet cannot do this."""

    code = "error"
    limit: Limit | None = None

    def __init__(self, detail: str | None = None, *, code: str | None = None) -> None:
        self.detail = detail if detail is not None else (type(self).__doc__ or "").splitlines()[0]
        if code is not None:
            self.code = code
        super().__init__(self.detail)


class InvalidInput(DiscreetError):
    """A field of the request is not valid."""

    code = "invalid_input"

    def __init__(
        self,
        issues: Iterable[FieldIssue] | str = (),
        *,
        pointer: str = "",
        code: str | None = None,
        limit: Limit | None = None,
    ) -> None:
        if isinstance(issues, str):
            issues = (FieldIssue(pointer, issues),)
        self.issues = tuple(issues)
        self.limit = limit
        first = self.issues[0] if self.issues else None
        where = f"{first.pointer}: " if first and first.pointer else ""
        super().__init__(where + first.detail if first else None, code=code)

    def under(self, prefix: str) -> InvalidInput:
        """The same error, with its pointers moved below `prefix`."""
        moved = (FieldIssue(prefix + i.pointer, i.detail, i.more) for i in self.issues)
        return InvalidInput(moved, code=self.code, limit=self.limit)


class Unauthenticated(DiscreetError):
    """A valid API key is needed."""

    code = "unauthenticated"


class Forbidden(DiscreetError):
    """The role of this key does not allow this."""

    code = "forbidden"


class NotFound(DiscreetError):
    """There is no such object."""

    code = "not_found"

    def __init__(self, detail: str | None = None, *, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.issues = () if pointer is None else (FieldIssue(pointer, self.detail),)


class Gone(DiscreetError):
    """It was deleted at the end of its retention period."""

    code = "gone"


class Conflict(DiscreetError):
    """The object is in a state that does not allow this."""

    code = "conflict"


class BudgetExhausted(Conflict):
    """The privacy budget does not allow this request; nothing was charged."""

    code = "budget_exhausted"

    def __init__(self, binding: Mapping[str, object], detail: str | None = None) -> None:
        super().__init__(detail)
        self.binding = dict(binding)


class Exposed(Conflict):
    """The sums that the job opens reveal too much about so few agents, and nobody has accepted
    that."""

    code = "exposed"

    def __init__(self, detail: str, pointer: str) -> None:
        super().__init__(detail)
        self.issues = (FieldIssue(pointer, detail),)


class ReleaseDiffers(Conflict):
    """What is asked is not what the first job released."""

    code = "release_differs"

    def __init__(self, issues: Iterable[FieldIssue]) -> None:
        self.issues = tuple(issues)
        first = self.issues[0]
        super().__init__(f"{first.pointer}: {first.detail}")


class PayloadTooLarge(DiscreetError):
    """The request body is too large."""

    code = "payload_too_large"

    def __init__(
        self, detail: str | None = None, *, code: str | None = None, limit: Limit | None = None
    ) -> None:
        """Without `detail` the message is made from the limit."""
        if detail is None and limit is not None:
            came = "" if limit.came is None else f", this one has {limit.came}"
            detail = f"a request may have {limit.allowed} {limit.unit} ({limit.setting}){came}"
        super().__init__(detail, code=code)
        self.limit = limit


class TooManyRequests(DiscreetError):
    """This key has used up its requests for now."""

    code = "rate_limited"

    def __init__(self, limit: Limit, window_seconds: int, seconds_left: int) -> None:
        super().__init__(
            f"this key may ask {limit.allowed} times in {window_seconds} s ({limit.setting}); "
            f"again in {seconds_left} s"
        )
        self.limit = limit
        self.window_seconds = window_seconds
        self.seconds_left = seconds_left


class TooManyAtOnce(DiscreetError):
    """So much of this key or tenant is in flight already; again when some of it has ended."""

    doing: ClassVar[str]
    """What is in flight, after its number."""

    def __init__(self, limit: Limit, seconds_left: int) -> None:
        super().__init__(
            f"{limit.allowed} {self.doing} ({limit.setting}); send this one again when one of them "
            "is done"
        )
        self.limit = limit
        self.seconds_left = seconds_left


class TooManyUploads(TooManyAtOnce):
    """Too many contents of this tenant are being registered."""

    code = "too_many_uploads"
    doing = "contents of this tenant are being registered"


class TooManyBodies(TooManyAtOnce):
    """Too many large requests of this tenant are being worked on, and none ended in time."""

    code = "too_many_bodies"
    doing = "large requests of this tenant are being worked on"


class TooManyStreams(TooManyAtOnce):
    """This key has as many event streams open as one may have."""

    code = "too_many_streams"
    doing = "event streams of this key are open"


class Unavailable(DiscreetError):
    """A part that discreet needs does not answer; try again."""

    code = "unavailable"


class ResultAltered(DiscreetError):
    """The stored result is not what was published: it was changed outside the service."""

    code = "result_altered"


class StateHeld(DiscreetError):
    """Another process holds this state folder."""

    code = "state_held"
