"""What goes wrong, drawn once.

ClientError
├── ApiError                the server refused: its problem document (RFC 9457)
│   ├── InvalidInput        a field is wrong; `errors` has JSON pointers            400, 413, 422
│   ├── Unauthenticated     no key, or one that is not valid                      401
│   ├── Forbidden           the key's role does not allow it                        403
│   ├── NotFound            no such object for this tenant                          404
│   ├── Conflict            the object is in a state that does not allow it         409
│   │   └── BudgetExhausted a cap would be passed; `binding` says which; nothing was charged
│   ├── RateLimited         too many requests with this key                         429
│   └── ServerError         a fault of the server, or it cannot answer now          5xx
├── JobFailed               a job that was waited for did not succeed
├── ResultAltered           what came is not the result that its certificate was signed for
├── MissingExtra            an optional package is needed and not installed
└── Unreachable             the server does not answer, or what answers is none

AlreadyReleased             a warning: what `solve` has submitted had been released before
OtherAccounts               a warning: the people of a new dataset may be in others, on other
                            accounts, too
LeftOut                     a warning: what a reader of tables left out, or took in another way than
                            it stands there
RoundedDown                 a warning: a budget had more decimals than the service counts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class ClientError(Exception):
    """Base of all errors of this client: what it was asked to do did not happen."""


class LeftOut(UserWarning):
    """What a reader of tables left out, or read differently from how it is written, in a
    sentence."""


class RoundedDown(UserWarning):
    """A budget has more decimals than the service counts, and was rounded down."""


class OtherAccounts(UserWarning):
    """A new dataset has an account of its own, and there are others of the same unit: if anybody is
    in two of them, their losses add up over both, and neither cap bounds the sum."""


class AlreadyReleased(UserWarning):
    """The submitted job pays once more for what earlier jobs have released: `reusable` lists these,
    the one with the least noise first; `job` is the new one. Pass `anew=True` if this is meant."""

    def __init__(self, job: str, reusable: Sequence[str]) -> None:
        super().__init__(job, reusable)
        self.job, self.reusable = job, list(reusable)

    def __str__(self) -> str:
        first = self.reusable[0]
        return (
            f"{self.job} is charged for what {first} has released already: ask_again({first!r}, …) "
            "costs nothing. Cancelled before its data are touched, the new job costs nothing "
            "either. anew=True says that you mean to pay once more"
        )


@dataclass(frozen=True)
class FieldError:
    """One bad field: a JSON pointer (RFC 6901) into the request's body, and one sentence."""

    pointer: str
    detail: str


class ApiError(ClientError):
    """The server refused. `code` is the stable name of the error; `problem` the whole document."""

    def __init__(
        self, status: int, problem: Mapping[str, Any], *, retry_after: float | None = None
    ) -> None:
        self.status = status
        self.problem = dict(problem)
        self.code = str(problem.get("code", "http_error"))
        self.detail = str(problem.get("detail", f"HTTP {status}"))
        self.errors = tuple(
            FieldError(issue["pointer"], issue["detail"]) for issue in problem.get("errors") or ()
        )
        self.binding: dict[str, Any] | None = problem.get("binding")
        self.retry_after = retry_after
        """Seconds after which to ask the server again, if it said so."""
        lines = [f"{issue.pointer or '/'}: {issue.detail}" for issue in self.errors]
        super().__init__("; ".join(lines) or self.detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.status, self.problem, self.retry_after)


class InvalidInput(ApiError):
    """A field of the request is not valid."""


class Unauthenticated(ApiError):
    """A valid API key is needed."""


class Forbidden(ApiError):
    """The role of this key does not allow this."""


class NotFound(ApiError):
    """There is no such object."""


class Conflict(ApiError):
    """The object is in a state that does not allow this."""


class BudgetExhausted(Conflict):
    """The privacy budget does not allow this request; nothing was charged. A traceback shows beside
    the server's words, which name paths and commands, how an owner is asked for more in Python."""

    def __init__(
        self, status: int, problem: Mapping[str, Any], *, retry_after: float | None = None
    ) -> None:
        super().__init__(status, problem, retry_after=retry_after)
        bound = self.binding or {}
        if bound.get("account") and bound.get("scope") != "agent":
            self.add_note(
                f"in Python: client.request_budget({bound['account']!r}, epsilon=…, reason=…) asks "
                "an owner for more"
            )


class RateLimited(ApiError):
    """Too many requests."""


class ServerError(ApiError):
    """The server failed, or cannot answer now."""


class JobFailed(ClientError):
    """A job ended without a result."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = dict(job)
        error = job.get("error") or {}
        self.code = str(error.get("code", job["state"]))
        super().__init__(
            f"job {job['id']} {job['state']}{': ' if error else ''}{error.get('detail', '')}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job,)


class ResultAltered(ClientError):
    """The received result is not the one that its certificate was signed for."""


class MissingExtra(ClientError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, why: str) -> None:
        super().__init__(
            f"{why} needs {package}: pip install 'discreet-client[{extra}]'", name=package
        )


class Unreachable(ClientError):
    """The server does not answer, or what answers is not a discreet server."""


BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidInput,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: InvalidInput,
    422: InvalidInput,
    429: RateLimited,
}


def api_error(
    status: int, problem: Mapping[str, Any], *, retry_after: float | None = None
) -> ApiError:
    """The exception of a problem document."""
    kind = BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if problem.get("code") == "budget_exhausted":
        kind = BudgetExhausted
    return kind(status, problem, retry_after=retry_after)


def _revive(
    kind: type[ApiError], status: int, problem: Mapping[str, Any], retry_after: float | None
) -> ApiError:
    return kind(status, problem, retry_after=retry_after)
