"""What both clients say: one function a call of the API, and what is made of several. No I/O here.

A `Call` is one request and how its answer is read. Paths, parameters, bodies and answers are those
of the generated `discreet_client.rest`, so that mypy shows here what a changed contract breaks. A
script is a generator that yields calls (and `Follow`) and is sent their answers; `Client` and
`AsyncClient` run it each in their way.
"""

from __future__ import annotations

import hashlib
import re
import uuid
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Generic, Literal, TypeVar, cast

import httpx

from discreet_client import (
    certificates,
    episodes,
    networks,
    openadr,
    people,
    progress,
    readers,
    shown,
    source_blocks,
)
from discreet_client.answers import Answer, answer_of
from discreet_client.contents import File, content_of, dumps, fits, table_file
from discreet_client.errors import (
    AlreadyReleased,
    JobFailed,
    LeftOut,
    OtherAccounts,
    RoundedDown,
    Unauthenticated,
    Unreachable,
)
from discreet_client.forms import forms_in
from discreet_client.rest import Operation, models, operations
from discreet_client.rest.contents import CONTENTS
from discreet_client.tables import NoRows, TableError

Json = dict[str, Any]
Amount = Decimal | float
Auto = Literal["auto"]
Preset = Literal["strict", "usual", "loose"]
Asked = Answer | str
"""An answer, or the id of a job."""

CHECKED_BYTES = 16 << 20
"""A result whose JSON is longer is not compared with its certificate on arrival:
`certificates.require_result` does."""

T = TypeVar("T")
U = TypeVar("U")


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


@dataclass(frozen=True)
class StoredNetwork:
    """A stored network, which the client keeps: networks never change. None where it cannot be
    had, which is no reason to lose an answer."""

    network_id: str


Script = Generator[Call[Any] | Follow | StoredNetwork, Any, T]


CONNECT_SECONDS, READING_SECONDS = 60.0, 7200.0
"""Time limits of a request with a file: for each piece that is sent, and for the answer, as long as
the service may read."""
_WITH_FILES = re.compile(r"/v1/(datasets|reads|sources)(/[^/]+(/blocks)?)?")

_CALLER = 4
"""Frames between who calls a method of the client and its script: the method, and what drives
it."""


def connection(server: str, key: str) -> dict[str, Any]:
    """Address and headers of a client. Unreachable and Unauthenticated where they cannot be meant:
    a line break that was read with a key is not part of it."""
    if not server.startswith(("http://", "https://")):
        raise Unreachable(f"{server!r} is no address: it begins with http:// or https://")
    key = (key or "").strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        problem = {
            "code": "key_malformed",
            "detail": "the API key is empty, or contains characters that no key has",
        }
        raise Unauthenticated(401, problem)
    return {"base_url": server, "headers": {"Authorization": f"Bearer {key}"}}


def _request(operation: Operation[Any]) -> dict[str, Any]:
    """Arguments of httpx's `request`; parameters that are None are left out."""
    stated = {
        name: {key: str(value) for key, value in given.items() if value is not None}
        for name, given in (("params", operation.query), ("headers", operation.headers))
    }
    if operation.body is not None:
        stated["headers"]["Content-Type"] = "application/json"
    content: dict[str, Any] = {}
    if operation.body is not None:
        content["content"] = dumps(operation.body)
    if operation.method in ("POST", "PATCH") and _WITH_FILES.fullmatch(operation.path):
        content["timeout"] = httpx.Timeout(CONNECT_SECONDS, read=READING_SECONDS)
    return {"method": operation.method, "url": operation.path, **stated, **content}


def call(
    operation: Operation[T], *, repeatable: bool = False, busy_codes: tuple[str, ...] = ()
) -> Call[T]:
    """A call of an operation of the contract. What is no POST, or has an idempotency key, may be
    repeated."""
    idempotent = operation.method != "POST" or operation.headers.get("idempotency-key") is not None
    return Call(_request(operation), _answered, repeatable or idempotent, busy_codes)


def _part(operation: Operation[T], take: Callable[[T], U]) -> Call[U]:
    """A call that gives only a part of what is answered."""
    whole = call(operation)
    return Call(whole.request, lambda response: take(whole.read(response)), whole.repeatable)


def _shown(whole: Call[T], kind: Callable[[Any], Any]) -> Call[T]:
    """The call with its answer in a class that notebooks show: the same dictionary or list
    otherwise."""
    return replace(whole, read=lambda response: cast(T, kind(whole.read(response))))


