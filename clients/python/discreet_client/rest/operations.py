"""The operations of the contract, one function each, which makes the request and
sends nothing.

`Client.call` and `AsyncClient.call` send it and return the answer in the type that is stated here.
Refusals are `discreet_client.errors.ApiError`, whose `code` is one of the problem codes named
below.
"""
# Made from openapi/openapi.json by `make sdk`.

from __future__ import annotations

from typing import Literal

from discreet_client.rest import Operation, models, quoted


def check_health() -> Operation[models.HealthAnswer]:
    """Whether this process answers.

    Answers 200. Roles: none is needed.

    Problem codes:
    422 invalid_parameter
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, unavailable, wrong_schema
    """
    return Operation("GET", "/healthz")


def check_readiness() -> Operation[models.HealthAnswer]:
    """Whether this process can serve: its database answers and has the schema of this version,
    news of jobs arrives, and the reader of uploads has not failed to start.

    Answers 200. Roles: none is needed.

    Problem codes:
    422 invalid_parameter
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, not_ready, unavailable, wrong_schema
    """
    return Operation("GET", "/readyz")


def list_changes(
    *,
    action: str | None = None,
    by: str | None = None,
    since: str | None = None,
    page_size: int | None = None,
    page_token: str | None = None,
) -> Operation[models.AuditLogPage]:
    """Who changed what, newest first: datasets, caps, keys, tenants, rosters, logins, removals;
    operators see all tenants. What was spent, and by whom, is in the ledger.

    action: length <= 500, matches `^[^\x00]*$`
    by: length <= 500, matches `^[^\x00]*$`
    since: date-time
    page_size: >= 1, <= 1000; default `100`

    Answers 200. Roles: operator, owner, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_page_token, invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "GET",
        "/v1/audit-log",
        query={
            "action": action,
            "by": by,
            "since": since,
            "page_size": page_size,
            "page_token": page_token,
        },
    )


def list_budgets(*, delta: float | str | None = None) -> Operation[models.BudgetList]:
    """All budgets of the tenant: cap, spent, reserved, remaining, and the largest request that
    passes.

    delta: The delta for which `largest_request` is computed; default `0`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/budgets", query={"delta": delta})


def get_budget(
    account_id: str, *, delta: float | str | None = None
) -> Operation[models.BudgetAnswer]:
    """One budget, as the ledger stands now.

    delta: The delta for which `largest_request` is computed; default `0`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/budgets/{quoted(account_id)}", query={"delta": delta})


def list_entries(
    account_id: str, *, page_size: int | None = None, page_token: str | None = None
) -> Operation[models.EntryPage]:
    """Ledger entries of a budget in the order of their hash chain.

    page_size: >= 1, <= 1000; default `100`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_page_token, invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "GET",
        f"/v1/budgets/{quoted(account_id)}/entries",
        query={"page_size": page_size, "page_token": page_token},
    )


def grant_budget(account_id: str, body: models.GrantRequest) -> Operation[models.BudgetAnswer]:
    """Set a new cap, with a reason that stays in the ledger; never below what is spent.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 cap_below_spent, request_answered
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", f"/v1/budgets/{quoted(account_id)}/grants", body=body)


def list_budget_requests(account_id: str) -> Operation[models.BudgetRequestList]:
    """Requests for a larger budget with their answers, newest first. Open ones wait for an
    owner, who answers with a grant that names `request`, or with `decline`.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/budgets/{quoted(account_id)}/requests")


def request_budget(
    account_id: str, body: models.BudgetRequestRequest
) -> Operation[models.BudgetRequestAnswer]:
    """Ask an owner to raise a cap. Nothing is reserved or changed. A principal may have three
    open requests.

    Answers 201. Roles: owner, analyst.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 too_many_open_requests
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", f"/v1/budgets/{quoted(account_id)}/requests", body=body)


def decline_budget_request(
    account_id: str, request_id: str, body: models.DeclineRequest
) -> Operation[models.BudgetRequestAnswer]:
    """Decline a request, with a reason; the ledger does not change.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 request_answered
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "POST", f"/v1/budgets/{quoted(account_id)}/requests/{quoted(request_id)}/decline", body=body
    )


