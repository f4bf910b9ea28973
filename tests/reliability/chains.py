"""Reading a ledger as an auditor would: from the entries' canonical bodies and hashes alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import rfc8785
from psycopg.rows import dict_row
from sqlalchemy import make_url

from discreet.installation.database_roles import SUPERUSER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings

ENDS = ("commit", "release")


@dataclass
class Sums:
    """What the entries of one account add up to."""

    totals: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    lives: dict[str, list[str]] = field(default_factory=dict)
    """The kinds of a job's entries, in order."""


def check_chain(rows: Iterable[Mapping[str, Any]]) -> Sums:
    """Recompute every hash over the canonical body, and every balance from the prices; both must be
    what is written.

    Rows carry `body` (canonical JSON text), `hash` and `previous_hash` (bytes), in the order of the
    chain.
    """
    sums = Sums()
    previous = bytes(32)
    for number, row in enumerate(rows, start=1):
        body = json.loads(row["body"])
        canonical: bytes = rfc8785.dumps(body)
        assert canonical == row["body"].encode(), f"entry {number} is not canonical"
        assert body["seq"] == number, f"entry {number} is out of order"
        assert bytes(row["previous_hash"]) == previous, (
            f"entry {number} does not follow the one before"
        )
        previous = hashlib.sha256(previous + canonical).digest()
        assert bytes(row["hash"]) == previous, f"entry {number} was changed"
        _count(sums, body)
        for name in ("totals", "reserved"):
            written = {key: int(value) for key, value in body[name].items() if int(value)}
            counted = {key: value for key, value in getattr(sums, name).items() if value}
            assert written == counted, f"{name} of entry {number} are not the sum of the prices"
    return sums


def _count(sums: Sums, body: Mapping[str, Any]) -> None:
    kind, price = body["kind"], {name: int(value) for name, value in body["price"].items()}
    if body["job"] is not None:
        sums.lives.setdefault(body["job"], []).append(kind)
    if kind == "reserve":
        _add(sums.totals, price, 1)
        _add(sums.reserved, price, 1)
    elif kind in ENDS:
        _add(sums.reserved, price, -1)
        _add(
            sums.committed if kind == "commit" else sums.totals,
            price,
            1 if kind == "commit" else -1,
        )


def _add(amounts: dict[str, int], price: Mapping[str, int], sign: int) -> None:
    for name, units in price.items():
        amounts[name] = amounts.get(name, 0) + sign * units


def superuser_url(postgres: EmbeddedPostgres, settings: Settings) -> str:
    """The database of `settings` as the superuser sees it: whole, whatever row-level security hides
    from others."""
    database = make_url(settings.database_url or "").database
    assert database is not None
    return postgres.url(SUPERUSER, database)


def read_chains(url: str) -> dict[str, list[dict[str, Any]]]:
    """The entries of every account, in the order of their chains."""
    chains: dict[str, list[dict[str, Any]]] = {}
    with psycopg.connect(url, row_factory=dict_row) as connection:
        for row in connection.execute("SELECT * FROM ledger_entries ORDER BY account_id, seq"):
            chains.setdefault(row["account_id"], []).append(row)
    return chains
