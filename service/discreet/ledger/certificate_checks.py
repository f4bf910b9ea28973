"""What any holder of a certificate can check without the service: its signature, its price, its
entries in an exported ledger, and the result, the problem and the headline that it is bound to."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.ledger import blocks
from discreet.ledger.certificates import FOLLOWED, FREE, POST_PROCESSING, is_signed, kind_of
from discreet.privacy.events import TooManyEvents, price_of
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price, display, to_decimal
from discreet_client.federation.evidence import unsigned
from discreet_client.secure_sum import Unacceptable


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
