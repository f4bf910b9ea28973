"""A content that is registered already: in what way, and what of it may not differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import Conflict


def require_same_use(known: Mapping[str, Any], kind: str, public: Any, mode: str) -> None:
    """Conflict where a content is registered with another kind, public part or mode."""
    for name, label, value in (
        ("kind", "kind", kind),
        ("public", "public part", public),
        ("mode", f"mode, {known['mode']},", mode),
    ):
        if known[name] != value:
            where = f"as {known['name']} ({known['id']}{', erased' if known['deleted_at'] else ''})"
            says = (
                f"this content is registered with another {label} "
                f"{where}{_what_to_do(name, known, value)}"
            )
            raise Conflict(says, code="content_known")


def require_same_way(known: Mapping[str, Any], *, stays: bool) -> None:
    """Conflict where a content that is registered is stored and shall stay at a place, or the other
    way round: neither is changed in silence."""
    if (known["stays"] is not None) == stays:
        return
    now = "is stored" if known["stays"] is None else "stays at its place"
    says = (
        f"this content is registered as {known['name']} ({known['id']}), and {now}: erase that "
        "dataset first, and register it again; it comes back on the same account"
    )
    raise Conflict(says, code="content_known")


def _what_to_do(name: str, known: Mapping[str, Any], value: Any) -> str:
    """Where only public figures differ: which, and how to go on. One content has one public part,
    for good: were the figures chosen anew, they would be chosen after answers were seen."""
    if name != "public":
        return ""
    before = known["public"]
    fields = sorted(field for field in {*before, *value} if before.get(field) != value.get(field))
    use = (
        "register it with its former public part"
        if known["deleted_at"]
        else "submit jobs on that dataset"
    )
    return (
        f"; they differ in {', '.join(fields)}, and a content keeps its public part for good: "
        f"{use}, or undo the difference here"
    )