def list_caps() -> Operation[models.CapList]:
    """The caps on the tenant and on its principals.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/caps")


def set_cap(body: models.CapRequest) -> Operation[models.BudgetAnswer]:
    """Cap what the whole tenant or one principal may spend over all data; 200 if there was such
    a cap. From now on every job is charged there too. Such a cap adds up prices over datasets
    with different privacy units.

    Answers 200 or 201. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    409 cap_below_spent
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/caps", body=body)


def verify_certificate(body: models.CertificateRequest) -> Operation[models.CertificateVerdict]:
    """Recompute the price from the events, compare it with the guarantee, and check the
    signature and the ledger entries; given `result` and `tables`, check that they are those
    certified.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/certificates:verify", body=body)


def list_datasets(
    *, page_size: int | None = None, page_token: str | None = None
) -> Operation[models.DatasetPage]:
    """Datasets that are not deleted, newest first.

    page_size: >= 1, <= 200; default `50`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_page_token, invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "GET", "/v1/datasets", query={"page_size": page_size, "page_token": page_token}
    )


def register_dataset(
    body: models.DatasetRequest | models.PlacedDatasetRequest | models.DraftDatasetRequest,
) -> Operation[models.DatasetAnswer]:
    """Register a dataset. Registering the same content again returns the same dataset on the
    same account, with 200.

    Answers 200 or 201. Roles: owner.

    Problem codes:
    400 invalid_json, invalid_multipart
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, reads_no_names, several_tenants
    404 not_found
    409 content_changed, content_known, unit_differs
    413 payload_too_large
    422 invalid_input, invalid_parameter, place_refused, query_refused
    429 rate_limited, too_many_bodies, too_many_failed_reads, too_many_uploads
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, not_isolated, not_read, place_unavailable,
        places_unreadable, provider_unavailable, reader_not_started, spool_unavailable,
        storage_denied, storage_full, storage_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/datasets", body=body)


def delete_dataset(
    dataset_id: str, *, prefer: str | None = None
) -> Operation[models.ErasedAnswer | None]:
    """Erase the content. Its account and ledger stay, and the same content finds them if it is
    registered again.

    prefer: `return=representation` asks which copies remain (RFC 7240); default ``

    Answers 200 or 204. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 dataset_in_use
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/datasets/{quoted(dataset_id)}", headers={"prefer": prefer})


def get_dataset(dataset_id: str) -> Operation[models.DatasetAnswer]:
    """One dataset; never its content.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/datasets/{quoted(dataset_id)}")


def correct_dataset(
    dataset_id: str, body: models.CorrectionRequest
) -> Operation[models.DatasetAnswer]:
    """Correct the public part while nothing was spent or reserved on the dataset's account and
    no job on it waits or runs; of a simulation while none waits or runs. Id and account stay.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json, invalid_multipart
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, reads_no_names, several_tenants
    404 not_found
    409 conflict, content_changed, content_known, dataset_changed, dataset_in_use, released,
        unit_differs
    413 payload_too_large
    422 invalid_input, invalid_parameter, place_refused, query_refused
    429 rate_limited, too_many_bodies, too_many_failed_reads, too_many_uploads
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, not_isolated, not_read, place_unavailable,
        places_unreadable, provider_unavailable, reader_not_started, spool_unavailable,
        storage_denied, storage_full, storage_unavailable, unavailable, wrong_schema
    """
    return Operation("PATCH", f"/v1/datasets/{quoted(dataset_id)}", body=body)


def list_jobs(
    *,
    state: Literal[
        "queued", "awaiting_agents", "waiting", "running", "succeeded", "failed", "cancelled"
    ]
    | None = None,
    page_size: int | None = None,
    page_token: str | None = None,
) -> Operation[models.JobPage]:
    """Jobs of the tenant, newest first.

    page_size: >= 1, <= 200; default `50`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_page_token, invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "GET", "/v1/jobs", query={"state": state, "page_size": page_size, "page_token": page_token}
    )


