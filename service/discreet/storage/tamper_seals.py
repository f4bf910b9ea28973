"""MACs over what was accepted: whoever can write rows but lacks the secrets cannot turn them
into others.

A dataset's data key is wrapped together with what decides how its content may be used: tenant,
account, kind, mode, public part. A job is sealed with a MAC over what it will do: dataset, problem,
plan, price, seed. A worker opens no content for a dataset or a job that is not the one that was
accepted: a plan with less noise than the ledger charges for, or a private dataset declared a
simulation, would be a release that nobody pays for.

Values are compared as they come back from JSONB: objects without order, numbers as the doubles that
they are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import Unavailable
from discreet.storage import sealing
from discreet.storage.secrets import Secrets

_EXACT = 2**53
_DATASET = ("id", "tenant_id", "account_id", "kind", "mode", "public")
_BLOCK = ("source_id", "block", "version")
_JOB = ("dataset_id", "id", "kind", "plan", "price", "problem", "tenant_id")
"""Sorted, as keys of canonical text are."""
_TEXTS = ("plan", "problem")


class JobKeyUnknown(Unavailable):
    """The key that sealed this job is not known here."""


def terms(dataset: Mapping[str, Any]) -> bytes:
    """32 bytes of what a dataset's row says of the use of its content."""
    said = {name: dataset[name] for name in _DATASET}
    if dataset.get("source_id") is not None:  # so that a block cannot be called another
        said |= {name: dataset[name] for name in _BLOCK}
    return hashlib.sha256(canonical([said, bytes(dataset["digest"]).hex()]).encode()).digest()


def wrap(secrets: Secrets, dataset: Mapping[str, Any], data_key: bytes) -> bytes:
    """The data key of a dataset, wrapped by the master key in use and bound to the row's terms."""
    return sealing.wrap(secrets, dataset["id"], data_key, terms(dataset))


def unwrap(secrets: Secrets, dataset: Mapping[str, Any]) -> bytes:
    """The data key. SealBroken where the row's terms are not those that it is bound to."""
    key_id, name, wrapped = dataset["content_key_id"], dataset["id"], bytes(dataset["wrapped_key"])
    return sealing.unwrap(secrets, key_id, name, wrapped, terms(dataset))


def seal_job(secrets: Secrets, job: Mapping[str, Any]) -> str:
    """The MAC of a job's row, by the key that is used now: its id, a colon, hexadecimal."""
    return seal_text(secrets, _plain_row(job))


def _plain_row(job: Mapping[str, Any]) -> dict[str, Any]:
    return {**job, "problem": canonical(job["problem"]), "plan": canonical(job["plan"])}


def seal_text(secrets: Secrets, job: Mapping[str, Any]) -> str:
    """The same where `problem` and `plan`, of which there may be many jobs, are `canonical` text
    already."""
    key_id = secrets.job_key_id
    return f"{key_id}:{_mac(secrets.job_keys[key_id], _said(job))}"


def _said(job: Mapping[str, Any]) -> str:
    """What a seal covers."""
    members = (f'"{name}":{job[name] if name in _TEXTS else canonical(job[name])}' for name in _JOB)
    # The seed apart and as text: it has more digits than a double.
    return f"[{{{','.join(members)}}},{canonical(str(job['seed']))}]"


def _mac(key: bytes, said: str) -> str:
    return hmac.digest(key, b"discreet/job/v2\0" + said.encode(), hashlib.sha256).hex()


def release_terms(said: str, datasets: Sequence[Mapping[str, Any]]) -> bytes:
    """32 bytes of what a release was accepted for: what its job's seal covers, and what the keys of
    its datasets are bound to. Its own key opens with these alone, also when keys of seals have
    changed and data were erased."""
    return hashlib.sha256(said.encode() + b"".join(map(terms, datasets))).digest()


def sealed_text(job: Mapping[str, Any]) -> str:
    """What a job's seal covers, as text."""
    return _said(_plain_row(job))


def is_accepted(
    secrets: Secrets, job: Mapping[str, Any], seal: str | None, *, said: str | None = None
) -> bool:
    """Whether this is the job that was accepted. JobKeyUnknown where a rotation has not reached
    this machine. `said` is `sealed_text(job)`, where it is known already."""
    key_id, _, mac = (seal or "").rpartition(":")
    if not key_id:
        return False
    if key_id not in secrets.job_keys:
        raise JobKeyUnknown()
    expected = _mac(secrets.job_keys[key_id], sealed_text(job) if said is None else said)
    return hmac.compare_digest(mac.encode(), expected.encode())


def canonical(value: Any) -> str:
    """The one JSON text of a value, whether it comes from a request or from JSONB."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """The same value however a database writes its numbers: 1.0 and 1, 1e22 and its digits, -0.0
    and 0."""
    kind = type(value)
    if kind is dict:
        return {name: _plain(one) for name, one in value.items()}
    if kind is list or kind is tuple:
        return [_plain(one) for one in value]
    if kind is float:
        return int(value) if value.is_integer() and -_EXACT < value < _EXACT else value
    if kind is int and not -_EXACT < value < _EXACT:
        try:
            return float(value)
        except OverflowError:  # no double; JSONB keeps its digits
            return value
    return value