def _answered(response: httpx.Response) -> Any:
    """JSON, text or bytes, as the answer says that it is; None when it says nothing. Unreachable
    for what says that it is JSON and is not: some other program stands there."""
    media = response.headers.get("Content-Type", "").partition(";")[0]
    if not media:
        return None
    if media == "application/json":
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise Unreachable(
                f"{response.request.url.path} was answered with what cannot be read as JSON"
            ) from error
    return response.text if media.startswith("text/") else response.content


DECIMALS = {"epsilon": 9, "delta": 18, "rho": 18}
"""In which the service counts; more it refuses."""


def _counted(name: str, value: Any) -> Any:
    """A figure of a budget in the service's steps, rounded down, and said: `1/3` has more decimals.
    What would be nothing, or is no number, goes as it is: the service says what is wrong."""
    if name not in DECIMALS or isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Fraction):
        value = Decimal(value.numerator) / Decimal(value.denominator)
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not exact.is_finite() or exact.adjusted() > 30:
        return value
    down = exact.quantize(Decimal(1).scaleb(-DECIMALS[name]), ROUND_DOWN, Context(prec=60))
    if down in (0, exact):
        return value
    warnings.warn(
        f"{name} {value} is sent as {down.normalize():f}: the service counts in steps of "
        f"1e-{DECIMALS[name]}",
        RoundedDown,
        stacklevel=4,
    )
    return down


def _in_steps(figures: Mapping[str, Any]) -> Json:
    return {name: _counted(name, value) for name, value in figures.items()}


def _figures(epsilon: Amount, delta: Amount) -> Any:
    """As numbers of a body, where `dumps` takes decimals too."""
    return _in_steps({"epsilon": epsilon, "delta": delta})


# Sources


def create_source(source: Mapping[str, Any]) -> Call[models.SourceAnswer]:
    body: Any = dict(source)
    return call(operations.create_source(body), repeatable=True)


def add_block(
    source_id: str,
    block: str,
    content: Any,
    *,
    stays: bool = False,
    accept_doubts: bool = False,
    local: bool = False,
    reader: Mapping[str, Any] | None = None,
) -> Script[models.BlockAnswer]:
    """The same content of the same block again is the same version, so this may be repeated."""
    added: models.BlockAnswer
    body: Any = {"block": block, **({"accept_doubts": True} if accept_doubts else {})}
    if local:
        if _is_address(content, stays):
            raise TypeError("local=True reads a table here; an address is read by the service")
        source: Any = yield get_source(source_id)
        rules = {**(source["public"].get("reader") or {}), **(reader or {})}
        zones = rules.get("zones")
        if isinstance(zones, Mapping) and set(zones) == {"network"}:
            network = yield StoredNetwork(zones["network"])
            rules["zones"] = _zones_in(network, zones["network"], source["public"].get("zones"))
        content, notes = _block_at_home(source, block, content, rules)
        body["already_read"] = True
        _left_out(notes, _CALLER)
    elif reader:
        body["reader"] = dict(reader)
    if _is_address(content, stays):
        body |= _placed(content, stays)
        added = yield call(operations.add_block(source_id, body), repeatable=True)
        return added
    if content is None or isinstance(content, Mapping):
        body["content"] = dict(content or {})
        added = yield call(operations.add_block(source_id, body), repeatable=True)
        return added
    sent = content
    if isinstance(content, str | Path):
        sent = content_of("", content, None)
    elif not isinstance(content, File):
        sent = table_file(content)
    with sent.body as file:
        whole = call(operations.add_block(source_id, cast(Any, None)), repeatable=True)
        added = yield _upload(cast(Any, whole), body, file, sent.name)
    _left_out(added.get("notes", ()), _CALLER)
    return added


def _zones_in(network: Mapping[str, Any] | None, network_id: str, count: Any) -> list[str]:
    """The names of zones that are the first nodes of a stored network."""
    if network is None:
        raise TableError(f"reader.zones: there is no stored network {network_id[:64]}")
    names = network.get("node_names") or range(1, network["nodes"] + 1)
    return [str(name) for name in names][:count]


def _block_at_home(
    source: Mapping[str, Any], block: str, content: Any, rules: Mapping[str, Any]
) -> tuple[Any, Sequence[str]]:
    """What is sent of a block that is read here, and notes for the data holder."""
    public = source["public"]
    try:
        reading = source_blocks.read(
            source["kind"],
            content,
            {**public, "reader": rules},
            by=source["by"],
            name=block,
        )
    except NoRows:
        return None, []
    return table_file(source_blocks.dated(reading, source["by"], block)), reading.notes


