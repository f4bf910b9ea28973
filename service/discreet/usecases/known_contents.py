"""A content that is registered already: in what way, and what of it may not differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import Conflict


def require_same_use(rows: Sequence[Mapping[str, Any]], kind: str, mode: str) -> None:
    """Conflict where a content is, or was, registered with another kind or mode: as a simulation it
    would be released for nothing."""
    for known in rows:
        for name, label, value in (
            ("kind", "kind", kind),
            ("mode", f"mode, {known['mode']},", mode),
        ):
            if known[name] != value:
                says = f"this content is registered with another {label} as {named(known)}"
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


def other_public_part(known: Mapping[str, Any], public: Any, *, is_free: bool) -> Conflict:
    """Where only public figures differ: which, and how to go on. `is_free`: nothing was given away
    of what is charged on its account."""
    before = known["public"]
    fields = sorted(field for field in {*before, *public} if before.get(field) != public.get(field))
    says = (
        f"this content is registered with another public part as {named(known)}; they differ in "
        f"{', '.join(fields)}: submit jobs on that dataset, undo the difference here, or "
    )
    return Conflict(
        f"{says}{to_correct(known) if is_free else to_register_beside(known)}",
        code="content_known",
    )


def named(row: Mapping[str, Any]) -> str:
    """A dataset as refusals name it."""
    was = ", before it was corrected" if row.get("former") else ""
    return f"{row['name']} ({row['id']}{', erased' if row['deleted_at'] else ''}{was})"


def to_correct(row: Mapping[str, Any]) -> str:
    """How the public part of a dataset is corrected."""
    return (
        f"correct it, since nothing was given away: discreet dataset correct {row['id']} "
        f"--set FIELD=VALUE, PATCH /v1/datasets/{row['id']}, or its page"
    )


def to_register_beside(row: Mapping[str, Any]) -> str:
    """How data are registered once more, on the same account."""
    return (
        "register it beside with the public part that is needed, on the same account, where the "
        f"losses of both add up: discreet dataset add FILE --same-people-as {row['id']} "
        f'(`"account": "{row["account_id"]}"` in POST /v1/datasets)'
    )
