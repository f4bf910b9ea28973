"""A PostgreSQL of somebody else's for tests: a database with a role that may read some of it, and
ways to it over TCP, good and bad ones."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import psycopg.sql

from discreet.installation.database_roles import SUPERUSER
from discreet.installation.postgres import EmbeddedPostgres
from tests.postgres_fixture import fresh_database

PASSWORD = "tr0ub4dor & 'three\\"
SECRET = "a-word-of-a-row"
TABLES = """
CREATE TYPE mood AS ENUM ('calm', 'busy');
CREATE SEQUENCE numbers;
CREATE DOMAIN zone AS integer CHECK (value > 0);
CREATE TABLE trips (period int, origin zone, destination smallint, count bigint);
INSERT INTO trips SELECT n % 10, 1 + n % 3, 1 + (n + 1) % 3, n + 1 FROM generate_series(0, 29) AS n;
CREATE TABLE kinds (word text, code varchar(9), letter char(3), id uuid, state mood, truth boolean,
  whole numeric(18, 0), part numeric, small real, day date, moment timestamp, zoned timestamptz,
  nothing integer, inner_table json);
INSERT INTO kinds VALUES ('é''x', 'a,"b', 'c', '00000000-0000-0000-0000-00000000000a', 'busy', true,
  999999999999999999, 0.1, 0.5, '1969-12-31', '2026-10-01 06:15:00.000001',
  '2026-10-01 06:15+02', NULL, '{}');
INSERT INTO kinds (part) VALUES ('-3');
CREATE TABLE secrets (word text); INSERT INTO secrets VALUES ('SECRET');
CREATE TABLE hidden (word text); INSERT INTO hidden VALUES ('SECRET');
CREATE FUNCTION tell() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
  RAISE NOTICE 'SECRET'; RAISE EXCEPTION 'SECRET' USING DETAIL = 'SECRET'; END $$;
""".replace("SECRET", SECRET)


@dataclass
class Front:
    """A way over TCP to the socket of a real server: in the clear, with TLS, or badly."""

    sockets: str
    certificate: Path | None = None
    key: Path | None = None
    drips: int | None = None
    """After so many bytes of the server's, one byte every now and then."""
    breaks: int | None = None
    """After so many bytes of the server's, none."""
    says: bytes | None = None
    """What is answered in place of the server, whatever is asked."""
    asked: list[bytes] = field(default_factory=list)
    """How each connection began."""

    def __enter__(self) -> Front:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            first = client.recv(8)
            self.asked.append(first)
            if self.says is not None:
                client.sendall(self.says)
                while client.recv(1 << 16):
                    pass
                return
            if first[4:] == b"\x04\xd2\x16\x2f":  # "do you speak TLS?"
                client.sendall(b"N" if self.certificate is None else b"S")
                first = b""
                if self.certificate is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(self.certificate, self.key)
                    client = context.wrap_socket(client, server_side=True)
                    self._open.append(client)
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.sockets)
            self._open.append(server)
            server.sendall(first)
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()
            try:
                while part := client.recv(1 << 16):
                    server.sendall(part)
            finally:  # also of a connection that is reset: the server must see that it is gone
                server.shutdown(socket.SHUT_RDWR)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        came = 0
        with contextlib.suppress(OSError):
            while part := server.recv(1 << 16):
                came += len(part)
                if self.breaks is not None and came > self.breaks:
                    break
                if self.drips is not None and came > self.drips:
                    for one in part:
                        client.sendall(bytes([one]))
                        time.sleep(0.2)
                client.sendall(part)
            client.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Meters:
    """A database of somebody's, and a role that may read some of it."""

    name: str
    user: str
    sockets: str
    owner_url: str

    def place(self, front: Front) -> dict[str, Any]:
        """What the operator's file says of it."""
        url = f"postgresql://127.0.0.1:{front.port}/{self.name}"
        return {"url": url, "user": self.user, "password": PASSWORD, "private": True}

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.owner_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def meters_of(postgres: EmbeddedPostgres) -> Iterator[Meters]:
    with fresh_database(postgres, None) as database:
        user = f"reader_{database.name}"
        where = dict(one.split("=") for one in urlsplit(database.app_url).query.split("&"))
        path = f"{where['host']}/.s.PGSQL.{where['port']}"
        found = Meters(database.name, user, path, postgres.url(SUPERUSER, database.name))
        with psycopg.connect(found.owner_url, autocommit=True) as connection:
            connection.execute(
                psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                    psycopg.sql.Identifier(user), psycopg.sql.Literal(PASSWORD)
                )
            )
        found.run(TABLES)
        found.run(f"GRANT CONNECT ON DATABASE {found.name} TO {user}")
        found.run(f"GRANT SELECT ON trips, kinds, secrets TO {user}")
        found.run(f"GRANT USAGE ON SEQUENCE numbers TO {user}")
        try:
            yield found
        finally:
            found.run(f"DROP OWNED BY {user}; DROP ROLE {user}")
