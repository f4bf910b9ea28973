"""Witnesses and watchers: on real processes, and against logs that lie."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import DiscreetError
from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.checkpoints import (
    BadNote,
    Checkpoint,
    Verifier,
    public_bytes,
    read_checkpoint,
    sign_checkpoint,
)
from discreet.ledger.proofs import check_proofs, place_of
from discreet.ledger.tree import Tree, read_tile_path
from discreet.ledger.witnessing import AnotherTree, Refused, judge, request_text
from discreet.usecases.cosigning import addresses
from discreet.witness.signing import Witness
from tests import bodies
from tests.cli import test_cli
from tests.conftest import Installation, eventually, installation
from tests.log.test_tree import all_tiles

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
ORIGIN = "discreet/test"
LOG = Verifier(ORIGIN, public_bytes(KEY))


def leaves(count: int, first: bytes = b"0") -> list[bytes]:
    return [first, *(str(number).encode() for number in range(1, count))][:count]


def tree(content: list[bytes]) -> Tree:
    return Tree(len(content), all_tiles(content))


def checkpoint(
    content: list[bytes], key: Ed25519PrivateKey = KEY, origin: str = ORIGIN
) -> Checkpoint:
    return sign_checkpoint(origin, len(content), tree(content).root(), key)


def request(old: int, content: list[bytes], **how: Any) -> str:
    return request_text(old, tree(content).consistency(old), checkpoint(content, **how))


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness", "witness.example", [LOG])


def status(witness: Witness, text: str) -> int:
    try:
        line = witness.sign(text)
    except Refused as refused:
        return refused.status
    note = text.partition("\n\n")[2]
    assert read_checkpoint(note).cosigned(line.splitlines()).signed_by(witness.verifier)
    return 200


def test_a_witness_signs_what_grows(witness: Witness, tmp_path: Path) -> None:
    for old, size in ((0, 3), (3, 3), (3, 300), (300, 301), (301, 70_000)):
        assert status(witness, request(old, leaves(size))) == 200, (old, size)
    again = Witness(tmp_path / "witness", "witness.example", [LOG])
    assert again.verifier == witness.verifier
    assert status(again, request(301, leaves(70_001))) == 409, "a restart forgets nothing"
    assert status(again, request(70_000, leaves(70_001))) == 200


def test_a_witness_refuses_all_else(witness: Witness) -> None:
    assert status(witness, request(0, leaves(10))) == 200
    with pytest.raises(Refused) as conflict:
        witness.sign(request(3, leaves(20)))
    assert (conflict.value.status, conflict.value.why) == (409, "10\n")
    other = leaves(20, b"another")
    good = request(10, leaves(20))
    cases = {
        request(10, other): 422,
        good.replace("\n", "\nAAAA\n", 1): 400,
        request_text(10, [], checkpoint(leaves(20))): 422,
        request_text(10, [bytes(32)] * 64, checkpoint(leaves(20))): 400,
        request_text(30, [], checkpoint(leaves(20))): 400,
        request(10, leaves(20), key=Ed25519PrivateKey.generate()): 403,
        request(10, leaves(20), origin="another/log"): 404,
        good.replace("old 10", "old 010"): 400,
        good.replace("old 10", "old -10"): 400,
        good.replace("old 10", "old ١٠"): 400,
        good.replace("\n20\n", "\n21\n"): 403,
        "": 400,
        "old 10\n\n": 400,
        good + "x" * 100_000: 400,
    }
    assert {text[:40]: status(witness, text) for text in cases} == {
        text[:40]: code for text, code in cases.items()
    }
    last = witness.last(ORIGIN)
    assert last is not None
    assert last.size == 10, "what was refused is not remembered"
    assert status(witness, good) == 200


def test_two_trees_of_one_size_are_kept_as_evidence(witness: Witness, tmp_path: Path) -> None:
    assert status(witness, request(0, leaves(10))) == 200
    fork = request_text(10, [], checkpoint(leaves(10, b"another")))
    with pytest.raises(AnotherTree):
        witness.sign(fork)
    (evidence,) = (tmp_path / "witness").glob("*.evidence")
    assert evidence.read_text() == fork


def test_many_who_ask_at_once_get_one_history(witness: Witness) -> None:
    """Two forks race: only one of them is ever signed beyond the common start."""
    assert status(witness, request(0, leaves(10))) == 200
    forks = [leaves(10) + [name.encode() * n for n in range(1, 6)] for name in "abcdefgh"]
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(status(witness, request(10, one))))
        for one in forks
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == [200] + [409] * 7


def test_nobody_signs_twice_for_nothing() -> None:
    with pytest.raises(Refused, match="nothing to prove"):
        judge(request_text(0, [bytes(32)], checkpoint(leaves(3))), [LOG], lambda origin: None)


# Watching -----------------------------------------------------------------------------------------


class Lying(BaseHTTPRequestHandler):
    """A log that shows whatever `shown` holds."""

    shown: list[bytes]
    note: str

    def do_GET(self) -> None:
        path = self.path.removeprefix("/v1/log/")
        if path == "checkpoint":
            content = type(self).note.encode()
        else:
            place = read_tile_path(path.removeprefix("tile/"))
            assert place is not None
            content = b"".join(all_tiles(type(self).shown)[place[0], place[1]][: place[2]])
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving(content: list[bytes], note: str | None = None) -> Iterator[str]:
    handler = type("Shown", (Lying,), {"shown": content, "note": note or checkpoint(content).note})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def discreet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return test_cli.discreet(*arguments, HOME="/nonexistent")


def test_a_watcher_sees_growth_forks_and_rollbacks(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    watch = ("log", "watch", "--kept", str(kept), "--log-key", LOG.text)
    for content, code, said in (
        (leaves(300), 0, "seen for the first time"),
        (leaves(1000), 0, "goes on from 1 checkpoint"),
        (leaves(999), 1, "entries were removed"),
        (leaves(1000, b"another"), 1, "two trees of the same size"),
        (leaves(2000, b"another"), 1, "the first 1000 entries are not what they were"),
        (leaves(1000), 0, "goes on from 1 checkpoint"),
    ):
        with serving(content) as url:
            found = discreet(*watch, url)
        assert (found.returncode, said in found.stdout) == (code, True), found.stdout + found.stderr
    assert read_checkpoint(kept.read_text()).size == 1000

    other = tmp_path / "certificate.json"
    other.write_text(
        json.dumps({"proofs": {"checkpoint": checkpoint(leaves(400, b"for you alone")).note}})
    )
    with serving(leaves(1000)) as url:
        found = discreet(*watch, url, "--with", str(other), "--json")
        assert (found.returncode, json.loads(found.stdout)["holds"]) == (1, False)
        other.write_text(json.dumps({"proofs": {"checkpoint": checkpoint(leaves(400)).note}}))
        assert discreet(*watch, url, "--with", str(other)).returncode == 0
        stranger = Verifier(ORIGIN, public_bytes(Ed25519PrivateKey.generate())).text
        refused = discreet(
            "log", "watch", "--kept", str(tmp_path / "new"), "--log-key", stranger, url
        )
        assert (refused.returncode, "not signed by a key that was given" in refused.stderr) == (
            1,
            True,
        )
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "note", ["", "no checkpoint", "x" * 1_000_000, f"{ORIGIN}\n5\nAAAA\n\n— a b\n"]
)
def test_what_is_no_log_is_said_in_a_sentence(tmp_path: Path, note: str) -> None:
    with serving(leaves(5), note or " ") as url:
        found = discreet("log", "watch", "--kept", str(tmp_path / "kept"), url)
    assert (found.returncode, found.stderr.count("\n")) == (1, 1), found.stderr
    assert found.stderr.startswith("discreet: ")


# With a service -----------------------------------------------------------------------------------


@contextmanager
def witnessing(folder: Path, key: str, port: int) -> Iterator[None]:
    options = ("--folder", str(folder), "--log-key", key, "--port", str(port))
    process = subprocess.Popen(
        [sys.executable, "-m", "discreet", "witness", "witness.example", *options],
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _answers(port), "the witness answers")
        yield
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        return (
            httpx.post(
                f"http://127.0.0.1:{port}/add-checkpoint", content="", trust_env=False
            ).status_code
            == 400
        )
    except httpx.TransportError:
        return False


def charge(running: Installation, epsilon: float) -> str:
    """A job that writes entries of the ledger."""
    with running.client() as client:
        dataset = client.register(bodies.dataset())
        return str(client.submit(bodies.job(dataset["id"], epsilon))["id"])


def test_a_service_is_witnessed(postgres: EmbeddedPostgres, template: str, tmp_path: Path) -> None:
    """It asks its witnesses, shows what they signed, and goes on without them; a certificate shows
    it without a server. Whoever keeps a certificate can look whether he was shown what everybody
    sees."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path / "witness"
    own = Witness(folder, "witness.example", []).verifier

    with installation(postgres, template, tmp_path / "state", workers=1) as running:
        asked = [
            sys.executable,
            "-m",
            "discreet",
            "log",
            "key",
            "--server",
            running.url,
            "--key",
            running.owner_key,
        ]
        log_key = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        assert running.api is not None
        running.api.send_signal(signal.SIGTERM)
        running.api.wait()
        running.extra["DISCREET_WITNESSES"] = f"{own.text} http://127.0.0.1:{port}"
        running.start_api()

        def newest() -> Checkpoint:
            return read_checkpoint(
                httpx.get(f"{running.url}/v1/log/checkpoint", trust_env=False).text
            )

        job = charge(running, 0.1)  # while no witness answers
        with witnessing(folder, log_key, port):
            eventually(
                lambda: newest().size > 0 and newest().signed_by(own), "the witness has signed"
            )
            (told,) = told_of_witnesses(running)
            assert (told["name"], told["size"] > 0) == (own.name, True)
            with running.client() as client:
                client.wait(job)
                body = eventually(
                    lambda: _witnessed(client.result(job)["certificate"], own),
                    "proofs are witnessed",
                )
        held = {one.name: one.holds for one in check_proofs(body, witnesses=[own], needed=1)}
        assert held == {"log": True, "witnesses": True}
        stranger = Verifier(
            "other.example", public_bytes(Ed25519PrivateKey.generate()), witness=True
        )
        assert {one.holds for one in check_proofs(body, witnesses=[own, stranger], needed=2)} == {
            True,
            False,
        }

        answer = tmp_path / "certificate.json"
        answer.write_text(json.dumps(body))
        verified = discreet("certificate", "verify", str(answer), "--witness", own.text, "--json")
        checks = {one["name"]: one["holds"] for one in json.loads(verified.stdout)["checks"]}
        assert (verified.returncode, checks["log"], checks["witnesses"]) == (0, True, True), (
            verified.stdout
        )

        place = place_of(body)
        assert place is not None
        assert place.others == (own.name,)

        before = newest().size
        charge(running, 0.1)
        eventually(lambda: newest().size > before, "the log goes on without its witness")
        (told,) = told_of_witnesses(running)
        assert (told["signed_newest"], told["size"], told["behind_seconds"] > 0) == (
            False,
            before,
            True,
        )
        eventually(
            lambda: gauge(running, "discreet_witnesses_behind_seconds") > 0, "it is measured"
        )
        looked = discreet(
            *("log", "watch", running.url, "--kept", str(tmp_path / "kept")),
            *("--log-key", log_key, "--with", str(answer)),
        )
        assert looked.returncode == 0, looked.stdout + looked.stderr


