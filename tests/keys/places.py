"""Places for keys that the tests run: SoftHSM2 of Debian, and moto's KMS behind a door that can
fail."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

MODULES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
)
PIN = "87654321"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTING",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-testing",
    "AWS_REGION": "eu-west-1",
}
"""Made up; the door writes down who shows them."""


@dataclass
class SoftToken:
    """A token of SoftHSM2 in a folder, which can be taken away."""

    folder: Path
    module: str

    @property
    def environment(self) -> dict[str, str]:
        return {"SOFTHSM2_CONF": str(self.folder / "softhsm2.conf")}

    def uri(self, label: str = "discreet", wrapping: str = "discreet") -> str:
        return f"pkcs11:token={label};object={wrapping}?module-path={self.module}"

    def make(self, label: str = "discreet") -> None:
        command = [
            "softhsm2-util",
            "--init-token",
            "--free",
            "--label",
            label,
            "--so-pin",
            "12345678",
            "--pin",
            PIN,
        ]
        subprocess.run(
            command, env={**os.environ, **self.environment}, check=True, capture_output=True
        )

    def remove(self) -> None:
        (self.folder / "tokens").rename(self.folder / "elsewhere")

    def put_back(self) -> None:
        (self.folder / "elsewhere").rename(self.folder / "tokens")


@contextmanager
def soft_token(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[SoftToken]:
    """A new token, which this process sees. Skips loudly without SoftHSM2; in CI that is a
    failure."""
    module = next((one for one in MODULES if Path(one).exists()), None)
    if module is None or shutil.which("softhsm2-util") is None:
        if os.environ.get("CI"):
            pytest.fail("softhsm2 is needed in CI")
        pytest.skip("softhsm2 is not installed: nothing is tried with a token")
    import pkcs11

    token = SoftToken(folder, module)
    (folder / "tokens").mkdir(parents=True)
    (folder / "softhsm2.conf").write_text(
        f"directories.tokendir = {folder}/tokens\nlog.level = ERROR\n"
    )
    patch.setenv("SOFTHSM2_CONF", token.environment["SOFTHSM2_CONF"])
    token.make()
    pkcs11.lib(module).reinitialize()  # it reads its configuration when it begins
    yield token


@dataclass
class Kms:
    """moto's KMS behind a door that can be shut, silent, throttled or cut, or lie; counts what is
    asked."""

    port: int
    asked: Counter[str] = field(default_factory=Counter)
    """Calls by name."""
    mode: str = "open"
    """open, gone, silent, trickling, or the code of an error that every call gets."""
    answer: bytes | None = None
    """The body of every answer, where it is not KMS's own."""
    bodies: list[bytes] = field(default_factory=list)
    """What was sent."""
    released: threading.Event = field(default_factory=threading.Event)

    def uri(self, key: str) -> str:
        return f"awskms://127.0.0.1:{self.port}/{key}?region=eu-west-1"


@contextmanager
def kms() -> Iterator[Kms]:
    """A server of moto, with its door."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    behind = server.get_host_and_port()

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            found.asked[self.headers.get("X-Amz-Target", "").removeprefix("TrentService.")] += 1
            found.bodies.append(body)
            if found.mode in ("gone", "silent"):
                if found.mode == "silent":
                    found.released.wait(30)
                self.close_connection = True
                return
            if found.mode == "trickling":
                self.trickle()
                return
            if found.mode != "open":
                status = 400 if found.mode != "KMSInternalException" else 500
                self.answer(status, f'{{"__type":"{found.mode}","message":"no"}}'.encode())
                return
            connection = http.client.HTTPConnection(*behind, timeout=30)
            connection.request("POST", self.path, body, dict(self.headers))
            reply = connection.getresponse()
            said = reply.read()
            self.answer(reply.status, said if found.answer is None else found.answer)
            connection.close()

        def trickle(self) -> None:
            """A byte now and then, for ever: no limit between two bytes ends that."""
            self.send_response_only(200)
            self.send_header("Content-Length", "10000")
            self.end_headers()
            with contextlib.suppress(OSError):
                while found.mode == "trickling" and not found.released.wait(0.05):
                    self.wfile.write(b" ")
            self.close_connection = True

        def answer(self, status: int, body: bytes) -> None:
            self.send_response_only(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not told."""

    door = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    door.daemon_threads = True
    found = Kms(door.server_address[1])
    threading.Thread(target=door.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        found.released.set()
        door.shutdown()
        door.server_close()
        server.stop()


def new_key(place: Kms, spec: str = "SYMMETRIC_DEFAULT", usage: str = "ENCRYPT_DECRYPT") -> str:
    """The ARN of a new KMS key."""
    from discreet.storage.keys.aws_kms import _session

    client = _session().create_client(
        "kms", region_name="eu-west-1", endpoint_url=f"http://127.0.0.1:{place.port}"
    )
    found: str = client.create_key(KeySpec=spec, KeyUsage=usage)["KeyMetadata"]["Arn"]
    client.close()
    return found