def correct_source(source_id: str, public: Mapping[str, Any]) -> Call[models.SourceAnswer]:
    return call(operations.correct_source(source_id, cast(Any, {"public": public})))


def set_source_rule(source_id: str, rule: Mapping[str, Any]) -> Call[models.RuleAnswer]:
    body: Any = dict(rule)
    return call(operations.set_source_rule(source_id, body), repeatable=True)


def get_source(source_id: str) -> Call[models.SourceAnswer]:
    return call(operations.get_source(source_id))


def list_sources(page_token: str | None) -> Call[models.SourcePage]:
    return call(operations.list_sources(page_token=page_token))


# Networks

NetworkGiven = str | Path | Mapping[str, Any] | networks.NetworkReading


def add_network(
    given: Sequence[NetworkGiven], name: str | None, options: Mapping[str, Any]
) -> Call[models.NetworkAnswer]:
    """The network of these files, or the one that was given as it is; the same one again is the
    same object."""
    reading = _network_of(given, options)
    if told := [*reading.warnings, *reading.left_out]:
        warnings.warn("; ".join(told), LeftOut, stacklevel=3)
    body: Any = {"name": name or reading.name, "network": reading.network}
    if reading.zones is not None:
        body["zones"] = reading.zones
    return call(operations.add_network(body), repeatable=True)


def _network_of(
    given: Sequence[NetworkGiven], options: Mapping[str, Any]
) -> networks.NetworkReading:
    match given:
        case [networks.NetworkReading() as reading] if not options:
            return reading
        case [Mapping() as network] if not options:
            return networks.NetworkReading("network", dict(network))
    files = [one for one in given if isinstance(one, str | Path)]
    if len(files) < len(given):
        raise TypeError(
            "add(network) or add(*files, **options): a network that is given as a "
            "whole takes no options"
        )
    return networks.read(*files, **options)


def get_network(network_id: str) -> Call[models.NetworkAnswer]:
    return call(operations.get_network(network_id))


def list_networks(page_token: str | None) -> Call[models.NetworkPage]:
    return call(operations.list_networks(page_size=200, page_token=page_token))


def delete_network(network_id: str) -> Call[None]:
    return call(operations.delete_network(network_id))


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
    columns: Mapping[str, str] | None = None,
    stays: bool = False,
    accept_doubts: bool = False,
    local: bool = False,
) -> Json:
    """The body of a registration, whole as it was given, or from its parts. With `columns`, or
    rules `public.reader`, the content is a table that the service reads by them; `local`: it is
    read here, and what the reader makes of it is sent. Columns of which none is to be renamed are
    `{}`."""
    if isinstance(kind, Mapping):
        return dict(kind)
    if public is None or content is None:
        raise TypeError("register(kind, public, content, cap=…): public and content are needed")
    placed, is_described = _is_address(content, stays), columns is not None
    is_described = is_described or "reader" in public or "columns" in public
    read = dict[str, Any]()
    if episodes.are_episodes(content):  # whose rules may be functions
        reading = readers.read(kind, content, public, columns)
        public, content = reading.public, reading.columns
        _left_out(reading.notes, 4)
    elif placed and local:
        raise TypeError("local=True reads a table here; an address is read by the service")
    elif is_described or (not placed and openadr.is_openadr(content)):
        if local:
            public, content, notes = readers.read_here(kind, content, public, columns)
            read = {"already_read": True}
        else:
            public, notes = readers.sendable(public, columns)
            if not placed and not isinstance(content, str | Path | list):
                content = table_file(content)
        _left_out(notes, 4)
    if cap is not None:
        cap = _in_steps(cap) if isinstance(cap, Mapping) else _figures(cap, 0)
    given = {"name": name or f"{kind} dataset", "kind": kind, "public": public}
    given |= _placed(content, stays) if placed else {"content": content}
    rest = {
        "cap": cap,
        "mode": mode,
        "account": account,
        "accept_doubts": accept_doubts or None,
    }
    return {
        **given,
        **read,
        **{field_name: value for field_name, value in rest.items() if value is not None},
    }


def _left_out(notes: Sequence[str], level: int) -> None:
    if notes:
        warnings.warn("; ".join(notes), LeftOut, stacklevel=level + 1)


