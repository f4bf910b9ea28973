"""The databases of a server: its supervisor creates, drops and marks them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from discreet.errors import Unavailable
from discreet.installation.database_roles import DATABASE, OWNER, let_in
from discreet.settings import CONNECT_SECONDS


class Databases(ABC):
    """What the superuser of a running server does with its databases. Unavailable if the server
    does not answer."""

    @property
    @abstractmethod
    def superuser_url(self) -> str:
        """The URL at which the superuser connects."""

    def create_database(self, name: str, template: str | None = None) -> None:
        """Create a database that the owner role owns and the application role may connect to; with
        `template` as a copy of another."""
        with self._connected() as connection:
            statement = sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(OWNER)
            )
            if template is not None:
                statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            connection.execute(statement)
            let_in(connection, name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end its connections."""
        with self._connected() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    @property
    def mark(self) -> str:
        """A word that is stored in the database's comment, so that it moves with the data folder;
        "" at first."""
        query = (
            "SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE "
            "datname = %s"
        )
        with self._connected() as connection:
            row = connection.execute(query, [DATABASE]).fetchone()
        return str(row[0]) if row else ""

    @mark.setter
    def mark(self, text: str) -> None:
        with self._connected() as connection:
            connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(
                    sql.Identifier(DATABASE), sql.Literal(text)
                )
            )

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(
                self.superuser_url, autocommit=True, connect_timeout=CONNECT_SECONDS
            ) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error