def submit_job(
    body: models.JobRequest, *, idempotency_key: str | None = None
) -> Operation[models.JobAnswer]:
    """Submit a job: its price is reserved at once, on every account that it touches or on none.

    On blocks of a source with a rule it may wait for shares to be lent (`wait`): then it is
    `waiting`, nothing is reserved, and `waiting` says why and until when.

    Before data are touched a failure or a cancellation releases the price in full; afterwards
    it is charged in full, whatever happens.

    idempotency_key: Any string; the same key always means the same job

    Answers 202. Roles: owner, analyst.

    Problem codes:
    400 idempotency_key_missing, invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 budget_exhausted, budget_held, exposed, no_release, release_differs, request_in_flight
    413 payload_too_large
    422 idempotency_key_reused, invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    500 object_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/jobs", headers={"idempotency-key": idempotency_key}, body=body)


def get_job(job_id: str) -> Operation[models.JobAnswer]:
    """One job.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/jobs/{quoted(job_id)}")


def cancel_job(job_id: str) -> Operation[models.CancelAnswer]:
    """Cancel a job. Its price is released if no data were touched, and charged in full
    otherwise; the answer says which, and whether it is too late. Cancelling a job again gives
    the same answer.

    Answers 202. Roles: owner, analyst.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 job_ended
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", f"/v1/jobs/{quoted(job_id)}/cancel")


def get_certificate(job_id: str) -> Operation[models.EnvelopeAnswer]:
    """The certificate as an in-toto statement in a signed envelope (DSSE), for tools that read
    these; 409 `no_result` until there is one, and for results of an older version, whose
    certificates do not bind them.

    Answers 200. Roles: owner, analyst.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 no_result
    422 invalid_parameter
    429 rate_limited
    500 result_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, signing_key_unknown,
        unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/jobs/{quoted(job_id)}/certificate")


def get_charts(job_id: str) -> Operation[models.ChartList]:
    """The charts of a result as Plotly figures, as on its page; 409 until there is a result.
    Fields that are named in `result.tables` are not drawn.

    Answers 200. Roles: owner, analyst.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 no_result
    410 result_gone
    422 invalid_parameter
    429 rate_limited
    500 object_altered, result_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, signing_key_unknown,
        unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/jobs/{quoted(job_id)}/charts")


def watch_job(job_id: str, *, last_event_id: int | None = None) -> Operation[str]:
    """Server-sent events `state` and `progress`. The stream resumes after `Last-Event-ID` and
    ends when the job ends or the key is revoked.

    last_event_id: >= 0; default `0`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited, too_many_streams
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "GET", f"/v1/jobs/{quoted(job_id)}/events", headers={"last-event-id": last_event_id}
    )


def get_result(job_id: str) -> Operation[models.ResultAnswer]:
    """The result with the certificate that binds it; 409 until there is one, 410 when it was
    deleted at the end of its retention period. Large fields are named in `result.tables`. The
    stored result is compared with its certificate before it is returned.

    Answers 200. Roles: owner, analyst.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 no_result
    410 result_gone
    422 invalid_parameter
    429 rate_limited
    500 result_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, signing_key_unknown,
        unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/jobs/{quoted(job_id)}/result")


def get_result_table(job_id: str, table: str) -> Operation[bytes]:
    """A field of more than a million numbers, as Parquet.

    Answers 200. Roles: owner, analyst.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 no_result
    410 result_gone
    422 invalid_parameter
    429 rate_limited
    500 result_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, signing_key_unknown,
        unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/jobs/{quoted(job_id)}/result/{quoted(table)}")


def list_keys() -> Operation[models.KeyList]:
    """The tenant's keys, without their secrets.

    Answers 200. Roles: operator, owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/keys")


def create_key(body: models.KeyRequest) -> Operation[models.KeyAnswer]:
    """Create an API key for a principal; it is shown only once.

    Answers 201. Roles: operator, owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/keys", body=body)


def revoke_key(key_id: str) -> Operation[None]:
    """Revoke a key: this process refuses it from now on, every other within a second.

    Answers 204. Roles: operator, owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/keys/{quoted(key_id)}")


def export_ledger() -> Operation[bytes]:
    """The whole ledger at one moment as JSON Lines, its signed head first, for `discreet ledger
    verify`.

    Answers 200. Roles: owner, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/ledger/export")


