"""What both clients say: one function a call of the API, and what is made of several. No I/O here.

A `Call` is one request and how its answer is read; the paths, parameters and headers are those of the generated
`discreet_client.rest`, so that a changed contract shows here. A script is a generator that yields calls (and `Follow`)
and is sent their answers; `Client` and `AsyncClient` run it each in their way.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO, Generic, Protocol, Self, TypeVar, cast

import httpx

from discreet_client import certificates, progress
from discreet_client.answers import Answer, answer_of
from discreet_client.contents import File, content_of, dumps
from discreet_client.errors import JobFailed, Unauthenticated, Unreachable
from discreet_client.rest import models
from discreet_client.rest.api.budgets import get_budget, grant_budget, list_budgets, list_entries
from discreet_client.rest.api.datasets import delete_dataset as erase_dataset
from discreet_client.rest.api.datasets import get_dataset, list_datasets, register_dataset
from discreet_client.rest.api.jobs import (
    cancel_job,
    get_job,
    get_result,
    get_result_table,
    list_jobs,
    price_job,
    submit_job,
    watch_job,
)
from discreet_client.rest.api.ledger import (
    export_ledger,
    get_ledger_head,
    list_caps,
    verify_certificate,
)
from discreet_client.rest.api.ledger import set_cap as put_cap
from discreet_client.rest.api.sessions import approve_roster, get_session, invite_agents
from discreet_client.rest.api.tenants import create_key as make_key
from discreet_client.rest.api.tenants import create_tenant as make_tenant
from discreet_client.rest.api.tenants import list_keys
from discreet_client.rest.api.tenants import revoke_key as end_key

Json = dict[str, Any]
Amount = Decimal | float


class Model(Protocol):
    """What the generated models have in common."""

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Self: ...

    def to_dict(self) -> dict[str, Any]: ...


CHECKED_BYTES = 16 << 20
"""A result whose JSON is longer is not compared with its certificate on arrival: `certificates.require_result` does."""

M = TypeVar("M", bound=Model)
T = TypeVar("T")


class Document(dict[str, Any], Generic[M]):
    """A JSON object as the server sent it, fields that this client does not know included.

    `typed` is the same in the generated model of the contract, with attributes and their types.
    """

    def __init__(self, values: Mapping[str, Any], model: type[M]) -> None:
        super().__init__(values)
        self._model = model

    @property
    def typed(self) -> M:
        return self._model.from_dict(self)


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request. `repeatable`: sending it twice does what sending it once does."""

    request: Mapping[str, Any]
    """Arguments of httpx's `request`."""
    read: Callable[[httpx.Response], T]
    repeatable: bool
    busy_codes: tuple[str, ...] = ()
    """Codes of refusals that mean: not yet."""


@dataclass(frozen=True)
class Follow:
    """The job's document when it has ended."""

    job_id: str
    on_progress: progress.OnProgress


Script = Generator[Call[Any] | Follow, Any, T]


@dataclass(frozen=True)
class _Body:
    """A body in place of the generated model of it: the server is the one to say what is wrong with a body."""

    values: Any

    def to_dict(self) -> Any:
        return self.values


def connection(server: str, key: str) -> dict[str, Any]:
    """Address and headers of a client. Unreachable and Unauthenticated where they cannot be meant: a line break that
    was read with a key is not part of it."""
    if not server.startswith(("http://", "https://")):
        raise Unreachable(f"{server!r} is no address: it begins with http:// or https://")
    key = (key or "").strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        problem = {"code": "key_malformed", "detail": "the API key is empty, or holds what no key holds"}
        raise Unauthenticated(401, problem)
    return {"base_url": server, "headers": {"Authorization": f"Bearer {key}"}}


def _call(
    request: Mapping[str, Any],
    read: Callable[[httpx.Response], T],
    *,
    repeatable: bool | None = None,
    busy_codes: tuple[str, ...] = (),
) -> Call[T]:
    """A call from the arguments that the generated code made. What is no POST may be repeated."""
    plain = dict(request)
    if "json" in plain:
        plain["content"] = dumps(plain.pop("json"))
    if repeatable is None:
        repeatable = plain["method"] != "post"
    return Call(plain, read, repeatable, busy_codes)