def _is_address(content: Any, stays: bool) -> bool:
    """Whether the service is to read the content. TypeError for any other that is to stay."""
    placed = isinstance(content, str) and "://" in content
    if stays and not placed:
        raise TypeError("stays=True needs an address as content: file:///…, https://…, s3://…")
    return placed


def _placed(address: Any, stays: bool) -> Json:
    return {"content_from": address, **({"content_stays": True} if stays else {})}


def add(
    content: Any,
    kind: str,
    public: Mapping[str, Any],
    columns: Mapping[str, str] | None,
    *,
    name: str | None,
    same_people_as: str | Mapping[str, Any] | None,
    other_people: bool,
    **rest: Any,
) -> Script[models.DatasetAnswer]:
    """Register a table, which goes through the kind's reader where it is not what the service
    reads; on the account of a dataset of the same people, where one is named."""
    if same_people_as is not None:
        if other_people or rest["account"] is not None:
            raise TypeError(
                "same_people_as names the account, so neither account nor other_people may be given"
            )
        if isinstance(same_people_as, str):
            rest["account"] = people.account_of((yield budgets()), same_people_as)
        else:
            rest["account"] = same_people_as["account"]
        rest["cap"] = None
    if isinstance(content, str | Path):
        name = name or Path(content).name
        reads = readers.needed(kind, Path(content), public, columns)
    else:
        reads = bool(columns) or readers.knows(kind, getattr(content, "columns", ()))
    body = dataset_body(
        kind, public, content, name=name, columns=(columns or {}) if reads else None, **rest
    )
    made = yield from register(body)
    if not other_people:
        yield from _warned(body, made)
    return made


def _warned(body: Mapping[str, Any], made: models.DatasetAnswer) -> Script[None]:
    """Of accounts on which the people of a new dataset may be too."""
    private = []
    for one in people.others((yield budgets()), body):
        for held in one["datasets"] if one["id"] != made["account"] else ():
            if held["deleted"] or (yield dataset(held["id"]))["mode"] == "private":
                private.append(one)
                break
    if private:
        first = private[0]["datasets"][0]["id"]
        says = (
            f"is anybody of {made['name']} also in "
            f"{'; or in '.join(map(people.described, private))}? Then register it with "
            f"same_people_as={first!r}, or the like, before any job: over several accounts losses "
            "add up. If not: other_people=True"
        )
        warnings.warn(OtherAccounts(says), stacklevel=_CALLER + 1)


def correct(
    given: str | Mapping[str, Any],
    public: Mapping[str, Any],
    content: Any,
    columns: Mapping[str, str] | None,
    stays: bool,
    local: bool = False,
) -> Script[models.DatasetAnswer]:
    """Correct a dataset; its content, where it is given, is read by the whole new public part."""
    dataset_id = given if isinstance(given, str) else str(given["id"])
    corrected: models.DatasetAnswer
    if columns is not None:
        public = {**public, "columns": dict(columns)}
    if content is None or _is_address(content, stays):
        where = {} if content is None else _placed(content, stays)
        corrected = yield _correction(dataset_id, {"public": public, **where})
        return corrected
    known = yield dataset(dataset_id)
    kind, before = known["kind"], known["public"]
    whole = _merged(before, public)
    if isinstance(content, str | Path):
        reads = readers.needed(kind, Path(content), whole, columns)
    else:
        reads = bool(columns) or readers.knows(kind, getattr(content, "columns", ()))
    body = dataset_body(
        kind,
        whole,
        content,
        cap=None,
        name=known["name"],
        mode=None,
        account=None,
        columns=(columns or {}) if reads else None,
        local=local,
    )
    said: Json = {"public": _as_patch(before, body["public"])}
    said |= {"already_read": True} if "already_read" in body else {}
    sent = yield from _sent(kind, body["content"])
    if isinstance(sent, File):
        with sent.body:
            corrected = yield _upload(_correction(dataset_id, None), said, sent.body, sent.name)
    else:
        corrected = yield _correction(dataset_id, {**said, "content": sent})
    _left_out(corrected.get("notes", ()), _CALLER)
    return corrected