def get_ledger_head() -> Operation[models.HeadAnswer]:
    """The signed head of the tenant's ledger. Keep copies elsewhere: nobody can then undo the
    entries that they cover.

    Answers 200. Roles: owner, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/ledger/head")


def get_ledger_head_statement() -> Operation[models.EnvelopeAnswer]:
    """The same head as an in-toto statement in a signed envelope (DSSE), for tools that read
    these.

    Answers 200. Roles: owner, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/ledger/head/statement")


def get_log_checkpoint() -> Operation[str]:
    """The newest checkpoint of the transparency log, a signed note (C2SP): its name, how many
    ledger entries it holds, the root of their tree, and the signatures of this service and of
    witnesses.

    Answers 200. Roles: none is needed.

    Problem codes:
    404 not_found
    422 invalid_parameter
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/log/checkpoint")


def get_log_tile(tile: str) -> Operation[bytes]:
    """A tile of the log (C2SP tlog-tiles): `<level>/<number>` for up to 256 hashes,
    `entries/<number>` for up to 256 entries, with `.p/<width>` for the first few. Entries are
    salted hashes of ledger entries; they name nobody.

    Answers 200. Roles: none is needed.

    Problem codes:
    404 not_found
    422 invalid_parameter
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/log/tile/{quoted(tile)}")


def list_networks(
    *, page_size: int | None = None, page_token: str | None = None
) -> Operation[models.NetworkPage]:
    """Networks of the tenant without their links, newest first.

    page_size: >= 1, <= 200; default `50`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_page_token, invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "GET", "/v1/networks", query={"page_size": page_size, "page_token": page_token}
    )


def add_network(body: models.NetworkRequest) -> Operation[models.NetworkAnswer]:
    """Store a network, which is public to the whole tenant. Storing the same network again
    returns the same object under its first name, with 200.

    Answers 200 or 201. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    409 too_many_objects
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/networks", body=body)


def delete_network(network_id: str) -> Operation[None]:
    """Delete a network that no job has named. What a job names stays, so that its certificate
    can be checked.

    Answers 204. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 object_in_use
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/networks/{quoted(network_id)}")


def get_network(network_id: str) -> Operation[models.NetworkAnswer]:
    """One network, whole: `network` is its canonical JSON, whose SHA-256 certificates name.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    500 object_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/networks/{quoted(network_id)}")


def read_operations() -> Operation[models.OperationsAnswer]:
    """The state of the installation: queue, processes with the walls of their sandboxes,
    transparency log and witnesses, last backup, versions, and whose jobs wait (operators).

    Answers 200. Roles: operator.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/operations")


def list_people(*, subject: str | None = None) -> Operation[models.PersonList]:
    """Who has logged in through the identity provider: the people of the tenant, or of all
    tenants for operators; the 1000 most recent.

    subject: length <= 500, matches `^[^\x00]*$`

    Answers 200. Roles: operator, owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/people", query={"subject": subject})


def set_person(body: models.PersonRequest) -> Operation[models.PersonState]:
    """Remove a person by the provider's identifier, even one who has never logged in, or let
    them in again. Their sessions and access tokens end within a second, for good, and so do
    the API keys that they have made, unless `keep_keys`. Owners decide for their tenant and
    cannot remove an operator; operators decide for all tenants. Nobody can remove themselves.

    Answers 200. Roles: operator, owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 oneself
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("PUT", "/v1/people", body=body)


def remove_person(person_id: str, *, keep_keys: bool | None = None) -> Operation[None]:
    """Remove a person who has logged in before, as `set_person` does.

    keep_keys: default `false`

    Answers 204. Roles: operator, owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 oneself
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/people/{quoted(person_id)}", query={"keep_keys": keep_keys})