def _document(model: type[M]) -> Callable[[httpx.Response], Document[M]]:
    return lambda response: Document(response.json(), model)


def _list(name: str, model: type[M]) -> Callable[[httpx.Response], list[Document[M]]]:
    return lambda response: [Document(item, model) for item in response.json()[name]]


def _nothing(response: httpx.Response) -> None:
    return None


def _body(values: Mapping[str, Any]) -> Any:
    return _Body(values)


def _figures(epsilon: Amount, delta: Amount) -> Json:
    return {"epsilon": epsilon, "delta": delta}


# Datasets


def dataset_body(
    kind: str | Mapping[str, Any],
    public: Mapping[str, Any] | None,
    content: Any,
    *,
    cap: Mapping[str, Any] | Amount | None,
    name: str | None,
    mode: str | None,
    account: str | None,
) -> Json:
    """The body of a registration, whole as it was given, or from its parts."""
    if isinstance(kind, Mapping):
        return dict(kind)
    if public is None or content is None:
        raise TypeError("register(kind, public, content, cap=…): public and content are needed")
    if cap is not None and not isinstance(cap, Mapping):
        cap = _figures(cap, 0)
    given = {"name": name or f"{kind} dataset", "kind": kind, "public": public, "content": content}
    rest = {"cap": cap, "mode": mode, "account": account}
    return {**given, **{field_name: value for field_name, value in rest.items() if value is not None}}


def register(dataset: Mapping[str, Any]) -> Script[Document[models.DatasetAnswer]]:
    """The same content again is the same dataset, so this may be repeated."""
    content = content_of(str(dataset.get("kind")), dataset["content"]) if "content" in dataset else None
    registered: Document[models.DatasetAnswer]
    if isinstance(content, File):
        metadata = {name: value for name, value in dataset.items() if name != "content"}
        with content.body:
            registered = yield upload(metadata, content.body, content.name)
    else:
        registered = yield _registration(dataset if content is None else {**dataset, "content": content})
    return registered


def _registration(whole: Mapping[str, Any]) -> Call[Document[models.DatasetAnswer]]:
    headers = {"Content-Type": "application/json"}
    request = {**register_dataset._get_kwargs(), "content": dumps(whole), "headers": headers}
    return _call(request, _document(models.DatasetAnswer), repeatable=True)


def upload(metadata: Mapping[str, Any], content: BinaryIO, filename: str) -> Call[Document[models.DatasetAnswer]]:
    request = {
        **register_dataset._get_kwargs(),
        "data": {"metadata": dumps(metadata).decode()},
        "files": {"content": (filename, content)},
        "headers": {},
    }
    return _call(request, _document(models.DatasetAnswer), repeatable=content.seekable())


def dataset(dataset_id: str) -> Call[Document[models.DatasetAnswer]]:
    return _call(get_dataset._get_kwargs(dataset_id), _document(models.DatasetAnswer))


def datasets(page_token: str | None) -> Call[Document[models.DatasetPage]]:
    return _call(list_datasets._get_kwargs(page_token=page_token), _document(models.DatasetPage))


def delete_dataset(dataset_id: str) -> Call[list[str]]:
    request = {**erase_dataset._get_kwargs(dataset_id), "headers": {"Prefer": "return=representation"}}
    return _call(request, lambda response: [str(place) for place in response.json()["remains"]])


# Jobs


def job_body(
    problem: Any,
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    unit: str | None = None,
    seed: int | None = None,
) -> Json:
    """The body of a job: made of a problem and what may be spent on it, or whole as it was given."""
    given: Mapping[str, Any] = problem if isinstance(problem, Mapping) else problem.to_dict()
    body: Json = dict(given) if "problem" in given else {"problem": given}
    stated = {"epsilon": epsilon, "delta": delta, "unit": unit}
    privacy = {name: value for name, value in stated.items() if value is not None}
    if privacy:
        body["privacy"] = {**body.get("privacy", {}), **privacy}
    if seed is not None:
        body["seed"] = seed
    return body


def _dataset_of(body: Mapping[str, Any]) -> Any:
    inner = body.get("problem")
    return inner.get("dataset") if isinstance(inner, Mapping) else None


