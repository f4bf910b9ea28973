"""All checks of a certificate, or of an answer with its certificate, without a server, from what
its reader holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.ledger import certificates
from discreet.ledger.certificates import Check
from discreet.ledger.checkpoints import Verifier
from discreet.ledger.entries import Broken
from discreet.ledger.envelopes import check_envelope
from discreet.ledger.proofs import check_proofs
from discreet.ledger.verification import verify
from discreet_agent import canonical

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Beside:
    """What a reader holds beside a certificate, as far as there is any."""

    answer: Json = field(default_factory=dict)
    """`result` and `job`, as `discreet result --out` writes them."""
    envelope: Json | None = None
    """What the certificate came in, where it came in one."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of Parquet files by name, hexadecimal."""
    firsts: Sequence[Json] = ()
    """The certificates of jobs that were asked again."""
    public_keys: Collection[str] = ()
    """Base64: one of them must have signed; where there is none, any may have."""
    witnesses: Sequence[Verifier] = ()
    witnesses_needed: int | None = None
    """All when None."""


def check_all(body: Json, beside: Beside, export: Iterable[bytes] | None = None) -> list[Check]:
    """Signature, price, guarantee, what it follows from, the result that it binds, its place in the
    transparency log, and in an export (its lines)."""
    checks = (
        [] if beside.envelope is None else [check_envelope(beside.envelope, beside.public_keys)]
    )
    checks += certificates.check(body, beside.public_keys)
    checks += certificates.check_followed(body, beside.firsts)
    checks += _check_answer(body, beside)
    needed = len(beside.witnesses) if beside.witnesses_needed is None else beside.witnesses_needed
    checks += check_proofs(body, beside.public_keys, beside.witnesses, needed)
    if export is None:
        return [*checks, Check("inclusion", None, "not checked: give an export with --ledger")]
    certified = [body, *beside.firsts]
    entries: dict[str, list[tuple[dict[str, Any], str]]] = {
        str(one.get("job")): [] for one in certified
    }

    def watch(entry: dict[str, Any], digest: str) -> None:
        if entry["job"] in entries:
            entries[entry["job"]].append((entry, digest))

    try:
        verify(export, public_key=beside.public_keys or body.get("public_key"), watch=watch)
    except Broken as broken:
        return [*checks, Check("inclusion", False, f"the export does not hold: {broken}")]
    return [
        *checks,
        *(certificates.check_inclusion(one, entries[str(one.get("job"))]) for one in certified),
    ]


def _check_answer(body: Json, beside: Beside) -> list[Check]:
    answer = beside.answer
    job = answer["job"] if isinstance(answer.get("job"), dict) else None
    checks = certificates.check_result(
        body,
        digest=canonical.digest(answer["result"]) if "result" in answer else None,
        tables=beside.tables,
        job=None if job is None else str(job.get("id")),
    )
    if job is None:
        return checks
    asked = job.get("problem")
    checks += certificates.check_problem(body, None if asked is None else canonical.digest(asked))
    if "result" in answer:
        checks += certificates.check_headline(
            body, job.get("headline"), canonical.dumps(answer["result"])
        )
    return [*checks, Check("names", None, "the names of job and dataset are not certified")]