def price_job(body: models.JobRequest) -> Operation[models.PlanAnswer]:
    """What a job would do and cost, and whether it would be admitted now. This spends nothing
    and touches no data.

    Answers 200. Roles: owner, analyst.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 exposed, no_release, release_differs
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    500 object_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/plans", body=body)


def look_at_file(body: models.ReadRequest) -> Operation[models.LookAnswer]:
    """Say what a file would be read as, and what is wrong with it. Nothing is registered. The
    file stays sealed for a day, for whoever sent it, or until it is registered; `draft` names
    it then, here for another look and in place of a content.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json, invalid_multipart
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, reads_no_names, several_tenants
    404 not_found
    409 too_many_drafts
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies, too_many_uploads
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, not_isolated, not_read, provider_unavailable,
        reader_not_started, spool_unavailable, storage_denied, storage_full,
        storage_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/reads", body=body)


def delete_read(read_id: str) -> Operation[None]:
    """Erase a file at once.

    Answers 204. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/reads/{quoted(read_id)}")


def get_read(read_id: str) -> Operation[models.ReadAnswer]:
    """A file that is still here, of whoever sent it.

    Answers 200. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/reads/{quoted(read_id)}")


def rehearse_job(
    body: models.RehearsalRequest, *, idempotency_key: str | None = None
) -> Operation[models.JobAnswer]:
    """Run a problem on synthetic data with the public shape of its dataset, for several values
    of epsilon: a job without a price, whose result gives the error of each number at each
    epsilon. It uses no private data and no budget; its certificate guarantees nothing.

    idempotency_key: Any string; the same key always means the same job

    Answers 202. Roles: owner, analyst.

    Problem codes:
    400 idempotency_key_missing, invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 no_release, request_in_flight
    413 payload_too_large
    422 idempotency_key_reused, invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    500 object_altered
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation(
        "POST", "/v1/rehearsals", headers={"idempotency-key": idempotency_key}, body=body
    )


def get_session(job_id: str) -> Operation[models.SessionAnswer]:
    """Who has joined a federated job, and how far it has got.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/sessions/{quoted(job_id)}")


def start_session_again(
    job_id: str, body: models.SessionAgainRequest
) -> Operation[models.SessionAgainAnswer]:
    """Submit the problem of a failed session again without the agents that it could not go on
    without: the others are enrolled, and come back with the one link. Asked twice, it answers
    the same job.

    Answers 201. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 budget_exhausted, exposed, not_failed
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, no_rpc, provider_unavailable, unavailable,
        wrong_schema
    """
    return Operation("POST", f"/v1/sessions/{quoted(job_id)}/again", body=body)


def remove_agent(job_id: str, fingerprint: str) -> Operation[None]:
    """Remove an agent that has enrolled, before the roster is signed; its token cannot be used
    again.

    Answers 204. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 not_awaiting_agents, roster_signed
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/sessions/{quoted(job_id)}/agents/{quoted(fingerprint)}")


def approve_roster(job_id: str, body: models.RosterRequest) -> Operation[models.SessionAnswer]:
    """Submit the roster that the owner signed: the price is reserved on every agent's account or
    on none, and the session begins. 409 `budget_exhausted` if a cap does not allow it;
    another roster may then be signed.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, owner_differs, roster_signature, several_tenants
    404 not_found
    409 budget_exhausted, exposed, not_awaiting_agents, roster_signed, roster_stale,
        session_full, unit_differs
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("PUT", f"/v1/sessions/{quoted(job_id)}/roster", body=body)


def get_session_statement(job_id: str) -> Operation[models.EnvelopeAnswer]:
    """The head of a session as an in-toto statement in a signed envelope (DSSE): how far it has
    got, the roster that its owner signed, and each agent's signed receipt; 409 `no_roster`
    until there is a roster.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 no_roster
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/sessions/{quoted(job_id)}/statement")


def invite_agents(
    job_id: str, body: models.SessionTokensRequest
) -> Operation[models.SessionTokensAnswer]:
    """Create links that let agents join, one each, or the link of a standing group.

    Answers 201. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 not_awaiting_agents, owner_pinned, roster_signed, session_full
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, no_rpc, provider_unavailable, unavailable,
        wrong_schema
    """
    return Operation("POST", f"/v1/sessions/{quoted(job_id)}/tokens", body=body)


def list_sources(
    *, page_size: int | None = None, page_token: str | None = None
) -> Operation[models.SourcePage]:
    """Sources of the tenant without their blocks, newest first.

    page_size: >= 1, <= 200; default `50`

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_page_token, invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/sources", query={"page_size": page_size, "page_token": page_token})


