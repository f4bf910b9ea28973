"""The TLS certificate of gRPC: the one that settings name, or a self-signed one that tokens pin."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from discreet.private_files import write_private
from discreet.settings import Settings
from discreet_agent.federation.links import is_loopback

NAME = "discreet.rpc"
"""The name in self-signed certificates, which agents that pin one expect
(`discreet_agent.connection`)."""

YEARS = 10


def uses_tls(settings: Settings, host: str) -> bool:
    """Whether gRPC on this host uses TLS: always, unless only this machine can reach it."""
    return (
        settings.rpc_tls != "auto" or settings.rpc_certificate is not None or not is_loopback(host)
    )


def certificate_paths(settings: Settings) -> tuple[Path, Path]:
    """The paths of certificate and key."""
    return (
        settings.rpc_certificate or settings.state / "rpc.crt",
        settings.rpc_certificate_key or settings.state / "rpc.key",
    )


def ensure(settings: Settings) -> tuple[bytes, bytes]:
    """Certificate and key (PEM); they are made on first use unless settings name files."""
    certificate, key = certificate_paths(settings)
    if settings.rpc_certificate is None and not certificate.exists():
        made, made_key = self_signed((NAME, "localhost", "127.0.0.1", "::1"))
        write_private(key, made_key.decode())
        write_private(certificate, made.decode())  # last: if it exists, its key does too
    return certificate.read_bytes(), key.read_bytes()


def pin(settings: Settings, host: str) -> str:
    """What tokens say about the certificate: its SHA-256, `ca` if a certificate authority vouches
    for it, or nothing without TLS."""
    if not uses_tls(settings, host):
        return ""
    if settings.rpc_tls == "authority":
        return "ca"
    if settings.rpc_certificate is None:
        ensure(settings)
    pem = certificate_paths(settings)[0].read_bytes()
    return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256()).hex()


def self_signed(names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A certificate for these names and its key (PEM): P-256, which every TLS library knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(os.urandom(16), "big") >> 1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), pem


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
