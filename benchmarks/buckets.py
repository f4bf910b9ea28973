"""An installation beside an S3 server of moto, each a process of its own on loopback: what the
benchmarks of contents that lie elsewhere have in common."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from discreet.installation.database_roles import APP, OWNER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.prepared import running
from discreet.isolation.processes import dies_with_parent, end
from discreet.settings import Settings

BUCKET, KEY = "exports", "key"
REQUEST_SECONDS = 7200.0
STORE = """
import signal, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
signal.pause()
"""


@dataclass(frozen=True)
class Beside:
    """The installation, and what it may read from."""

    settings: Settings
    http: httpx.Client
    """As an owner."""
    pid: int
    """The supervisor's."""
    bucket: Any
    """The file system of the server (s3fs), in which BUCKET is."""
    exports: Path
    """A folder that the installation may read from too."""


@contextmanager
def beside_a_bucket(**values: Any) -> Iterator[Beside]:
    """A fresh installation without workers, with these settings."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-bench-")))
        endpoint = stack.enter_context(_store())
        exports = folder / "exports"
        exports.mkdir()
        server = stack.enter_context(EmbeddedPostgres(folder / "database"))
        server.create_database("beside")
        settings = Settings(
            state=folder / "state",
            workers=0,
            content_places=_places(folder / "places.json", endpoint, exports),
            database_url=server.url(APP, "beside"),
            migration_database_url=server.url(OWNER, "beside"),
            **values,
        )
        ready = stack.enter_context(running(settings))
        key = (settings.state / "owner.key").read_text().strip()
        http = stack.enter_context(
            httpx.Client(
                base_url=ready["api"],
                headers={"Authorization": f"Bearer {key}"},
                timeout=REQUEST_SECONDS,
                trust_env=False,
            )
        )
        yield Beside(settings, http, ready["pid"], _files(endpoint), exports)


def _places(path: Path, endpoint: str, exports: Path) -> Path:
    bucket = {"url": f"s3://{BUCKET}/", "tenants": ["*"], "endpoint": endpoint}
    bucket |= {"access_key": KEY, "secret_key": KEY, "region": "us-east-1"}
    folder = {"url": f"file://{exports}/", "tenants": ["*"]}
    path.write_text(json.dumps({"places": [bucket, folder]}))
    path.chmod(0o600)
    return path


@contextmanager
def _store() -> Iterator[str]:
    """A server that speaks as S3 does, with a bucket; its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", STORE],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509  it calls prctl and getppid, nothing else
    )
    try:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        _files(endpoint).call_s3("create_bucket", Bucket=BUCKET)
        yield endpoint
    finally:
        end(process, (signal.SIGTERM, 10.0))


def _files(endpoint: str) -> Any:
    import s3fs

    return s3fs.S3FileSystem(
        key=KEY,
        secret=KEY,
        endpoint_url=endpoint,
        client_kwargs={"region_name": "us-east-1"},
        use_listings_cache=False,
        skip_instance_cache=True,
    )
