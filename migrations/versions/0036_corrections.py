"""Public parts can be corrected while nothing was given away; what a dataset was before stays known by its digest.

Jobs are accepted for the revision of which their plan was made. `accept_jobs` of 0034 is changed in its text, so that what
differs is seen here.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0036"
down_revision = "0035"

GRANTS = """
GRANT UPDATE (public, revision) ON sources TO {role};
GRANT UPDATE (public, digest, revision) ON datasets TO {role};
GRANT SELECT, INSERT ON dataset_revisions TO {role};
"""
DOWNGRADE = """
DROP TABLE dataset_revisions;
ALTER TABLE sources DROP COLUMN revision;
ALTER TABLE datasets DROP COLUMN revision;
DROP INDEX datasets_live;
CREATE UNIQUE INDEX datasets_live ON datasets (tenant_id, digest) WHERE deleted_at IS NULL;
"""
REVOKED = """
REVOKE UPDATE (public) ON sources FROM {role};
REVOKE UPDATE (public, digest) ON datasets FROM {role};
"""
CHANGES = (
    (
        "--   dataset_gone   it, or a block that it names, was deleted, or its time is over; nothing\n",
        "--   dataset_gone   it, or a block that it names, was deleted, or its time is over; nothing\n--   dataset_changed  it, or the source, was corrected after the plan was made; nothing\n",
    ),
    (
        "-- session, terms, budget, traceparent, seal, release_key (hex), released_by, name, objects, source, versions}. Without a\n",
        "-- session, terms, budget, traceparent, seal, release_key (hex), released_by, name, objects, source, versions, revision}: the\n-- last is that of the dataset or of the source of which the plan was made. Without a\n",
    ),
    (
        "      PERFORM FROM datasets AS d WHERE d.id = dataset AND d.tenant_id = _tenant AND d.deleted_at IS NULL\n",
        "      SELECT d.revision INTO there FROM datasets AS d WHERE d.id = dataset AND d.tenant_id = _tenant AND d.deleted_at IS NULL\n",
    ),
    (
        "        FOR SHARE OF d;\n      IF NOT FOUND THEN\n        outcome := 'dataset_gone';\n        RETURN NEXT;\n        CONTINUE;\n      END IF;\n",
        "        FOR SHARE OF d;\n      IF NOT FOUND THEN\n        outcome := 'dataset_gone';\n        RETURN NEXT;\n        CONTINUE;\n      END IF;\n      IF there <> coalesce((one ->> 'revision')::integer, 1) THEN\n        outcome := 'dataset_changed';\n        RETURN NEXT;\n        CONTINUE;\n      END IF;\n",
    ),
    (
        "      IF NOT versions_offered(_tenant, source, parts) THEN\n        outcome := 'dataset_gone';\n        RETURN NEXT;\n        CONTINUE;\n      END IF;\n",
        "      IF NOT versions_offered(_tenant, source, parts) THEN\n        outcome := 'dataset_gone';\n        RETURN NEXT;\n        CONTINUE;\n      END IF;\n      SELECT s.revision INTO there FROM sources AS s WHERE s.id = source AND s.tenant_id = _tenant;\n      IF there <> coalesce((one ->> 'revision')::integer, 1) THEN\n        outcome := 'dataset_changed';\n        RETURN NEXT;\n        CONTINUE;\n      END IF;\n",
    ),
)


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def grant(statements: str) -> None:
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(
            statements.format(role=op.get_bind().dialect.identifier_preparer.quote(role))
        )


def accept_jobs() -> str:
    """As 0034 makes it."""
    found = script("0034_versions")
    found = found[found.index("CREATE OR REPLACE FUNCTION accept_jobs(") :]
    return found[: found.index("\n$$;") + 4]


def upgrade() -> None:
    execute_script(script("0036_corrections"))
    accepts = accept_jobs()
    for before, after in CHANGES:
        assert accepts.count(before) == 1
        accepts = accepts.replace(before, after)
    execute_script(accepts)
    grant(GRANTS)


def downgrade() -> None:
    execute_script(accept_jobs())
    grant(REVOKED)
    execute_script(DOWNGRADE)
