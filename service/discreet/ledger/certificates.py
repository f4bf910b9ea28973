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
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.ledger import blocks
from discreet.ledger.entries import Signer
from discreet.privacy.events import REGISTRY, TooManyEvents, price_of
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price, display, to_decimal
from discreet_client import canonical, ed25519
from discreet_client.dsse import bytes_of
from discreet_client.federation.evidence import unsigned
from discreet_client.secure_sum import Unacceptable

FAILURE_ASSUMPTION = (
    "crashes before a stored release reveal nothing and do not depend on the data or the noise"
)
POST_PROCESSING = "post_processing"
"""The guarantee of what follows from earlier releases alone: nothing beyond theirs is given
away."""
FOLLOWED = ("job", "release_digest", "guarantee", "price", "ledger_entry", "public_key")
"""What the certificate of an answer says of each job that was asked again, as that job's own says
it."""
FREE = ("none", "cryptographic")  # guarantees that have no epsilon and charge no account
TIMING_ASSUMPTION = (
    "data access was padded to {quantum:g} s, and opening the data to its part of that: times from "
    "public figures, doubled as needed on a busy machine"
)
NOT_COVERED = (
    "other budgets on the same people: losses add up",
    "how often a busy machine doubled the padding: it may tell how large the data are",
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
    not_covered: Sequence[str] = (),
    model: Sequence[str] = (),
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
    """An unsigned certificate. `assumptions` are what the guarantee holds under, `not_covered`
    what it says nothing of, `model` what the answer alone rests on. With no events nothing was
    released by a mechanism: what holds then is the cryptography of the protocol, whose assumptions
    say what it reveals to whom. `result_digest` and `tables` (by name) are SHA-256, hexadecimal,
    of the result's canonical JSON and of its Parquet files, `headline_digest` is
    `digest_of_headline`, `problem_digest` of the problem's canonical JSON, where it is public,
    `release_digest` of what the mechanisms released, where that is kept; `objects` are those of
    the public objects that the problem holds, by field, with the ids that they are stored under;
    `follows_from` are the certificates of jobs that were asked again; `federation` names roster
    and transcript, `cryptographic` the protocol that hides what agents send, `exposure` what they
    find out of each other all the same; `source` the blocks that were read; `public_digest` is
    that of the public part of the data, as the plan has it."""
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
        **({} if not not_covered else {"not_covered": list(not_covered)}),
        **({} if not model else {"model": list(model)}),
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


# Certificate checks -------------------------------------------------------------------------------
# What any holder of a certificate can check without the service: its signature, its price, its
# entries in an exported ledger, and the result, the problem and the headline that it is bound to.


@dataclass(frozen=True)
class Check:
    """One check; `holds` is None if it could not be made."""

    name: str
    holds: bool | None
    detail: str


def check(body: Any, signed_by: str | Collection[str] | None = None) -> list[Check]:
    """Signature, price and guarantee of a certificate, from the certificate alone.

    `signed_by` (base64) is the key that must have signed it, or several of which one must. The
    price is derived again from the mechanism events; a price or a guarantee that says anything else
    does not hold. It is derived only where the signature holds: pricing the events of strangers
    could take long.
    """
    if not isinstance(body, Mapping):
        return [Check("signature", False, "this is not a certificate")]
    signature = _check_signature(body, signed_by)
    if not signature.holds:
        return [
            signature,
            Check("price", None, "not checked, because the signature does not hold"),
        ]
    return [signature, *_check_price(body), *_check_transcript(body)]


def check_inclusion(
    body: Mapping[str, Any], entries: Sequence[tuple[Mapping[str, Any], str]]
) -> Check:
    """Whether the ledger holds what the certificate names. `entries`: bodies and hashes of all
    entries of its job."""
    name = "inclusion"
    try:
        named = {(entry["account"], entry["seq"]): entry["hash"] for entry in body["ledger_entry"]}
        kind = body["guarantee"]["type"]
    except (KeyError, TypeError):
        return Check(name, False, "the certificate names no ledger entries")
    if kind == POST_PROCESSING:
        return Check(name, not named and not entries, "asking again: no account is charged")
    if kind in FREE:
        return Check(name, not named and not entries, f"guarantee {kind}: no account is charged")
    if not named or len(named) < len(body["ledger_entry"]):
        return Check(name, False, "the certificate names no ledger entries, or one of them twice")
    commits = {
        (entry["account"], entry["seq"]): digest
        for entry, digest in entries
        if entry["kind"] == "commit"
    }
    for place, digest in named.items():
        if commits.get(place) != digest:
            return Check(
                name,
                False,
                f"entry {place[1]} of account {place[0]} is not in the ledger with this hash",
            )
    if set(commits) != set(named):
        return Check(name, False, "the ledger charged the job to other accounts too")
    for entry, _ in entries:
        if entry["kind"] == "reserve" and (
            entry["events"] != body.get("events") or entry["price"] != body.get("price")
        ):
            return Check(
                name,
                False,
                f"account {entry['account']} reserved for other events or another price",
            )
    if says := blocks.other_blocks(body, entries):
        return Check(name, False, says)
    counted = (
        "1 ledger entry with this hash"
        if len(named) == 1
        else f"{len(named)} ledger entries with these hashes"
    )
    return Check(name, True, f"{counted}, for the same events and price")


def followed_jobs(body: Mapping[str, Any]) -> list[str]:
    """The jobs that a certificate says its answer follows from, of whatever form it is."""
    section = body.get("follows_from")
    releases = section.get("releases") if isinstance(section, Mapping) else None
    found = (
        [one.get("job") for one in releases if isinstance(one, Mapping)]
        if isinstance(releases, list)
        else []
    )
    return [job for job in found if isinstance(job, str)]


def check_followed(
    body: Mapping[str, Any], firsts: Sequence[Mapping[str, Any]] = ()
) -> list[Check]:
    """Whether the certificate of a repeated question says about each first job what that job's
    own certificate says, and whether that one holds; without it the check is left open. Empty if
    the answer follows from no other job."""
    if "follows_from" not in body:
        return []
    section = body["follows_from"]
    try:
        named = {one["job"]: dict(one) for one in section["releases"]}
    except (TypeError, KeyError, ValueError):
        named = {}
    if not named:
        return [
            Check(
                "release", False, "the certificate does not say in this format what it follows from"
            )
        ]
    own = {job: first for first in firsts if isinstance(job := first.get("job"), str)}
    checks = []
    if len(own) < len(firsts):
        checks.append(
            Check(
                "release",
                False,
                "one of those given is not a job's certificate, or was given twice",
            )
        )
    for job, said in named.items():
        first = own.get(job)
        if first is None:
            checks.append(
                Check(
                    "release",
                    None,
                    f"not checked: the certificate of {_short(job)} was not given (--with FILE)",
                )
            )
            continue
        broken = next((one for one in check(first) if one.holds is False), None)
        if broken is not None:
            detail = (
                f"the certificate of {_short(job)} does not hold: {broken.name}: {broken.detail}"
            )
        elif wrong := [
            name for name in FOLLOWED if name not in first or said.get(name) != first[name]
        ]:
            detail = f"the certificate of {_short(job)} differs in its {', '.join(wrong)}"
        else:
            cost = f"charged {_words(Price.from_json(first['price']))}"
            detail = f"follows from what {job} released, SHA-256 {said['release_digest']}, {cost}"
            checks.append(Check("release", True, detail))
            continue
        checks.append(Check("release", False, detail))
    for other in sorted(set(own) - set(named)):  # given to be looked at, and of no use here
        checks.append(
            Check(
                "release",
                False,
                f"it does not follow from {_short(other)}, whose certificate was given",
            )
        )
    return checks


ASKED_AGAIN = (
    "nothing beyond what the first jobs released, which was charged then: epsilon 0 of its own"
)
UNBOUND = "this certificate does not bind a result: it is of an older version"
NEEDED = ("events", "guarantee", "price", "public_key", "signature")
"""What a certificate of any version has."""
_UNASKED: Mapping[str, str] = {}


def check_result(
    body: Mapping[str, Any],
    *,
    digest: str | None = None,
    tables: Mapping[str, str] = _UNASKED,
    job: str | None = None,
) -> list[Check]:
    """Whether the certificate is that of a result: SHA-256 (hexadecimal) of its canonical JSON, of
    its Parquet files by name, the id of its job; whatever is not given is not looked at, and then
    `holds` is None."""
    bound, named = body.get("result_digest"), body.get("tables")
    if job is not None and job != body.get("job"):
        return [
            Check("result", False, f"the certificate is of another job: {_short(body.get('job'))}")
        ]
    if bound is None and named is None:
        why = "not checked: this certificate is incomplete" if _missing(body) else UNBOUND
        return [Check("result", None, why)]
    if not isinstance(bound, str) or not isinstance(named, Mapping):
        return [Check("result", False, "the digests of the certificate are not of this format")]
    if digest is None:
        checks = [Check("result", None, "not checked: no result was given")]
    elif digest == bound:
        checks = [
            Check("result", True, f"the result is the one that was certified, SHA-256 {bound}")
        ]
    else:
        checks = [
            Check(
                "result",
                False,
                "the result is not the one that was certified: it was changed or replaced",
            )
        ]
    for name in sorted({*map(str, named), *tables}):
        if name not in named:
            checks.append(Check("table", False, f"the certificate names no table {_short(name)}"))
        elif name not in tables:
            checks.append(Check("table", None, f"{_short(name)}: not checked: it was not given"))
        elif tables[name] == named[name]:
            checks.append(
                Check(
                    "table",
                    True,
                    f"{_short(name)}: the one that was certified, SHA-256 {named[name]}",
                )
            )
        else:
            detail = f"{_short(name)}: not the one that was certified: it was changed or replaced"
            checks.append(Check("table", False, detail))
    return checks


def check_problem(body: Mapping[str, Any], digest: str | None) -> list[Check]:
    """Whether the certificate is that of a problem: SHA-256 (hexadecimal) of its canonical JSON.
    Empty where the one or the other is not there."""
    bound = body.get("problem_digest")
    if bound is None or digest is None:
        return []
    if bound == digest:
        return [
            Check("problem", True, f"the problem is the one that was certified, SHA-256 {bound}")
        ]
    return [
        Check(
            "problem",
            False,
            "the problem is not the one that was certified: it was changed or replaced",
        )
    ]


def digest_of_headline(headline: str, result: bytes) -> str:
    """SHA-256, hexadecimal, of a result's canonical JSON, a zero byte, and the sentence that lists
    show of it: without the result, which an auditor is not shown, nobody can try sentences."""
    return hashlib.sha256(result + b"\0" + headline.encode()).hexdigest()


def check_headline(body: Mapping[str, Any], headline: Any, result: bytes) -> list[Check]:
    """Whether the certificate is that of the sentence that stands beside a result; empty where
    there is none."""
    bound = body.get("headline_digest")
    if bound is None or headline is None:
        return []
    if isinstance(headline, str) and digest_of_headline(headline, result) == bound:
        return [Check("headline", True, f"the one that was certified: {headline}")]
    return [Check("headline", False, "not the one that was certified: it was changed")]


def _missing(body: Mapping[str, Any]) -> list[str]:
    return [name for name in NEEDED if name not in body]


def _short(text: Any) -> str:
    return repr(text)[:80]


def verdict(checks: Sequence[Check]) -> dict[str, Any]:
    """All checks as programs read them; valid when none failed."""
    return {
        "valid": all(one.holds is not False for one in checks),
        "checks": [{"name": one.name, "holds": one.holds, "detail": one.detail} for one in checks],
    }


def _check_signature(body: Mapping[str, Any], signed_by: str | Collection[str] | None) -> Check:
    name = "signature"
    if missing := _missing(body):
        return Check(
            name, False, f"this certificate is incomplete: it has no {', no '.join(missing)}"
        )
    if not is_signed(body):
        return Check(name, False, "the signature is not that of this content")
    if signed_by and body["public_key"] not in (
        (signed_by,) if isinstance(signed_by, str) else signed_by
    ):
        return Check(name, False, "signed by another key than the one that was given")
    return Check(name, True, f"signed by {body['public_key']}")


def _check_price(body: Mapping[str, Any]) -> list[Check]:
    try:
        derived = price_of(body["events"])
        guarantee = body["guarantee"]
        stated = Price.from_json(body["price"])
        kind = guarantee["type"]
    except TooManyEvents as error:
        return [Check("price", False, f"the events were not priced: {error}")]
    except (KeyError, TypeError, ValueError, AttributeError):
        return [Check("price", False, "the events have no price")]
    price = Check(
        "price",
        stated == derived,
        f"the events cost {_words(derived)}; the certificate says {_words(stated)}",
    )
    if kind == "none":
        free = guarantee.get("epsilon") is None and guarantee.get("delta") is None
        return [price, Check("guarantee", free, "a simulation guarantees nothing")]
    told = (guarantee.get("epsilon"), guarantee.get("delta"))
    true = (
        float(to_decimal(derived.epsilon, EPSILON_UNIT)),
        float(to_decimal(derived.delta, DELTA_UNIT)),
    )
    named = kind_of(False, derived, bool(body["events"]))
    if "follows_from" in body and not body["events"]:
        return [
            price,
            Check("guarantee", kind == POST_PROCESSING and told == (0.0, 0.0), ASKED_AGAIN),
        ]
    if named == "cryptographic":
        return [
            price,
            Check(
                "guarantee",
                told == (None, None) and kind == named,
                "cryptographic: no event, no epsilon",
            ),
        ]
    holds, said = told == true and kind == named, f"epsilon {told[0]}, delta {told[1]}"
    return [
        price,
        Check(
            "guarantee",
            holds,
            f"{named} with {_words(derived)}; the certificate says {kind} with {said}",
        ),
    ]


def _check_transcript(body: Mapping[str, Any]) -> list[Check]:
    """Whether every agent has signed the transcript; nothing where no agents of their own took
    part."""
    section, guarantee = body.get("cryptographic"), body.get("guarantee")
    if not isinstance(section, Mapping) or "signatures" not in section:
        claimed = (
            isinstance(guarantee, Mapping)
            and guarantee.get("type") == "cryptographic"
            and section is not None
        )
        return [Check("transcript", False, "no agent has signed the transcript")] if claimed else []
    try:
        missing = unsigned(section)
    except Unacceptable as error:
        return [Check("transcript", False, str(error))]
    detail = "signed by all agents" if not missing else f"not signed by {', '.join(missing)}"
    return [Check("transcript", not missing, detail)]


def _words(price: Price) -> str:
    return (
        f"epsilon {display(price.epsilon, EPSILON_UNIT)}, delta {display(price.delta, DELTA_UNIT)}"
    )


# Registry -----------------------------------------------------------------------------------------
# An entry for the Differential Privacy Deployments Registry (opendp.org), as far as a certificate
# determines it.
#
# The registry takes a YAML file a deployment; its form is that of `schemas/deployments-schema.yaml`
# in `opendp/deployments-registry-data` at commit 3e9c812 (2026-07-15). What only the publisher
# knows is left empty, and a comment says so: nothing is made up.

VARIANTS = {"pure_dp": "Pure DP", "approximate_dp": "Approximate DP"}
EMPTY = "# to be filled in: nothing in the certificate tells it"


@dataclass(frozen=True)
class Publisher:
    """What only the publisher knows; empty if not given."""

    name: str = ""
    curators: Sequence[str] = ()
    authors: Sequence[str] = ()
    intended_use: str = ""
    region: str = ""


def entry(
    body: Mapping[str, Any], publisher: Publisher, *, headline: str = "", published: str = ""
) -> str:
    """The YAML text of an entry for what a certificate is of. `headline`: what the result says;
    `published`: the day, as YYYY-MM-DD. ValueError for a certificate of what no mechanism
    released."""
    guarantee = body["guarantee"]
    if guarantee["type"] in FREE:
        raise ValueError(
            f"its guarantee is {guarantee['type']}: no mechanism of differential privacy released "
            "anything"
        )
    if guarantee["type"] == POST_PROCESSING:
        raise ValueError(
            "it follows from earlier releases alone: register those, by their own certificates"
        )
    price = Price.from_json(body["price"])
    parameters = {"epsilon": _Figure(display(price.epsilon, EPSILON_UNIT))}
    if price.delta:
        parameters["delta"] = _Figure(display(price.delta, DELTA_UNIT))
    federated = "federation" in body
    text: dict[str, Any] = {
        "url_slug": f"discreet-{body['job'].replace('_', '-')}",
        "status": "Draft",
        "tier": _Figure("3"),
        "deployment": {
            "basic": {
                "name": publisher.name,
                "data_curators": list(publisher.curators) or [""],
                "intended_use": publisher.intended_use,
                "data_product_type": "Summary statistics",
                "data_product_region": publisher.region,
                "description": headline,
                "publication_date": published,
            },
            "dp_variant": {
                "variant_name": VARIANTS[guarantee["type"]],
                "unprotected_quantities": "What was asked, and what the dataset's owner has "
                "declared to be public.",
            },
            "privacy_loss": {
                "privacy_unit": guarantee["unit"],
                "privacy_unit_details": "Adjacent datasets differ by this: "
                f"{guarantee['neighbours']}.",
                "privacy_parameters": parameters,
                "privacy_parameters_details": " ".join(
                    _sentences(
                        [
                            *body["assumptions"],
                            *(f"not covered: {one}" for one in body.get("not_covered", ())),
                        ]
                    )
                ),
            },
            "deployment_model": {
                "model_name": "Federated" if federated else "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "All that is published follows from what the mechanisms "
                "released.",
                "composition": f"{body['accountant'].capitalize()}. Admitted by "
                f"{_admitted_by(body['filter'])} of an append-only ledger.",
            },
            "implementation": {"mechanisms": " ".join(_mechanisms(body["events"]))},
            "administrative": {
                "sources": f"Signed certificate of {body['job']}, Ed25519 key "
                f"{body['public_key']}.",
                "registry_authors": list(publisher.authors) or [""],
            },
        },
    }
    return "\n".join(_lines(text)) + "\n"


class _Figure(str):
    """What stands in YAML without quotation marks."""


def _admitted_by(filters: Sequence[str]) -> str:
    """The filters that held on every account: none need, where each account has let it pass by one
    of its own."""
    return (
        f"the privacy filters {', '.join(filters)}"
        if filters
        else "a privacy filter of each of the accounts"
    )


def _sentences(parts: Sequence[str]) -> Iterator[str]:
    yield from (f"{one[:1].upper()}{one[1:].rstrip('.')}." for one in parts)


def _mechanisms(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for event in events:
        what = REGISTRY[event["mechanism"]].published
        releases = "" if event.get("count", 1) == 1 else f", {event['count']} times"
        yield (
            f"{what[:1].upper()}{what[1:]}{releases}: `{event['mechanism']}` of scale "
            f"{event['scale']:g} for {event.get('norm', 'l1')} sensitivity "
            f"{event['sensitivity']:g}."
        )


def _lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Block style; texts in JSON's quotation marks, which YAML 1.2 reads alike."""
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(one, indent + "  ")
        elif isinstance(one, list):
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {_scalar(part)}" for part in one)
        else:
            yield f"{indent}{name}: {_scalar(one)}"


def _scalar(value: str) -> str:
    if isinstance(value, _Figure):
        return str(value)
    return json.dumps(value, ensure_ascii=False) if value else f'"" {EMPTY}'
