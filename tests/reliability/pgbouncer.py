"""PgBouncer as Debian ships it, before a test's PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from discreet.installation.binaries import User
from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.processes import dies_with_parent, end
from tests.conftest import eventually

POOLER = "pooler"
"""What connections that came through it are called."""
SETTINGS = """
[databases]
* = host=/proc/self/fd/{sockets} port={port} connect_query='SET application_name TO {name}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = /proc/self/fd/{users}
admin_users = postgres
pool_mode = {mode}
default_pool_size = {pool}
max_client_conn = 1000
"""


def program() -> str:
    """Where PgBouncer is. Without it tests skip, and fail in CI."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("pgbouncer is needed in CI")
        pytest.skip("pgbouncer is not installed: nothing goes through a pooler")
    return found


class Pooler:
    """A running PgBouncer; `url` turns a URL of the server into one that leads through it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, direct: str) -> str:
        parts = urlsplit(direct)
        return f"postgresql://{parts.username}:{parts.password}@127.0.0.1:{self._port}{parts.path}"

    def answers(self, direct: str) -> bool:
        try:
            psycopg.connect(self.url(direct)).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def pgbouncer(server: EmbeddedPostgres, mode: str, pool: int = 20) -> Iterator[Pooler]:
    """In this `pool_mode`, with at most `pool` connections a database and role.

    Like the server, it runs as an ordinary user, who reaches by descriptors what he needs.
    """
    path = program()
    place = urlsplit(server.app_url)
    query = parse_qs(place.query)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    sockets = os.open(query["host"][0], os.O_PATH | os.O_DIRECTORY)
    users, settings = os.memfd_create("users"), os.memfd_create("settings")
    files = (sockets, users, settings)
    try:
        words = server._passwords.items()
        os.write(users, "".join(f'"{name}" "{word}"\n' for name, word in words).encode())
        told = SETTINGS.format(
            sockets=sockets,
            port=query["port"][0],
            users=users,
            listen=port,
            mode=mode,
            pool=pool,
            name=POOLER,
        )
        os.write(settings, told.encode())
        user = User.choose(server.data)
        process = subprocess.Popen(
            [path, "--quiet", f"/proc/self/fd/{settings}"],
            pass_fds=files,
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
            stdin=subprocess.DEVNULL,
            preexec_fn=dies_with_parent(signal.SIGINT),  # noqa: PLW1509  it calls prctl and getppid, nothing else
        )
    finally:
        for file in files:
            os.close(file)
    try:
        pooler = Pooler(port)
        eventually(
            lambda: process.poll() is not None or pooler.answers(server.superuser_url),
            "PgBouncer answers",
        )
        assert process.poll() is None, "PgBouncer does not start"
        yield pooler
    finally:
        end(process, (signal.SIGTERM, 10.0))