def _with_id(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body with the id of its dataset, where that is a registered one."""
    dataset: Any = _dataset_of(body)
    if isinstance(dataset, Mapping) and "id" in dataset and "content" not in dataset:
        return {**body, "problem": {**body["problem"], "dataset": dataset["id"]}}
    return body


def _registered(body: Json) -> Script[Mapping[str, Any]]:
    """The body with the id of its dataset, which is registered if it stands in it as a whole."""
    dataset: Any = _dataset_of(body)
    if isinstance(dataset, Mapping) and "content" in dataset:
        known = yield from register(dataset)
        return {**body, "problem": {**body["problem"], "dataset": known["id"]}}
    return body


def plan(body: Mapping[str, Any]) -> Call[Document[models.PlanAnswer]]:
    return _call(price_job._get_kwargs(body=_body(_with_id(body))), _document(models.PlanAnswer), repeatable=True)


def submit(body: Mapping[str, Any], idempotency_key: str | None) -> Call[Document[models.JobAnswer]]:
    """Repeatable: a repetition has the same key, so it is the same job and the same charge."""
    key = idempotency_key or str(uuid.uuid4())
    request = submit_job._get_kwargs(body=_body(_with_id(body)), idempotency_key=key)
    return _call(request, _document(models.JobAnswer), repeatable=True, busy_codes=("request_in_flight",))


def job(job_id: str) -> Call[Document[models.JobAnswer]]:
    return _call(get_job._get_kwargs(job_id), _document(models.JobAnswer))


def jobs(query: Mapping[str, Any]) -> Call[Document[models.JobPage]]:
    return _call(list_jobs._get_kwargs(**query), _document(models.JobPage))


def result(job_id: str) -> Call[Document[models.ResultAnswer]]:
    def read(response: httpx.Response) -> Document[models.ResultAnswer]:
        document = Document(response.json(), models.ResultAnswer)
        if len(response.content) <= CHECKED_BYTES:
            certificates.require_result(document["certificate"], document["result"])
        return document

    return _call(get_result._get_kwargs(job_id), read)


def result_table(job_id: str, table: str, certificate: Mapping[str, Any] | None = None) -> Call[bytes]:
    def read(response: httpx.Response) -> bytes:
        if certificate is not None:
            certificates.require_table(certificate, table, response.content)
        return response.content

    return _call(get_result_table._get_kwargs(job_id, table), read)


def cancel(job_id: str) -> Call[Document[models.CancelAnswer]]:
    return _call(cancel_job._get_kwargs(job_id), _document(models.CancelAnswer))


def events(job_id: str, last_id: str) -> Mapping[str, Any]:
    """Arguments of the request for the job's events after `last_id`."""
    request = watch_job._get_kwargs(job_id)
    return {**request, "headers": {"Last-Event-ID": last_id, "Accept": "text/event-stream"}}


def solve(
    body: Json, *, idempotency_key: str | None, wanted: bool | progress.OnProgress | None, tables: bool
) -> Script[Answer]:
    """Register what is inline, submit, follow, fetch the result and its large fields."""
    submitted = yield submit((yield from _registered(body)), idempotency_key)
    bar = progress.bar(wanted)
    try:
        ended = yield Follow(submitted["id"], bar.show)
    finally:
        bar.close()
    return (yield from _answer(ended, tables))


def _answer(ended: Mapping[str, Any], tables: bool) -> Script[Answer]:
    if ended["state"] != "succeeded":
        raise JobFailed(ended)
    document = yield result(ended["id"])
    large = {}
    for name in document["result"].get("tables", []) if tables else []:
        large[name] = yield result_table(ended["id"], name, document["certificate"])
    return answer_of(document, large)


def answer(job_id: str, *, tables: bool) -> Script[Answer]:
    """The answer of a job that has ended."""
    return (yield from _answer((yield job(job_id)), tables))


# Sessions of federated jobs


def session_tokens(
    job_id: str, owner: str, count: int, group: str | None
) -> Call[Document[models.SessionTokensAnswer]]:
    body: Json = {"owner": owner, **({"count": count} if group is None else {"group": group})}
    return _call(invite_agents._get_kwargs(job_id, body=_body(body)), _document(models.SessionTokensAnswer))


def session(job_id: str) -> Call[Document[models.SessionAnswer]]:
    return _call(get_session._get_kwargs(job_id), _document(models.SessionAnswer))


def approve_session(
    job_id: str, roster: str, signature: str, owner_key: str, save_as: str | None
) -> Call[Document[models.SessionAnswer]]:
    body = {"roster": roster, "signature": signature, "owner_key": owner_key}
    whole = {**body, **({"save_as": save_as} if save_as is not None else {})}
    return _call(approve_roster._get_kwargs(job_id, body=_body(whole)), _document(models.SessionAnswer))


# Budgets and the ledger


def budgets() -> Call[list[Document[models.BudgetAnswer]]]:
    return _call(list_budgets._get_kwargs(), _list("budgets", models.BudgetAnswer))


def budget(account_id: str) -> Call[Document[models.BudgetAnswer]]:
    return _call(get_budget._get_kwargs(account_id), _document(models.BudgetAnswer))


def grant(account_id: str, epsilon: Amount, delta: Amount, reason: str) -> Call[Document[models.BudgetAnswer]]:
    body = {"cap": _figures(epsilon, delta), "reason": reason}
    return _call(grant_budget._get_kwargs(account_id, body=_body(body)), _document(models.BudgetAnswer))


def entries(account_id: str, page_token: str | None) -> Call[Document[models.EntryPage]]:
    return _call(list_entries._get_kwargs(account_id, page_token=page_token), _document(models.EntryPage))


def caps() -> Call[list[Document[models.BudgetAnswer]]]:
    return _call(list_caps._get_kwargs(), _list("caps", models.BudgetAnswer))


def set_cap(
    scope: str, epsilon: Amount, delta: Amount, reason: str, principal: str | None
) -> Call[Document[models.BudgetAnswer]]:
    body = {"scope": scope, "cap": _figures(epsilon, delta), "reason": reason}
    whole = {**body, **({"principal": principal} if principal else {})}
    return _call(put_cap._get_kwargs(body=_body(whole)), _document(models.BudgetAnswer))


def ledger_head() -> Call[Document[models.HeadAnswer]]:
    return _call(get_ledger_head._get_kwargs(), _document(models.HeadAnswer))


def ledger_export() -> Mapping[str, Any]:
    """Arguments of the request for the whole ledger."""
    return cast(Mapping[str, Any], export_ledger._get_kwargs())


def check_certificate(
    certificate: Mapping[str, Any], result: Mapping[str, Any] | None, tables: Mapping[str, bytes] | None
) -> Call[Document[models.CertificateVerdict]]:
    body: Json = {"certificate": certificate}
    if result is not None:
        body["result"] = result
    if tables:
        body["tables"] = {name: hashlib.sha256(parquet).hexdigest() for name, parquet in tables.items()}
    request = verify_certificate._get_kwargs(body=_body(body))
    return _call(request, _document(models.CertificateVerdict), repeatable=True)


# Tenants and keys


def create_tenant(name: str) -> Call[Document[models.TenantAnswer]]:
    return _call(make_tenant._get_kwargs(body=_body({"name": name})), _document(models.TenantAnswer))


def create_key(
    role: str, principal: str, tenant: str | None, expires_at: str | None
) -> Call[Document[models.KeyAnswer]]:
    stated = {"role": role, "principal": principal, "tenant": tenant, "expires_at": expires_at}
    body = {name: value for name, value in stated.items() if value}
    return _call(make_key._get_kwargs(body=_body(body)), _document(models.KeyAnswer))


def login_link() -> Call[Json]:
    """Not of `/v1`: a call of the dashboard, which takes API keys here alone."""

    def read(response: httpx.Response) -> Json:
        made: Json = response.json()
        return {**made, "link": str(response.url.join(made["path"]))}

    return Call({"method": "POST", "url": "/login/links"}, read, repeatable=False)


def all_keys() -> Call[list[Json]]:
    return _call(list_keys._get_kwargs(), lambda response: list(response.json()["keys"]))


def revoke_key(key_id: str) -> Call[None]:
    return _call(end_key._get_kwargs(key_id), _nothing)
