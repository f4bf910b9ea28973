"""Roles and databases of an embedded server: an owner for migrations, and the application, which
may only connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

DATABASE = "discreet"
SUPERUSER = "postgres"
OWNER = "discreet_owner"
APP = "discreet_app"


def ensure_roles(connection: psycopg.Connection[Any], passwords: Mapping[str, str]) -> None:
    """Create the two roles with these passwords, and the database; safe to repeat after a crash."""
    roles = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
    for role in (OWNER, APP):
        if role not in roles:
            # Hashed here, so that no statement contains the password itself.
            verifier = connection.pgconn.encrypt_password(
                passwords[role].encode(), role.encode(), b"scram-sha-256"
            ).decode()
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                    sql.Identifier(role), sql.Literal(verifier)
                )
            )
    databases = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
    if DATABASE not in databases:
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(DATABASE), sql.Identifier(OWNER)
            )
        )
    let_in(connection, DATABASE)
    for database in ("postgres", "template1"):
        connection.execute(
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(database))
        )


def let_in(connection: psycopg.Connection[Any], database: str) -> None:
    """Let the application role connect to `database`; besides it only the owner has any right
    there."""
    name = sql.Identifier(database)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, sql.Identifier(APP))
    )