def told_of_witnesses(running: Installation) -> list[Any]:
    """What operators are told."""
    with running.client(running.operator_key) as operator:
        return list(operator.operations()["log"]["witnesses"])


def gauge(running: Installation, name: str) -> float:
    lines = running.metrics().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


def _witnessed(certificate: dict[str, Any], own: Verifier) -> dict[str, Any] | None:
    return (
        certificate if read_checkpoint(certificate["proofs"]["checkpoint"]).signed_by(own) else None
    )


@pytest.mark.parametrize("witnesses", ["x", "a+b+c http://h", f"{LOG.text} http://h", LOG.text])
def test_what_is_no_list_of_witnesses_is_refused_at_the_start(
    settings: Any, witnesses: str
) -> None:
    with pytest.raises(DiscreetError, match="DISCREET_WITNESSES"):
        addresses(settings.model_copy(update={"witnesses": witnesses}))


def test_a_forged_cosignature_is_no_cosignature(witness: Witness) -> None:
    signed = checkpoint(leaves(3))
    line = witness.sign(request(0, leaves(3))).strip()
    other = checkpoint(leaves(4)).cosigned([line])
    with pytest.raises(BadNote, match="forged"):
        other.signed_by(witness.verifier)
    assert signed.cosigned([line]).signed_by(witness.verifier)
