"""`discreet audit`: every mechanism, every kind's whole release and, to test the audit itself,
planted faults.

A pass proves nothing: a failed attack is no guarantee. A bound above the price proves a fault.
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
"""Of all verdicts of one run together."""


@dataclass(frozen=True)
class Audited:
    """One line of the audit. A planted fault is as expected when it is caught."""

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
    """The lines whose name holds one of `names` (all when there are none), as they are found."""
    events = [event for event in examples().values() if _chosen(event.mechanism, names)]
    cases = [
        case for kind in KINDS.values() for case in kind.worst_cases() if _chosen(case.name, names)
    ]
    planted = [fault for fault in FAULTS if _chosen(fault.name, names)] if faults else []
    halves, weaker = (events, cases) if faults else ([], [])
    # The risk of a false alarm is split over all verdicts.
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
    """Keep a table, with when and how it was made, where the dashboard of this state folder shows
    it."""
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
    """The table that was kept last; None when there is none, or none that can be read."""
    try:
        table = json.loads((folder / FILE).read_text())
        complete = {"at", "version", "short", "names", "rows"} <= set(table)
    except (OSError, ValueError, TypeError):
        return None
    return table if complete else None


def _chosen(name: str, names: Sequence[str]) -> bool:
    return not names or any(part in name for part in names)