def create_source(body: models.SourceRequest) -> Operation[models.SourceAnswer]:
    """Create a source. Creating the same source again, by its name, returns it with 200.

    Answers 200 or 201. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    409 name_taken
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/sources", body=body)


def get_source(source_id: str) -> Operation[models.SourceAnswer]:
    """One source with its blocks: the newest version of each, and what is spent, reserved and
    left.

    Answers 200. Roles: owner, analyst, auditor.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", f"/v1/sources/{quoted(source_id)}")


def correct_source(source_id: str, body: models.SourceCorrection) -> Operation[models.SourceAnswer]:
    """Correct the public part of all blocks while nothing was spent or reserved on any of them
    and no job on them waits or runs; of a simulation while none waits or runs.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    409 content_changed, dataset_changed, dataset_in_use, released
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies, too_many_failed_reads, too_many_uploads
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, not_isolated, not_read, provider_unavailable,
        reader_not_started, spool_unavailable, storage_unavailable, unavailable, wrong_schema
    """
    return Operation("PATCH", f"/v1/sources/{quoted(source_id)}", body=body)


def add_block(
    source_id: str, body: models.BlockRequest | models.PlacedBlockRequest | models.DraftBlockRequest
) -> Operation[models.BlockAnswer]:
    """Register a block, or a later version of one: complete, with its late records, on the same
    account. Registering the same content again returns the same version, with 200.

    Answers 200 or 201. Roles: owner.

    Problem codes:
    400 invalid_json, invalid_multipart
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, reads_no_names, several_tenants
    404 not_found
    409 content_changed, content_known
    413 payload_too_large
    422 invalid_input, invalid_parameter, place_refused, query_refused
    429 rate_limited, too_many_bodies, too_many_failed_reads, too_many_uploads
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, not_isolated, not_read, place_unavailable,
        places_unreadable, provider_unavailable, reader_not_started, spool_unavailable,
        storage_denied, storage_full, storage_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", f"/v1/sources/{quoted(source_id)}/blocks", body=body)


def set_source_rule(source_id: str, body: models.SourceRule) -> Operation[models.RuleAnswer]:
    """Set who may spend which share of each block. Waiting jobs are decided anew; what was
    granted stays. Setting the same rule again changes nothing.

    Answers 200. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("PUT", f"/v1/sources/{quoted(source_id)}/rule", body=body)


def create_tenant(body: models.TenantRequest) -> Operation[models.TenantAnswer]:
    """Create a tenant (operators).

    Answers 201. Roles: operator.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    409 name_taken
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/tenants", body=body)


def list_webhooks() -> Operation[models.WebhookList]:
    """The webhooks of the tenant (owners) with their last error; never their secrets.

    Answers 200. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("GET", "/v1/webhooks")


def create_webhook(body: models.WebhookRequest) -> Operation[models.WebhookCreated]:
    """Send events to an address (owners). The secret that signs the messages is shown only once.

    Answers 201. Roles: owner.

    Problem codes:
    400 invalid_json
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    409 too_many_webhooks
    413 payload_too_large
    422 invalid_input, invalid_parameter
    429 rate_limited, too_many_bodies
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("POST", "/v1/webhooks", body=body)


def delete_webhook(webhook_id: str) -> Operation[None]:
    """Stop sending events to this address (owners).

    Answers 204. Roles: owner.

    Problem codes:
    401 key_expired, key_malformed, key_revoked, key_unknown, person_removed, token_ended,
        token_expired, token_invalid, unauthenticated
    403 forbidden, no_role, several_tenants
    404 not_found
    422 invalid_parameter
    429 rate_limited
    503 database_busy, database_full, database_read_only, database_unavailable,
        keys_unavailable, ledger_rolled_back, provider_unavailable, unavailable, wrong_schema
    """
    return Operation("DELETE", f"/v1/webhooks/{quoted(webhook_id)}")