def _as_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The merge patch that makes one of the other."""
    patch: Json = {name: None for name in before if name not in after}
    for name, new in after.items():
        old = before.get(name)
        if isinstance(new, Mapping) and isinstance(old, Mapping):
            patch[name] = _as_patch(old, new)
        else:
            patch[name] = new
    return patch


def _correction(dataset_id: str, body: Any) -> Call[models.DatasetAnswer]:
    return call(operations.correct_dataset(dataset_id, body))


def _merged(value: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """JSON Merge Patch (RFC 7396), as the service merges."""
    found = dict(value)
    for name, new in patch.items():
        if new is None:
            found.pop(name, None)
        elif isinstance(new, Mapping):
            old = found.get(name)
            found[name] = _merged(old if isinstance(old, Mapping) else {}, new)
        else:
            found[name] = new
    return found


def _sent(kind: str, content: Any) -> Script[Any]:
    """A content as it is sent: JSON, or a `File`."""
    forms = CONTENTS.get(kind)
    if not fits(content, forms):  # the service may know more kinds, and more of a kind
        forms = forms_in(
            (yield Call({"method": "GET", "url": "/openapi.json"}, _answered, True))
        ).get(kind)
    return content_of(kind, content, forms)


def register(dataset: Mapping[str, Any]) -> Script[models.DatasetAnswer]:
    """The same content again is the same dataset, so this may be repeated."""
    content = None
    if "content" in dataset:
        content = yield from _sent(str(dataset.get("kind")), dataset["content"])
    registered: models.DatasetAnswer
    if isinstance(content, File):
        metadata = {name: value for name, value in dataset.items() if name != "content"}
        with content.body:
            registered = yield upload(metadata, content.body, content.name)
    else:
        registered = yield _registration(
            dataset if content is None else {**dataset, "content": content}
        )
    _left_out(registered.get("notes", ()), _CALLER)
    return registered


def _registration(whole: Any) -> Call[models.DatasetAnswer]:
    return call(operations.register_dataset(whole), repeatable=True)


def look(
    content: Any, kind: str, public: Mapping[str, Any], columns: Mapping[str, str] | None
) -> Script[models.LookAnswer]:
    """What a table would be read as; of a draft's id what is here already."""
    said, notes = readers.sendable(public, columns)
    _left_out(notes, _CALLER)
    found: models.LookAnswer
    body: Any = {"kind": kind, "public": said}
    if isinstance(content, str) and content.startswith("read_"):
        found = yield call(operations.look_at_file(cast(Any, {**body, "draft": content})))
        return found
    sent = content_of(kind, content, None) if isinstance(content, str | Path) else None
    sent = table_file(content) if sent is None else sent
    with sent.body as file:
        bare = call(operations.look_at_file(cast(Any, None)))
        found = yield _upload(cast(Any, bare), body, file, sent.name)
    return found


def upload(
    metadata: Mapping[str, Any], content: BinaryIO, filename: str
) -> Call[models.DatasetAnswer]:
    registration = call(operations.register_dataset(cast(Any, None)), repeatable=content.seekable())
    return _upload(registration, metadata, content, filename)


def correct_with(
    dataset_id: str, public: Mapping[str, Any], content: BinaryIO, filename: str
) -> Call[models.DatasetAnswer]:
    """Correct a dataset with a file as it is."""
    return _upload(_correction(dataset_id, None), {"public": public}, content, filename)


def _upload(
    bare: Call[models.DatasetAnswer], metadata: Mapping[str, Any], content: BinaryIO, filename: str
) -> Call[models.DatasetAnswer]:
    """A call without a body, with the multipart form of a metadata and a content."""
    multipart = {
        "data": {"metadata": dumps(metadata).decode()},
        "files": {"content": (filename, content)},
    }
    return replace(bare, request={**bare.request, **multipart})


def dataset(dataset_id: str) -> Call[models.DatasetAnswer]:
    return call(operations.get_dataset(dataset_id))


def datasets(page_token: str | None) -> Call[models.DatasetPage]:
    return call(operations.list_datasets(page_token=page_token))


def delete_dataset(dataset_id: str) -> Call[list[str]]:
    erasure = operations.delete_dataset(dataset_id, prefer="return=representation")
    return _part(erasure, lambda erased: erased["remains"] if erased else [])


# Jobs


