"""Every error code: its status, a title that always holds, and an example. docs/errors and the
contract are made from it."""

from __future__ import annotations

from http import HTTPStatus

from discreet.errors import (
    Conflict,
    DiscreetError,
    Forbidden,
    Gone,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    TooManyAtOnce,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from discreet.web.request_codes import REQUEST_CODES, Code

STATUS: tuple[tuple[type[DiscreetError], int], ...] = (
    (InvalidInput, 422),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Gone, 410),
    (Conflict, 409),
    (PayloadTooLarge, 413),
    (TooManyRequests, 429),
    (TooManyAtOnce, 429),
    (Unavailable, 503),
    (DiscreetError, 500),
)


INTERNAL = (
    "something went wrong; whether a change was made is not known here: look at the object, or "
    "send the same Idempotency-Key again"
)


CODES: dict[str, Code] = {
    **REQUEST_CODES,
    # States
    "too_many_webhooks": Code(
        409, "The tenant has as many webhooks as it may", "a tenant may have 20 webhooks"
    ),
    "too_many_objects": Code(
        409,
        "The tenant stores as many public objects as it may",
        "a tenant may store 1000 public objects such as networks, and 1073741824 bytes in all; "
        "delete some that no job names",
    ),
    "too_many_drafts": Code(
        409,
        "Files of the tenant that are looked at have as many bytes as they may",
        "files of this tenant that are looked at may have 4294967296 bytes together (draft_bytes); "
        "those that are here have 4294966272, and this one has 4096: register or delete one of "
        "yours (DELETE /v1/reads/{id}: read_1DkLuJ3mW4pS), or register this one without a look "
        "(POST /v1/datasets)",
        {
            "limit": {
                "setting": "draft_bytes",
                "unit": "bytes",
                "allowed": 4294967296,
                "came": 4294970368,
            }
        },
    ),
    "object_in_use": Code(
        409,
        "A job names this object",
        "job_1DkLuJ3mW4pS names this network: it is kept, so that the job's certificate can be "
        "checked",
    ),
    "budget_exhausted": Code(
        409,
        "The privacy budget does not allow this",
        "budget exceeded: needs epsilon 0.5 and delta 0.0; the largest request that passes is "
        "epsilon 0.1 at delta 0.0. Nothing was charged. Owner: discreet cap grant "
        "acc_1DkLuJ3mW4pS, POST /v1/budgets/acc_1DkLuJ3mW4pS/grants, or the dashboard. To ask one: "
        "POST /v1/budgets/acc_1DkLuJ3mW4pS/requests",
        {
            "binding": {
                "account": "acc_1DkLuJ3mW4pS",
                "cap": {"epsilon": 1.0, "delta": 0.0},
                "spent": {"epsilon": 0.9, "delta": 0.0},
                "reserved": {"epsilon": 0.0, "delta": 0.0},
                "requested": {"epsilon": 0.5, "delta": 0.0},
                "largest": {"epsilon": 0.1, "delta": 0.0},
            }
        },
    ),
    "request_in_flight": Code(
        409,
        "The same request is being answered",
        "a request with this Idempotency-Key is in flight",
    ),
    "no_result": Code(409, "The job has no result", "this job is queued and has no result"),
    "release_differs": Code(
        409,
        "The first job released something else",
        '/problem/method: fixed when job_1DkLuJ3mW4pS released: "counts" there',
        {
            "errors": [
                {
                    "pointer": "/problem/method",
                    "detail": 'fixed when job_1DkLuJ3mW4pS released: "counts" there',
                }
            ]
        },
    ),
    "exposed": Code(
        409,
        "So few agents are exposed to each other",
        'Without noise 40 sums would be revealed: needs 400 agents, or exposure: "accepted"',
        {"errors": [{"pointer": "/problem/exposure", "detail": "3 agents, 40 opened numbers"}]},
    ),
    "no_release": Code(
        409,
        "The job has released nothing that can be asked again",
        "job_1DkLuJ3mW4pS is running: it has no result yet",
    ),
    "job_ended": Code(409, "The job has ended", "this job has succeeded already"),
    "content_known": Code(
        409,
        "The content is registered otherwise",
        "this content is registered with another mode, private, as november trips "
        "(dst_1DkLuJ3mW4pS)",
    ),
    "unit_differs": Code(
        409,
        "The privacy units differ",
        "this account counts in the unit request, the dataset in person",
    ),
    "dataset_in_use": Code(
        409, "A job needs the dataset", "a job still needs this dataset; cancel it first"
    ),
    "released": Code(
        409,
        "Something was given away of these data, so their public part stays",
        "something was spent or reserved on the account of these data (acc_1DkLuJ3mW4pS), so their "
        "public part stays: register it beside with the public part that is needed, on the same "
        "account, where the losses of both add up: discreet dataset add FILE --same-people-as "
        'dst_1DkLuJ3mW4pS (`"account": "acc_1DkLuJ3mW4pS"` in POST /v1/datasets)',
    ),
    "dataset_changed": Code(
        409,
        "The data were corrected at the same moment",
        "somebody corrected this dataset at the same moment: look at it, and correct it again",
    ),
    "cap_below_spent": Code(
        409, "The cap is below what is spent", "more than this cap is spent or reserved already"
    ),
    "too_many_open_requests": Code(
        409,
        "Too many requests wait for an answer",
        "3 of your requests wait for an owner’s answer; send another one after that",
    ),
    "request_answered": Code(
        409, "The request was answered", "ada has declined this request already"
    ),
    "content_changed": Code(
        409,
        "The content changed while it was read",
        "the content changed while it was read; nothing was registered",
    ),
    "oneself": Code(
        409,
        "Nobody removes themselves",
        "nobody removes themselves: another owner or an operator does",
    ),
    "name_taken": Code(409, "The name is in use", "there is a tenant north already"),
    "conflict": Code(
        409,
        "The object's state does not allow this",
        "the object is in a state that does not allow this",
    ),
    "budget_held": Code(
        409,
        "What is left is held for others",
        "what is left of block 2026-10-03 is held for the owners of shares, and lent over 28 days",
    ),
    # Sessions of agents
    "not_awaiting_agents": Code(409, "The job waits for no agents", "this job is running"),
    "owner_pinned": Code(
        409, "The links pin another owner", "the links of this session pin another owner's key"
    ),
    "owner_differs": Code(
        403, "Another owner's key", "the links of this session pin another owner's key"
    ),
    "roster_signature": Code(
        403, "The roster's signature is wrong", "the roster is not signed by this key"
    ),
    "roster_signed": Code(409, "The roster is signed", "the roster is signed already"),
    "roster_stale": Code(
        409, "The roster is out of date", "an agent announced something else meanwhile"
    ),
    "no_roster": Code(
        409, "There is no roster yet", "nobody has signed the roster of this session"
    ),
    "not_spoken": Code(
        409,
        "An agent does not speak what the job needs",
        "agent meter-7 does not speak auto, which this job needs; it speaks "
        "discreet/secure-sum/v2, masking, spds, rpds",
    ),
    "session_full": Code(
        409, "The session is full", "as many agents as the job's terms allow have joined"
    ),
    "not_failed": Code(
        409,
        "The session has not failed",
        "only a session with a signed roster that has failed or was cancelled is started again",
    ),
    "no_rpc": Code(
        503, "gRPC is not set up", "this API does not know where gRPC is: set DISCREET_RPC_ADDRESS"
    ),
    "not_read": Code(
        503,
        "The upload could not be read",
        "the reader of the upload ended without an answer: the child was ended by SIGSEGV",
    ),
    "not_isolated": Code(
        503,
        "Uploads are not read on this machine",
        "a child is isolated at level partial here, not full: it reaches local sockets "
        "(DISCREET_LEAST_ISOLATION, docs/security.md)",
    ),
    # The service
    "unavailable": Code(
        503,
        "The service cannot answer now",
        "a part that discreet needs does not answer; try again",
    ),
    "database_unavailable": Code(
        503,
        "The database does not answer",
        "the database does not answer; whether a change was made is not known here: look at the "
        "object, or send the same Idempotency-Key again",
    ),
    "database_busy": Code(
        503,
        "The database is too busy",
        "the database is too busy; what this would have changed is as it was; try again",
    ),
    "database_full": Code(
        503,
        "The database's disk is full",
        "the disk of the database is full; what this would have changed is as it was",
    ),
    "database_read_only": Code(
        503,
        "The database takes no changes",
        "the database takes no changes now (read-only, as a standby is); what this would have "
        "changed is as it was",
    ),
    "ledger_rolled_back": Code(
        503,
        "The database lacks entries of the ledger",
        "the database lacks ledger entries that this installation has signed: it was restored, or "
        "another took over without them; nothing is admitted until an operator has looked, and "
        "what this would have changed is as it was",
    ),
    "wrong_schema": Code(
        503,
        "The database has the schema of another version",
        "the database has schema 0006, this version needs 0007: run `discreet migrate`",
    ),
    "keys_unavailable": Code(
        503,
        "The place where keys lie does not answer",
        "token discreet does not answer (TokenNotPresent); nothing was done, try again",
    ),
    "storage_unavailable": Code(
        503,
        "The object storage does not answer",
        "the object storage said nothing for 10 s; try again",
    ),
    "storage_full": Code(
        503, "The object storage is full", "the object storage has no room for more"
    ),
    "storage_denied": Code(
        503,
        "The object storage refuses this service",
        "the object storage does not let this service in",
    ),
    "place_refused": Code(
        422,
        "Nothing is read from this address",
        "/content_from: no content is read from this address: the operator decides which places "
        "may be read and by whom, and it is in none of yours (DISCREET_CONTENT_PLACES)",
        {
            "errors": [
                {"pointer": "/content_from", "detail": "no content is read from this address"}
            ]
        },
    ),
    "query_refused": Code(
        422,
        "The database does not run this query, or its rows are not read",
        '/content_from: the database refuses the query: column "orign" does not exist, at '
        "character 8 (SQLSTATE 42703)",
        {
            "errors": [
                {
                    "pointer": "/content_from",
                    "detail": 'the database refuses the query: column "orign" does not exist, at '
                    "character 8 (SQLSTATE 42703)",
                }
            ]
        },
    ),
    "place_unavailable": Code(
        503, "The place of the content does not answer", "the server does not answer in time"
    ),
    "places_unreadable": Code(
        503,
        "The operator's file of places cannot be read",
        "the file of places (DISCREET_CONTENT_PLACES): place 0, tenants: Field required",
    ),
    "spool_unavailable": Code(
        503,
        "There is no room for the upload",
        "no room for the upload while it is read (DISCREET_SPOOL): No space left on device; "
        "nothing was registered",
    ),
    "reader_not_started": Code(
        503,
        "Uploads cannot be read now",
        "the reader of uploads does not start; nothing was registered",
    ),
    "not_ready": Code(503, "The process is not ready", "database: the database does not answer"),
    "object_altered": Code(
        500,
        "A stored public object is not what was stored first",
        "what is stored as net_7gk0v3m9xw2c5q8r1t4y6z0abc is not what was stored first: it was "
        "changed",
    ),
    "result_gone": Code(
        410,
        "The result was deleted at the end of its retention period",
        "the result of this job was deleted on 2027-03-01, at the end of the operator's retention "
        "period (DISCREET_RESULT_RETENTION_DAYS); its certificate and its entries in the ledger "
        "are kept",
    ),
    "result_altered": Code(
        500,
        "The stored result is not what was published",
        "what is stored is not what was published: the result is not the one that was certified: "
        "it was changed or replaced",
    ),
    "signing_key_unknown": Code(
        503,
        "The certificate is signed by an unknown key",
        "the certificate of this job is signed by 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=, "
        "which is no key of this installation: a rotation has not reached this machine, the key "
        "was retired (`discreet secrets trust` takes it back), or the result was exchanged",
    ),
    "internal": Code(500, "Internal error", INTERNAL),
}
"""Every code that the HTTP API answers with. A code has one status for ever, and is never used for
anything else."""


NOTHING_HERE = "there is nothing at this address; /docs lists the calls"


HEADERS: dict[str, dict[str, str]] = {
    **{
        code: {"Retry-After": "2"}
        for code, known in CODES.items()
        if known.status == HTTPStatus.SERVICE_UNAVAILABLE
    },
    "request_in_flight": {"Retry-After": "1"},
}
