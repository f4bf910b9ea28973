"""Certificates: what a result guarantees, made of the plan's events alone and signed.

A certificate repeats everything that its price follows from, so that whoever holds it can derive
the price again without this service. It binds its result: `result_digest` is the SHA-256 of the
result's canonical JSON, `tables` those of the Parquet files of the fields that were left out of it;
and the sentence that lists show of it, and what was asked about a dataset. Certificates of older
versions bind fewer of these, or none. Signature: Ed25519 over the canonical JSON (RFC 8785) of the
certificate without `signature`, and without the `proofs` of the transparency log (`ledger.proofs`),
which come later and hold by themselves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.ledger.signer import Signer
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price, to_decimal
from discreet_client import canonical, ed25519
from discreet_client.dsse import bytes_of

FAILURE_ASSUMPTION = (
    "an attempt that died before its release was stored revealed nothing, and its death did not "
    "depend on the data or the noise"
)
POST_PROCESSING = "post_processing"
"""The guarantee of what follows from earlier releases alone: nothing beyond theirs is given
away."""
FOLLOWED = ("job", "release_digest", "guarantee", "price", "ledger_entry", "public_key")
"""What the certificate of an answer says of each job that was asked again, as that job's own says
it."""
FREE = ("none", "cryptographic")  # guarantees that have no epsilon and charge no account
ACCOUNTS_ASSUMPTION = "what other accounts give away about the same people adds to this price"
TIMING_ASSUMPTION = (
    "the step on the data took {quantum:g} s whatever the data, a time that follows from public "
    "figures; on a "
    "machine that was too busy for that, {quantum:g} s doubled as often as was needed"
)

_NO_OBJECTS: Mapping[str, Mapping[str, str]] = {}


def certificate(
    *,
    simulation: bool,
    price: Price,
    unit: str,
    neighbours: str,
    events: Sequence[Mapping[str, Any]],
    filters: Sequence[str],
    assumptions: Sequence[str],
    versions: Mapping[str, str],
    ledger_entries: Sequence[Mapping[str, Any]],
    job: str,
    result_digest: str,
    tables: Mapping[str, str],
    headline_digest: str | None = None,
    problem_digest: str | None = None,
    release_digest: str | None = None,
    objects: Mapping[str, Mapping[str, str]] = _NO_OBJECTS,
    follows_from: Sequence[Mapping[str, Any]] = (),
    federation: Mapping[str, Any] | None = None,
    cryptographic: Mapping[str, Any] | None = None,
    exposure: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    public_digest: str | None = None,
) -> dict[str, Any]:
    """An unsigned certificate. With no events nothing was released by a mechanism: what holds then
    is the cryptography of the protocol, whose assumptions say what it reveals to whom.
    `result_digest` and `tables` (by name) are SHA-256, hexadecimal, of the result's canonical JSON
    and of its Parquet files, `headline_digest` is `digest_of_headline`, `problem_digest` of the
    problem's canonical JSON, where it is public, `release_digest` of what the mechanisms released,
    where that is kept; `objects` are those of the public objects that the problem holds, by field,
    with the ids that they are stored under; `follows_from` are the certificates of jobs that were
    asked again; `federation` names roster and transcript, `cryptographic` the protocol that hides
    what agents send, `exposure` what they find out of each other all the same; `source` the blocks
    that were read; `public_digest` is that of the public part of the data, as the plan has it."""
    kind = (
        POST_PROCESSING
        if follows_from and not simulation
        else kind_of(simulation, price, bool(events))
    )
    free = kind in FREE
    return {
        "version": 1,
        "job": job,
        "guarantee": {
            "type": kind,
            "epsilon": None if free else float(to_decimal(price.epsilon, EPSILON_UNIT)),
            "delta": None if free else float(to_decimal(price.delta, DELTA_UNIT)),
            "unit": unit,
            "neighbours": neighbours,
        },
        "events": [dict(event) for event in events],
        "price": price.to_json(),
        "accountant": "sum of the events' exact prices",
        "filter": list(filters),
        "assumptions": list(assumptions),
        "versions": dict(versions),
        "ledger_entry": [dict(entry) for entry in ledger_entries],
        "result_digest": result_digest,
        "tables": dict(tables),
        **({} if headline_digest is None else {"headline_digest": headline_digest}),
        **({} if problem_digest is None else {"problem_digest": problem_digest}),
        **({} if release_digest is None else {"release_digest": release_digest}),
        **(
            {} if not objects else {"objects": {field: dict(one) for field, one in objects.items()}}
        ),
        **({} if not follows_from else {"follows_from": _followed(follows_from)}),
        **({} if federation is None else {"federation": dict(federation)}),
        **({} if cryptographic is None else {"cryptographic": dict(cryptographic)}),
        **({} if exposure is None else {"exposure": dict(exposure)}),
        **({} if source is None else {"source": dict(source)}),
        **({} if public_digest is None else {"public_digest": public_digest}),
    }


def _followed(firsts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What an answer follows from: for each job that was asked again what its certificate says it
    cost, and of what."""
    return {
        "sentence": f"this follows from what {' and '.join(first['job'] for first in firsts)} "
        "released, which was charged as is said below; asking again has touched no data and was "
        "charged nothing more",
        "releases": [{name: first[name] for name in FOLLOWED} for first in firsts],
    }


def kind_of(simulation: bool, price: Price, releases: bool) -> str:
    if simulation:
        return "none"
    if not releases:
        return "cryptographic"
    return "pure_dp" if price.delta == 0 else "approximate_dp"


def public_key(key: Signer) -> str:
    """The public key as certificates and heads carry it: 32 bytes in base64."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def sign(body: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The certificate with its signature and the public key that checks it."""
    signed = {**body, "public_key": public_key(key)}
    return {**signed, "signature": base64.b64encode(key.sign(canonical.dumps(signed))).decode()}


def is_signed(body: Any) -> bool:
    """Whether the signature is that of the certificate's own public key; this does not say who
    owns that key."""
    if not isinstance(body, Mapping):
        return False
    unsigned = {name: value for name, value in body.items() if name not in {"signature", "proofs"}}
    try:
        key, signature = bytes_of(body["public_key"]), bytes_of(body["signature"])
        return ed25519.is_signed(key, canonical.dumps(unsigned), signature)
    except (KeyError, ValueError, TypeError, RecursionError, OverflowError):
        return False


# Checking -----------------------------------------------------------------------------------------
