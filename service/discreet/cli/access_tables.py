"""Tables of those who have access: API keys, and people of the identity provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from discreet.cli.showing_answers import as_said


def show_keys(keys: Sequence[Mapping[str, Any]]) -> None:
    table = Table(
        Column("key", no_wrap=True), "principal", "role", "made", "expires", "last used", "state"
    )
    now = datetime.now(UTC).isoformat()
    for one in keys:
        state = (
            "revoked"
            if one["revoked_at"]
            else "expired"
            if (one["expires_at"] or "9") < now
            else "good"
        )
        times = [
            (one[name] or "")[:16].replace("T", " ")
            for name in ("created_at", "expires_at", "last_used_at")
        ]
        table.add_row(one["id"], as_said(one["principal"]), one["role"], *times, state)
    Console().print(table)


def show_people(people: Sequence[Mapping[str, Any]]) -> None:
    table = Table(
        Column("id", no_wrap=True), Column("who", overflow="fold"), "role", "last used", "state"
    )
    for one in people:
        removed = (
            f"removed{' everywhere' if one['everywhere'] else ''}" if one["removed_at"] else "good"
        )
        last = (one["last_used_at"] or "")[:16].replace("T", " ")
        who = one["subject"] if one["name"] is None else f"{one['name']}\n{one['subject']}"
        table.add_row(
            one["id"], as_said(who), as_said(f"{one['role']}\nof {one['tenant']}"), last, removed
        )
    Console().print(table)
