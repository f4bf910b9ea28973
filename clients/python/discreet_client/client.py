"""A client of the HTTP API: thin, typed by its answers' documents, safe to retry.

with Client("http://127.0.0.1:8080", key) as client:
    job = client.submit(problem, epsilon=0.1)
    answer = client.wait(job["id"])
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import TracebackType
from typing import Any, BinaryIO, Self

import httpx

Json = dict[str, Any]
OnProgress = Callable[[str, int, int], None]
"""Called with (state, step, total)."""

FINAL = ("succeeded", "failed", "cancelled")
RETRIES = 5
BACKOFF_SECONDS = 0.2


class ApiError(Exception):
    """The server refused: its problem document (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        self.code = str(problem.get("code", "http_error"))
        issues = problem.get("errors") or []
        lines = [f"{issue['pointer'] or '/'}: {issue['detail']}" for issue in issues]
        super().__init__("; ".join(lines) or str(problem.get("detail", f"HTTP {status}")))


class Unreachable(Exception):
    """The server does not answer."""


class Client:
    """One server and one API key. Calls are retried when the connection breaks or the server says 503.

    A submission carries an idempotency key, so that a retry is the same job and the same charge.
    """

    def __init__(self, server: str, key: str, *, timeout_seconds: float = 60.0) -> None:
        self._http = httpx.Client(
            base_url=server, headers={"Authorization": f"Bearer {key}"}, timeout=timeout_seconds, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Datasets

    def register(self, dataset: Mapping[str, Any]) -> Json:
        """Register a dataset with its content in the body."""
        return self._json("POST", "/v1/datasets", json_body=dataset)

    def upload(self, metadata: Mapping[str, Any], content: BinaryIO, filename: str) -> Json:
        """Register a dataset whose content is a Parquet, CSV or JSON file."""
        files = {"content": (filename, content)}
        return self._json("POST", "/v1/datasets", data={"metadata": _dumps(metadata)}, files=files)

    def dataset(self, dataset_id: str) -> Json:
        return self._json("GET", f"/v1/datasets/{dataset_id}")

    def delete_dataset(self, dataset_id: str) -> None:
        self._send("DELETE", f"/v1/datasets/{dataset_id}")

    # Jobs

    def plan(self, body: Mapping[str, Any]) -> Json:
        """The plan and price of a job body; nothing is spent."""
        return self._json("POST", "/v1/plans", json_body=body)

    def submit(self, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Submit a job body `{problem, privacy, seed?}`."""
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return self._json("POST", "/v1/jobs", json_body=body, headers=headers, in_flight_is_busy=True)

    def job(self, job_id: str) -> Json:
        return self._json("GET", f"/v1/jobs/{job_id}")

    def jobs(self, **query: Any) -> Json:
        return self._json("GET", "/v1/jobs", params=query)

    def result(self, job_id: str) -> Json:
        return self._json("GET", f"/v1/jobs/{job_id}/result")

    def result_table(self, job_id: str, table: str) -> bytes:
        """A large field of a result, as the bytes of a Parquet file."""
        return self._send("GET", f"/v1/jobs/{job_id}/result/{table}").content

    def cancel(self, job_id: str) -> Json:
        return self._json("POST", f"/v1/jobs/{job_id}/cancel")

    def events(self, job_id: str) -> Iterator[tuple[str, Json]]:
        """The job's events until it ends, resumed where a connection broke."""
        last = 0
        silent = 0
        while True:
            try:
                for number, event, data in self._stream(job_id, last):
                    last, silent = number, 0
                    yield event, data
                    if event == "state" and data["state"] in FINAL:
                        return
            except httpx.TransportError:
                silent += 1
                if silent > RETRIES:
                    raise Unreachable("the server does not answer") from None
                time.sleep(BACKOFF_SECONDS * 2**silent)
            else:  # the stream ended with its server
                time.sleep(BACKOFF_SECONDS)

    def wait(self, job_id: str, on_progress: OnProgress | None = None) -> Json:
        """The job when it has ended."""
        state, step, total = "queued", 0, 1
        for event, data in self.events(job_id):
            if event == "state":
                state = data["state"]
            else:
                step, total = data["step"], data["total"]
            if on_progress is not None:
                on_progress(state, step, total)
        return self.job(job_id)

    # Sessions of federated jobs

    def session_tokens(self, job_id: str, *, owner: str, count: int = 1, group: str | None = None) -> Json:
        """Links for agents; `owner` is the fingerprint of the key that will sign the roster."""
        body: Json = {"owner": owner, **({"count": count} if group is None else {"group": group})}
        return self._json("POST", f"/v1/sessions/{job_id}/tokens", json_body=body)

    def session(self, job_id: str) -> Json:
        return self._json("GET", f"/v1/sessions/{job_id}")

    def approve_session(
        self, job_id: str, *, roster: str, signature: str, owner_key: str, save_as: str | None = None
    ) -> Json:
        """Hand in the signed roster (`federation.rosters`); key and signature in base64."""
        body = {"roster": roster, "signature": signature, "owner_key": owner_key}
        return self._json(
            "PUT",
            f"/v1/sessions/{job_id}/roster",
            json_body={**body, **({"save_as": save_as} if save_as is not None else {})},
        )

    # Budgets

    def budgets(self) -> list[Json]:
        return list(self._json("GET", "/v1/budgets")["budgets"])

    def budget(self, account_id: str) -> Json:
        return self._json("GET", f"/v1/budgets/{account_id}")

    def grant(self, account_id: str, *, epsilon: Decimal | float, delta: Decimal | float, reason: str) -> Json:
        body = {"cap": {"epsilon": epsilon, "delta": delta}, "reason": reason}
        return self._json("POST", f"/v1/budgets/{account_id}/grants", json_body=body)

    def entries(self, account_id: str) -> Iterator[Json]:
        """All ledger entries of a budget, in the order of their chain."""
        token: str | None = None
        while True:
            query = {} if token is None else {"page_token": token}
            page = self._json("GET", f"/v1/budgets/{account_id}/entries", params=query)
            yield from page["entries"]
            token = page["next_page_token"]
            if token is None:
                return

    # The ledger as a whole

    def caps(self) -> list[Json]:
        """The caps on the tenant and on its principals."""
        return list(self._json("GET", "/v1/caps")["caps"])

    def set_cap(
        self,
        *,
        scope: str,
        epsilon: Decimal | float,
        delta: Decimal | float,
        reason: str,
        principal: str | None = None,
    ) -> Json:
        """Cap what the tenant, or one principal of it, may spend over all data."""
        body = {"scope": scope, "cap": {"epsilon": epsilon, "delta": delta}, "reason": reason}
        return self._json("POST", "/v1/caps", json_body={**body, **({"principal": principal} if principal else {})})

    def ledger_head(self) -> Json:
        """The signed head of the tenant's ledger."""
        return self._json("GET", "/v1/ledger/head")

    def export_ledger(self, out: BinaryIO) -> None:
        """Write the whole ledger as JSON Lines, as it comes."""
        try:
            with self._http.stream("GET", "/v1/ledger/export") as response:
                if not response.is_success:
                    response.read()
                    raise _problem(response)
                for part in response.iter_bytes():
                    out.write(part)
        except httpx.TransportError as error:
            raise Unreachable("the export broke off; what was written is not whole") from error

    def verify_certificate(self, certificate: Mapping[str, Any]) -> Json:
        """What the server makes of a certificate: `{valid, checks}`."""
        return self._json("POST", "/v1/certificates:verify", json_body={"certificate": certificate})

    # Tenants and keys

    def create_tenant(self, name: str) -> Json:
        return self._json("POST", "/v1/tenants", json_body={"name": name})

    def create_key(
        self, *, role: str, principal: str, tenant: str | None = None, expires_at: str | None = None
    ) -> Json:
        """A new key, shown this once; `expires_at` in RFC 3339."""
        body = {"role": role, "principal": principal, "tenant": tenant, "expires_at": expires_at}
        return self._json("POST", "/v1/keys", json_body={name: value for name, value in body.items() if value})

    def list_keys(self) -> list[Json]:
        """The tenant's keys, without their secrets."""
        return list(self._json("GET", "/v1/keys")["keys"])

    def revoke_key(self, key_id: str) -> None:
        self._send("DELETE", f"/v1/keys/{key_id}")

    # Transport

    def _json(self, method: str, path: str, **request: Any) -> Json:
        answer: Json = self._send(method, path, **request).json()
        return answer

    def _send(
        self,
        method: str,
        path: str,
        *,
        json_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        in_flight_is_busy: bool = False,
        **request: Any,
    ) -> httpx.Response:
        """Send, again when nothing was done: POST without an idempotency key is sent once only."""
        if json_body is not None:
            request["content"] = _dumps(json_body)
            headers = {**(headers or {}), "Content-Type": "application/json"}
        repeatable = method != "POST" or "Idempotency-Key" in (headers or {}) or path == "/v1/plans"
        for attempt in range(RETRIES):
            last = attempt == RETRIES - 1 or not repeatable
            try:
                response = self._http.request(method, path, headers=headers, **request)
            except httpx.TransportError as error:
                if last:
                    raise Unreachable(f"the server at {self._http.base_url} does not answer") from error
            else:
                if response.is_success:
                    return response
                refusal = _problem(response)
                busy = refusal.status == 503 or (in_flight_is_busy and refusal.code == "request_in_flight")
                if last or not busy:
                    raise refusal
            time.sleep(BACKOFF_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _stream(self, job_id: str, last: int) -> Iterator[tuple[int, str, Json]]:
        headers = {"Last-Event-ID": str(last)}
        with self._http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response:
            if not response.is_success:
                response.read()
                raise _problem(response)
            number, event = last, "message"
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    number = int(value)
                elif name == "event":
                    event = value
                elif name == "data":
                    yield number, event, json.loads(value)


def _problem(response: httpx.Response) -> ApiError:
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": f"HTTP {response.status_code}"}
    return ApiError(response.status_code, problem if isinstance(problem, dict) else {})


def _dumps(value: Mapping[str, Any]) -> str:
    """JSON; a Decimal becomes the nearest double, written shortest: up to 15 digits arrive as they were."""
    return json.dumps(value, cls=_Encoder, allow_nan=False, separators=(",", ":"))


class _Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, Decimal):
            return float(o)
        return super().default(o)
