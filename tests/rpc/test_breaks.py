"""Broken connections, killed processes, other processes, TLS."""

from __future__ import annotations

import datetime
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from discreet.installation.postgres import EmbeddedPostgres
from discreet_client.agent import Link
from tests.conftest import DEADLINE_SECONDS, eventually
from tests.rpc.conftest import Federation, Proxy, federation, free_port
from tests.rpc.helpers import final, once_each, run, sums


@pytest.fixture(scope="module")
def encrypted(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """gRPC on loopback with TLS, by a certificate that the service made for itself."""
    folder = tmp_path_factory.mktemp("encrypted")
    with federation(postgres, template, folder, {"DISCREET_RPC_TLS": "always"}) as running:
        yield running


@pytest.mark.long
def test_seven_agents_over_tls_one_is_killed_and_the_server_as_well(encrypted: Federation) -> None:
    job = encrypted.submit(agents=7, rounds=12, mode="simulation", round_seconds=300.0)
    agents = run(encrypted, job, 7, a1={"pause": 0.2}, a4={"stop_at": 3})
    assert all(Link.parse(agent.token).tls for agent in agents)
    assert agents[3].ended()[0] == -signal.SIGKILL
    assert encrypted.round_of(job) == 3
    encrypted.rpcs[-1].kill()
    encrypted.rpcs[-1].wait()
    agents[3].start()
    assert encrypted.job(job)["state"] == "running"
    encrypted.start_rpc()
    outcomes = [agent.outcome() for agent in agents]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert outcomes[0]["state"] == "succeeded"
    assert all(once_each(agent, 12) for agent in agents)
    with encrypted.client() as client:
        assert client.result(job)["result"]["sums"] == sums(7, 12)


def test_a_server_that_stops_in_order_is_followed_by_the_next(encrypted: Federation) -> None:
    job = encrypted.submit(agents=3, rounds=20, mode="simulation")
    agents = run(encrypted, job, 3, a1={"pause": 0.1})
    eventually(lambda: encrypted.round_of(job) > 3, "some rounds were run")
    encrypted.rpcs[-1].terminate()
    assert encrypted.rpcs[-1].wait(DEADLINE_SECONDS) == 0
    encrypted.start_rpc()
    assert {agent.outcome()["state"] for agent in agents} == {"succeeded"}
    assert all(once_each(agent, 20) for agent in agents)


@pytest.mark.long
def test_a_session_moves_to_the_process_where_its_agents_are(encrypted: Federation) -> None:
    """Two rpc processes; the one whose agents are gone gives the session to the one that they come
    to."""
    job = encrypted.submit(agents=2, rounds=16, mode="simulation", round_seconds=300.0)
    other = free_port()
    encrypted.start_rpc(other)
    agents = run(encrypted, job, 2, a1={"pause": 0.1})
    eventually(lambda: encrypted.round_of(job) > 1, "some rounds were run")
    for agent in agents:
        agent.kill()
        agent.token = str(replace(Link.parse(agent.token), port=other))
        agent.start()
    assert {agent.outcome()["state"] for agent in agents} == {"succeeded"}
    assert all(
        once_each(agent, 16) or _killed_while_deciding(agent.answers, 16) for agent in agents
    )
    with encrypted.client() as client:
        assert client.result(job)["result"]["sums"] == sums(2, 16)


def _killed_while_deciding(answers: list[tuple[int, int, str]], rounds: int) -> bool:
    """The kill may fall between the line of this test's log and the decision on disk: then that
    line stands twice."""
    return sorted({(number, size) for number, size, _ in answers}) == [
        (n, n) for n in range(rounds)
    ]


@pytest.mark.long
@pytest.mark.parametrize("terms", ["abort", "finish"])
def test_a_network_that_is_cut_for_longer_than_the_deadline(
    encrypted: Federation, terms: str
) -> None:
    job = encrypted.submit(
        agents=3, rounds=30, mode="simulation", on_missing=terms, quorum=2, round_seconds=8.0
    )
    proxy = Proxy(encrypted.rpc_port)
    try:
        tokens = encrypted.invite(job, 3)
        tokens[2] = str(replace(Link.parse(tokens[2]), port=proxy.port))
        agents = [
            encrypted.agent(token, value=10 * n, name=f"{job}-{n}", pause=0.05)
            for n, token in enumerate(tokens, start=1)
        ]
        encrypted.joined(job, 3)
        encrypted.approve(job)
        eventually(lambda: encrypted.round_of(job) > 2, "some rounds were run")
        proxy.cut = True
        outcomes = [agent.outcome() for agent in agents[:2]]
        assert outcomes[0] == outcomes[1]
        if terms == "abort":
            assert (outcomes[0]["state"], outcomes[0]["code"]) == ("failed", "agent_missing")
        else:
            assert (outcomes[0]["state"], outcomes[0]["rounds"]) == ("succeeded", 30)
            with encrypted.client() as client:
                found = client.result(job)["result"]["sums"]
            assert found[:3] == sums(3, 30)[:3]
            assert found[-1] == sums(3, 30)[-1] - 30 - 29
        final(encrypted, job)
    finally:
        agents[2].kill()
        proxy.close()


# Certificates -------------------------------------------------------------------------------------


class Authority:
    """A certificate authority of one test."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.path = folder / f"{name}.crt"
        self.path.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for a host's name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(subject, key.public_key()).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        certificate, place = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        place.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, place

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )


def test_mutual_tls_and_certificates_of_other_hosts(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    authority, stranger = (
        Authority(tmp_path / "ca", "authority"),
        Authority(tmp_path / "other", "stranger"),
    )
    certificate, key = authority.issue("localhost")
    own, own_key = authority.issue("an-agent")
    false, false_key = stranger.issue("a-stranger")
    extra = {
        "DISCREET_RPC_TLS": "authority",
        "DISCREET_RPC_CERTIFICATE": str(certificate),
        "DISCREET_RPC_CERTIFICATE_KEY": str(key),
        "DISCREET_RPC_CLIENT_AUTHORITIES": str(authority.path),
    }
    mutual = (
        "--ca",
        str(authority.path),
        "--certificate",
        str(own),
        "--certificate-key",
        str(own_key),
    )
    with federation(postgres, template, tmp_path / "state", extra) as running:
        job = running.submit(agents=2, rounds=2, mode="simulation")
        tokens = running.invite(job, 2)
        assert {Link.parse(token).tls for token in tokens} == {"ca"}
        by_name = [str(replace(Link.parse(token), host="localhost")) for token in tokens]
        refused = {
            "certificate of another host": running.agent(tokens[0], *mutual, "--patience", "0.3"),
            "no certificate": running.agent(
                by_name[0], "--ca", str(authority.path), "--patience", "0.3"
            ),
            "foreign certificate": running.agent(
                by_name[0],
                *(
                    "--ca",
                    str(authority.path),
                    "--certificate",
                    str(false),
                    "--certificate-key",
                    str(false_key),
                ),
                *("--patience", "0.3"),
            ),
            "foreign authority": running.agent(
                by_name[0],
                *(
                    "--ca",
                    str(stranger.path),
                    "--certificate",
                    str(own),
                    "--certificate-key",
                    str(own_key),
                ),
                *("--patience", "0.3"),
            ),
        }
        for what, agent in refused.items():
            status, _, errors = agent.ended()
            assert status == 1, what
            assert "Lost" in errors, what
        with running.client() as client:
            assert client.session(job)["agents"] == []
        agents = [running.agent(token, *mutual) for token in by_name]
        running.joined(job, 2)
        running.approve(job)
        assert {agent.outcome()["state"] for agent in agents} == {"succeeded"}


def test_another_certificate_or_another_server_than_the_pinned_one(encrypted: Federation) -> None:
    job = encrypted.submit(agents=1, mode="simulation")
    link, other = (Link.parse(text) for text in encrypted.invite(job, 2))
    for wrong, words in (
        (replace(link, tls="0" * 64), "not the one that the token pins"),
        (replace(link, server="0" * 64), "not the server that the token pins"),
        (replace(link, tls="", host="192.0.2.1"), "not a loopback address"),
    ):
        agent = encrypted.agent(str(wrong), name=f"{job}-wrong")
        status, _, errors = agent.ended()
        assert status == 1
        assert "NotTrusted" in errors
        assert words in errors
    right = encrypted.agent(str(replace(other, owner="0" * 64)), name=f"{job}-owner")
    encrypted.joined(job, 1)
    encrypted.approve(job)
    status, _, errors = right.ended()
    assert status == 1
    assert "another owner" in errors
    assert right.answers == []
    with encrypted.client() as client:
        client.cancel(job)
