"""Whose keys go with a person: found by an index, however long the audit log is."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from sqlalchemy import text

from discreet.settings import Settings
from discreet.storage import tenants
from discreet.storage.database import SYSTEM, Database
from tests import postgres_fixture

PEOPLE, KEYS = 200, 20_000
FILL = """
INSERT INTO tenants (id, name) VALUES ('one', 'one');
INSERT INTO identities (id, tenant_id, issuer, subject, role)
  SELECT 'per_' || n, 'one', 'https://op', 's' || n, 'owner' FROM generate_series(0, 200) AS n;
INSERT INTO keys (id, tenant_id, principal, role, lookup, mac, pepper_id)
  SELECT 'key_' || n, 'one', 'p', 'analyst', 'l' || n, 'm', 'x' FROM generate_series(1, 20000) AS n;
-- Every person has made a hundred keys, and the first key of person 7 has made another.
INSERT INTO audit_log (tenant_id, action, object, principal, role, credential, details)
  SELECT 'one', 'key.create', 'key_' || n, 'p', 'owner',
    CASE WHEN n = 20000 THEN 'key_7' ELSE 'per_' || (n % 200) END, '{}'
    FROM generate_series(1, 20000) AS n;
INSERT INTO audit_log (tenant_id, action, object, principal, role, credential, details)
  SELECT 'one', 'login.key', 'key_1', 'p', 'owner', 'per_7', '{}' FROM generate_series(1, 1000);
ANALYZE
"""


def test_the_keys_of_a_person_are_read_by_an_index(
    database: postgres_fixture.Database, settings: Settings
) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        connection.execute(FILL.encode())

    async def go() -> tuple[list[dict[str, Any]], str]:
        opened = Database(settings)
        try:
            async with opened.transaction(SYSTEM) as connection:
                found = await tenants.keys_made_by(connection, "https://op", "s7", None)
                asked = text(f"EXPLAIN (COSTS OFF) {tenants._KEYS_MADE_BY.text}")
                values = {"issuer": "https://op", "subject": "s7", "tenant": None}
                plan = "\n".join((await connection.execute(asked, values)).scalars())
        finally:
            await opened.close()
        return found, plan

    found, plan = asyncio.run(go())
    made = {f"key_{n}" for n in range(1, KEYS) if n % PEOPLE == 7} | {"key_20000"}
    assert {one["id"] for one in found} == made
    assert plan.count("audit_log_keys_made") >= 2, plan
    assert "Seq Scan on audit_log" not in plan, plan
