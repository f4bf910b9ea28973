"""`discreet audit`: attacks every mechanism, every kind's whole release and, to test the audit
itself, planted faults.

A pass proves nothing: that an attack failed is no guarantee. A lower bound above the price proves a
fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from discreet.privacy.attacks import audit
from discreet.privacy.attacks.audit import AuditRow
from discreet.privacy.attacks.examples import examples
from discreet.privacy.attacks.planted import FAULTS, half_noise
from discreet.problems import KINDS
from discreet.problems import audits as releases

FILE = "audit.json"
CONFIDENCE = 0.99
"""Confidence in all verdicts of one run together."""


@dataclass(frozen=True)
class Audited:
    """One line of the audit. A planted fault is as expected if it is caught."""

    row: AuditRow
    planted: bool

    @property
    def as_expected(self) -> bool:
        return (self.row.verdict == "violated") == self.planted

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self.row), "planted": self.planted, "as_expected": self.as_expected}


def run_audits(
    names: Sequence[str], *, short: bool = False, faults: bool = False
) -> Iterator[Audited]:
    """Run the audits whose name contains one of `names` (all if it is empty); yields each line as
    soon as it is known."""
    events = [event for event in examples().values() if _chosen(event.mechanism, names)]
    cases = [
        case for kind in KINDS.values() for case in kind.worst_cases() if _chosen(case.name, names)
    ]
    planted = [fault for fault in FAULTS if _chosen(fault.name, names)] if faults else []
    halves, weaker = (events, cases) if faults else ([], [])
    # The risk of a false alarm is divided among all verdicts.
    split = 1 - (1 - CONFIDENCE) / max(
        1, len(events) + len(cases) + len(planted) + len(halves) + len(weaker)
    )
    samples = audit.SHORT if short else audit.LONG
    for event in events:
        yield Audited(audit.audit_event(event, samples=samples, confidence=split), planted=False)
    for case in cases:
        release_samples = releases.SAMPLES if short else 5 * releases.SAMPLES
        yield Audited(
            releases.audit_release(case, samples=release_samples, confidence=split), planted=False
        )
    for fault in planted:
        yield Audited(fault.audit(confidence=split), planted=True)
    for event in halves:
        yield Audited(half_noise(event, samples=audit.SHORT, confidence=split), planted=True)
    for case in weaker:
        yield Audited(releases.half_noise(case, confidence=split), planted=True)


# The last table of an installation ----------------------------------------------------------------


def save(folder: Path, rows: Sequence[Audited], *, short: bool, names: Sequence[str]) -> Path:
    """Store a table, with the time and the options of its run, for the dashboard of this state
    folder."""
    table = {
        "at": datetime.now(UTC).isoformat(),
        "version": version("discreet"),
        "short": short,
        "names": list(names),
        "rows": [row.to_json() for row in rows],
    }
    path = folder / FILE
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(table))
    draft.replace(path)
    return path


def saved(folder: Path) -> dict[str, Any] | None:
    """The table that was stored last; None if there is none, or it cannot be read."""
    try:
        table = json.loads((folder / FILE).read_text())
        complete = {"at", "version", "short", "names", "rows"} <= set(table)
    except (OSError, ValueError, TypeError):
        return None
    return table if complete else None


def _chosen(name: str, names: Sequence[str]) -> bool:
    return not names or any(part in name for part in names)
