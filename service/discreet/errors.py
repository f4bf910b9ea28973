"""What discreet refuses, drawn once.

    DiscreetError
    ├── InvalidInput          a field is wrong; carries JSON pointers
    ├── Unauthenticated       no key, or one that does not count
    ├── Forbidden             the key's role does not allow it
    ├── NotFound              no such object for this tenant
    ├── Conflict              the object is in a state that does not allow it
    │   └── BudgetExhausted   a cap would be passed; carries the binding cap
    ├── PayloadTooLarge       a body over its limit
    ├── Unavailable           a part that discreet needs does not answer
    └── StateHeld             another process owns the state folder

The docstring of each class is its default message. Transport (status codes, problem documents, exit codes) is
decided by the layer that speaks to the outside, never here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldIssue:
    """One bad field: a JSON pointer (RFC 6901) into the request body and one sentence."""

    pointer: str
    detail: str


class DiscreetError(Exception):
    """discreet cannot do this."""

    code = "error"

    def __init__(self, detail: str | None = None, *, code: str | None = None) -> None:
        self.detail = detail if detail is not None else (type(self).__doc__ or "").splitlines()[0]
        if code is not None:
            self.code = code
        super().__init__(self.detail)


class InvalidInput(DiscreetError):
    """A field of the request is not valid."""

    code = "invalid_input"

    def __init__(self, issues: Iterable[FieldIssue] | str = (), *, pointer: str = "", code: str | None = None) -> None:
        if isinstance(issues, str):
            issues = (FieldIssue(pointer, issues),)
        self.issues = tuple(issues)
        first = self.issues[0] if self.issues else None
        super().__init__(f"{first.pointer or '/'}: {first.detail}" if first else None, code=code)

    def under(self, prefix: str) -> InvalidInput:
        """The same issues with their pointers moved below `prefix`."""
        return InvalidInput((FieldIssue(prefix + i.pointer, i.detail) for i in self.issues), code=self.code)


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


class Conflict(DiscreetError):
    """The object is in a state that does not allow this."""

    code = "conflict"


class BudgetExhausted(Conflict):
    """The privacy budget does not allow this request; nothing was charged."""

    code = "budget_exhausted"

    def __init__(self, binding: Mapping[str, object], detail: str | None = None) -> None:
        super().__init__(detail)
        self.binding = dict(binding)


class PayloadTooLarge(DiscreetError):
    """The request body is too large."""

    code = "payload_too_large"


class Unavailable(DiscreetError):
    """A part that discreet needs does not answer; try again."""

    code = "unavailable"


class StateHeld(DiscreetError):
    """Another process holds this state folder."""

    code = "state_held"
