"""When a request is sent again, and after how long. No I/O here."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from discreet_client.errors import ApiError, Unreachable, api_error

ATTEMPTS = 5
BACKOFF_SECONDS = 0.2
MAX_WAIT_SECONDS = 60.0
"""If the server asks for a longer wait, the request is not repeated and its error is raised."""
BUSY = (429, 503)


def problem_of(response: httpx.Response) -> ApiError:
    """The error in a response whose body was read."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    after = retry_after(response.headers)
    return api_error(
        response.status_code, problem if isinstance(problem, dict) else {}, retry_after=after
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of the header Retry-After, which holds a number or a date; None without one."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:  # "-0000"
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def backoff(attempt: int, asked: float | None = None) -> float:
    """Seconds to wait after failed attempt 1, 2, …: doubled each time, with jitter, and never less
    than the server asked for."""
    own = BACKOFF_SECONDS * 2.0 ** (attempt - 1) * random.uniform(1, 1.25)  # noqa: S311 - no secret
    return max(own, asked or 0.0)


class Attempts:
    """The attempts of one request.

    A request that is not `repeatable` (a POST without an idempotency key) is sent again only if it
    certainly had no effect: its connection was never made, or the server refused it with 429.
    """

    def __init__(self, *, repeatable: bool, server: str, busy_codes: tuple[str, ...] = ()) -> None:
        self._repeatable = repeatable
        self._server = server
        self._busy_codes = busy_codes
        self._done = 0

    def broke(self, error: httpx.TransportError) -> float:
        """Seconds to wait after a broken connection; raises Unreachable if the request must not be
        sent again."""
        self._done += 1
        never_sent = isinstance(
            error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
        )
        if self._done >= ATTEMPTS or not (self._repeatable or never_sent):
            raise Unreachable(f"the server at {self._server} does not answer") from error
        return backoff(self._done)

    def refused(self, response: httpx.Response) -> float:
        """Seconds to wait after a refusal; raises it if the request must not be sent again."""
        self._done += 1
        refusal = problem_of(response)
        busy = refusal.status in BUSY or refusal.code in self._busy_codes
        harmless = self._repeatable or refusal.status == 429
        wait = backoff(self._done, refusal.retry_after)
        if self._done >= ATTEMPTS or not (busy and harmless) or wait > MAX_WAIT_SECONDS:
            raise refusal
        return wait