def job_body(
    problem: Mapping[str, Any],
    *,
    epsilon: Amount | None = None,
    delta: Amount | Auto | None = None,
    rho: Amount | None = None,
    preset: Preset | None = None,
    accuracy: Mapping[str, Any] | None = None,
    unit: str | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Json:
    """The body of a job: made of a problem and what may be spent on it, or whole as it was given.
    Of epsilon, rho, preset and accuracy the one that is stated here takes the place of the one in a
    whole body."""
    body: Json = dict(problem) if "problem" in problem else {"problem": problem}
    ways = {"epsilon": epsilon, "rho": rho, "preset": preset, "accuracy": accuracy}
    stated = {
        name: value
        for name, value in {**ways, "delta": delta, "unit": unit}.items()
        if value is not None
    }
    if stated:
        kept = dict(body.get("privacy") or {})
        if stated.keys() & ways.keys():
            kept = {name: value for name, value in kept.items() if name not in ways}
        if stated.keys() & {"preset", "accuracy"}:  # with which delta is `auto`
            kept.pop("delta", None)
        body["privacy"] = {**kept, **_in_steps(stated)}
    return {
        **body,
        **{
            field: value
            for field, value in {"seed": seed, "name": name}.items()
            if value is not None
        },
    }


def _dataset_of(body: Mapping[str, Any]) -> Any:
    inner = body.get("problem")
    return inner.get("dataset") if isinstance(inner, Mapping) else None


def _with_id(body: Mapping[str, Any]) -> Any:
    """The body with the id of its dataset, where that is a registered one; its fields may be
    arrays."""
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


def plan(body: Mapping[str, Any]) -> Call[models.PlanAnswer]:
    return _shown(call(operations.price_job(_with_id(body)), repeatable=True), shown.Plan)


def submit(body: Mapping[str, Any], idempotency_key: str | None) -> Call[models.JobAnswer]:
    """Repeatable: a repetition has the same key, so it is the same job and the same charge."""
    submission = operations.submit_job(
        _with_id(body), idempotency_key=idempotency_key or str(uuid.uuid4())
    )
    return call(submission, busy_codes=("request_in_flight",))


def ladder(epsilon: Amount | None, epsilons: Sequence[Amount] | None) -> Sequence[Amount] | None:
    """The steps of a rehearsal, of which one may be said like that of a job. TypeError for both."""
    if epsilon is None:
        return epsilons and [_counted("epsilon", one) for one in epsilons]
    if epsilons is not None:
        raise TypeError("epsilon or epsilons, not both")
    return [_counted("epsilon", epsilon)]


def rehearsal_body(
    problem: Mapping[str, Any],
    *,
    epsilons: Sequence[Amount] | None,
    delta: Amount | Auto | None,
    units: int | None,
    public: Mapping[str, Any] | None,
    around: str | None,
    seed: int | None,
) -> Json:
    """The body of a rehearsal. Of a dataset that stands in the problem only its public part is
    sent."""
    body = _with_id(dict(problem) if "problem" in problem else {"problem": problem})
    dataset: Any = _dataset_of(body)
    if isinstance(dataset, Mapping):
        public = dataset["public"] if public is None else public
        body = {**body, "problem": {**body["problem"], "dataset": "rehearsed"}}
    kept = {
        name: body[name]
        for name in ("problem", "public", "epsilons", "units", "around", "seed")
        if name in body
    }
    privacy = None if delta is None else _in_steps({"epsilon": 1, "delta": delta})
    stated = {
        "epsilons": epsilons,
        "privacy": privacy,
        "units": units,
        "public": public,
        "around": around,
        "seed": seed,
    }
    return {**kept, **{name: value for name, value in stated.items() if value is not None}}


def rehearse(
    body: Json, *, idempotency_key: str | None, wanted: bool | progress.OnProgress | None
) -> Script[Answer]:
    """Submit a rehearsal, follow, fetch its result."""
    operation = operations.rehearse_job(
        cast(Any, body), idempotency_key=idempotency_key or str(uuid.uuid4())
    )
    submitted = yield call(operation, busy_codes=("request_in_flight",))
    bar = progress.bar(wanted)
    try:
        ended = yield Follow(submitted["id"], bar.show)
    finally:
        bar.close()
    return (yield from _answer(ended, True))


def job(job_id: str) -> Call[models.JobAnswer]:
    return call(operations.get_job(job_id))


def jobs(query: Mapping[str, Any]) -> Call[models.JobPage]:
    return call(operations.list_jobs(**query))


def result(job_id: str) -> Call[models.ResultAnswer]:
    def read(response: httpx.Response) -> models.ResultAnswer:
        document: models.ResultAnswer = response.json()
        if len(response.content) <= CHECKED_BYTES:
            certificates.require_result(document["certificate"], document["result"])
        return document

    return replace(call(operations.get_result(job_id)), read=read)


def certificate(job_id: str) -> Call[models.EnvelopeAnswer]:
    return call(operations.get_certificate(job_id))


def result_table(
    job_id: str, table: str, certificate: Mapping[str, Any] | None = None
) -> Call[bytes]:
    def checked(parquet: bytes) -> bytes:
        if certificate is not None:
            certificates.require_table(certificate, table, parquet)
        return parquet

    return _part(operations.get_result_table(job_id, table), checked)


def charts(job_id: str) -> Call[list[models.ChartAnswer]]:
    return _part(operations.get_charts(job_id), lambda page: page["charts"])


def cancel(job_id: str) -> Call[models.CancelAnswer]:
    return call(operations.cancel_job(job_id))


def events(job_id: str, last_id: str) -> dict[str, Any]:
    """Arguments of the request for the job's events after `last_id`."""
    headers = {"Last-Event-ID": last_id, "Accept": "text/event-stream"}
    return {**_request(operations.watch_job(job_id)), "headers": headers}


def solve(
    body: Json,
    *,
    idempotency_key: str | None,
    wanted: bool | progress.OnProgress | None,
    tables: bool,
    anew: bool = False,
) -> Script[Answer]:
    """Register what is inline, submit, follow, fetch the result and its large fields."""
    submitted = yield submit((yield from _registered(body)), idempotency_key)
    if submitted.get("reusable") and not (anew or submitted.get("simulation")):
        found = AlreadyReleased(submitted["id"], submitted["reusable"])
        warnings.warn(found, stacklevel=_CALLER)
    bar = progress.bar(wanted)
    try:
        ended = yield Follow(submitted["id"], bar.show)
    finally:
        bar.close()
    return (yield from _answer(ended, tables))


def ask_again(
    of: Asked | Sequence[Asked],
    fields: Mapping[str, Any],
    *,
    idempotency_key: str | None,
    wanted: bool | progress.OnProgress | None,
    tables: bool,
) -> Script[Answer]:
    """The problem of the first of these jobs, with other values of some fields, asked of what they
    released."""
    jobs = [
        one if isinstance(one, str) else one.id
        for one in ([of] if isinstance(of, str | Answer) else of)
    ]
    first = yield job(jobs[0])
    release = {"dataset": None, "release": jobs[0] if len(jobs) == 1 else jobs}
    known = {name: value for name, value in (first["problem"] or {}).items() if name != "source"}
    body: Json = {"problem": {**known, **fields, **release}}
    return (yield from solve(body, idempotency_key=idempotency_key, wanted=wanted, tables=tables))


def _answer(ended: Mapping[str, Any], tables: bool) -> Script[Answer]:
    if ended["state"] != "succeeded":
        raise JobFailed(ended)
    document = yield result(ended["id"])
    large = {}
    for name in document["result"].get("tables", []) if tables else []:
        large[name] = yield result_table(ended["id"], name, document["certificate"])
    answer = answer_of(document, large)
    if any("link" in answer.AXES.get(name, ()) for name in answer.fields):
        network = (ended.get("problem") or {}).get("network")
        if isinstance(network, str):
            network = yield StoredNetwork(network)
        answer.network = network or {}
    return answer


def answer(job_id: str, *, tables: bool) -> Script[Answer]:
    """The answer of a job that has ended."""
    return (yield from _answer((yield job(job_id)), tables))


# Sessions of federated jobs


def session_tokens(
    job_id: str, owner: str, count: int, names: Sequence[str] | None, group: str | None
) -> Call[models.SessionTokensAnswer]:
    body: models.SessionTokensRequest = {"owner": owner}
    if group is not None:
        body["group"] = group
    elif names is not None:
        body["names"] = list(names)
    else:
        body["count"] = count
    return call(operations.invite_agents(job_id, body))


def remove_agent(job_id: str, fingerprint: str) -> Call[None]:
    return call(operations.remove_agent(job_id, fingerprint))


def start_session_again(
    job_id: str, without: Sequence[str] | None
) -> Call[models.SessionAgainAnswer]:
    body: models.SessionAgainRequest = {}
    if without is not None:
        body["without"] = list(without)
    return call(operations.start_session_again(job_id, body))


def session(job_id: str) -> Call[models.SessionAnswer]:
    return call(operations.get_session(job_id))


def session_statement(job_id: str) -> Call[models.EnvelopeAnswer]:
    return call(operations.get_session_statement(job_id))


def approve_session(
    job_id: str, roster: str, signature: str, owner_key: str, save_as: str | None
) -> Call[models.SessionAnswer]:
    body: models.RosterRequest = {"roster": roster, "signature": signature, "owner_key": owner_key}
    if save_as is not None:
        body["save_as"] = save_as
    return call(operations.approve_roster(job_id, body))


# Budgets and the ledger


def budgets() -> Call[list[models.BudgetAnswer]]:
    return _shown(_part(operations.list_budgets(), lambda page: page["budgets"]), shown.Budgets)


def budget(account_id: str) -> Call[models.BudgetAnswer]:
    return _shown(call(operations.get_budget(account_id)), shown.Budget)


def grant(
    account_id: str, epsilon: Amount, delta: Amount, reason: str, request: str | None = None
) -> Call[models.BudgetAnswer]:
    body: models.GrantRequest = {"cap": _figures(epsilon, delta), "reason": reason}
    if request is not None:
        body["request"] = request
    return call(operations.grant_budget(account_id, body))


def request_budget(
    account_id: str, epsilon: Amount, delta: Amount, reason: str
) -> Call[models.BudgetRequestAnswer]:
    return call(
        operations.request_budget(account_id, {"more": _figures(epsilon, delta), "reason": reason})
    )


def budget_requests(account_id: str) -> Call[list[models.BudgetRequestAnswer]]:
    return _part(operations.list_budget_requests(account_id), lambda page: page["requests"])


def decline_budget_request(
    account_id: str, request_id: str, answer: str
) -> Call[models.BudgetRequestAnswer]:
    return call(operations.decline_budget_request(account_id, request_id, {"answer": answer}))


def entries(account_id: str, page_token: str | None) -> Call[models.EntryPage]:
    return call(operations.list_entries(account_id, page_token=page_token))


def caps() -> Call[list[models.BudgetAnswer]]:
    return _part(operations.list_caps(), lambda page: page["caps"])


def set_cap(
    scope: str, epsilon: Amount, delta: Amount, reason: str, principal: str | None
) -> Call[models.BudgetAnswer]:
    body: Any = {"scope": scope, "cap": _figures(epsilon, delta), "reason": reason}
    return call(operations.set_cap(body | ({"principal": principal} if principal else {})))


def ledger_head() -> Call[models.HeadAnswer]:
    return call(operations.get_ledger_head())


def ledger_head_statement() -> Call[models.EnvelopeAnswer]:
    return call(operations.get_ledger_head_statement())


def ledger_export() -> dict[str, Any]:
    """Arguments of the request for the whole ledger."""
    return _request(operations.export_ledger())


def check_certificate(
    certificate: Mapping[str, Any],
    result: Mapping[str, Any] | None,
    tables: Mapping[str, bytes] | None,
) -> Call[models.CertificateVerdict]:
    body: Any = {"certificate": certificate}
    if result is not None:
        body["result"] = result
    if tables:
        body["tables"] = {
            name: hashlib.sha256(parquet).hexdigest() for name, parquet in tables.items()
        }
    return call(operations.verify_certificate(body), repeatable=True)


# Operators


def read_operations() -> Call[models.OperationsAnswer]:
    return call(operations.read_operations())


# Tenants and keys


def create_tenant(name: str) -> Call[models.TenantAnswer]:
    return call(operations.create_tenant({"name": name}))


def create_key(
    role: str, principal: str, tenant: str | None, expires_at: str | None
) -> Call[models.KeyAnswer]:
    body: Any = {"role": role, "principal": principal, "tenant": tenant, "expires_at": expires_at}
    return call(
        operations.create_key(cast(Any, {name: value for name, value in body.items() if value}))
    )


def login_link() -> Call[Json]:
    """Not of `/v1`: a call of the dashboard, which takes API keys here alone."""

    def read(response: httpx.Response) -> Json:
        made: Json = response.json()
        return {**made, "link": str(response.url.join(made["path"]))}

    return Call({"method": "POST", "url": "/login/links"}, read, repeatable=False)


def people_of(subject: str | None) -> Call[list[models.PersonEntry]]:
    return _part(operations.list_people(subject=subject), lambda page: page["people"])


def set_person(
    subject: str, issuer: str | None, active: bool, keep_keys: bool
) -> Call[models.PersonState]:
    body: models.PersonRequest = {"subject": subject, "active": active, "keep_keys": keep_keys}
    if issuer is not None:
        body["issuer"] = issuer
    return call(operations.set_person(body))


def all_keys() -> Call[list[models.KeyEntry]]:
    return _part(operations.list_keys(), lambda page: page["keys"])


def revoke_key(key_id: str) -> Call[None]:
    return call(operations.revoke_key(key_id))
