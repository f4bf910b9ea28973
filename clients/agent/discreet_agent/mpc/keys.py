"""What binds a computation on shares to the roster: certificates and sealed parts, by the agents'
own keys.

An agent's TLS certificate is self-signed with the Ed25519 key of its entry on the roster. The agent
announces it when it enrols, so the owner's signature over the roster covers it; and whoever reads
it there checks that its key is the one of the entry. All of it follows from key and session, so a
new process makes the same bytes again.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import secrets
import ssl
import struct
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

BEGINS = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ENDS = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
"""Validity of every certificate: a key's use ends with its roster, which is for one session."""

SUMMAND_BITS = 192
"""Bits of a random summand; an operator's figure has at most 64, so all summands but one reveal it
with a probability of at most 2^-128."""


class NotSealed(ValueError):
    """The part is not sealed to this agent, or not for this session."""


def certificate(key: Ed25519PrivateKey, session: str) -> bytes:
    """The agent's self-signed certificate (DER), always the same for a key and session."""
    raw = key.public_key().public_bytes_raw()
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, hashlib.sha256(raw).hexdigest())]
    )
    serial = (
        int.from_bytes(
            hashlib.sha256(b"discreet/mpc/serial/v1" + session.encode()).digest()[:16], "big"
        )
        | 1
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(BEGINS)
        .not_valid_after(ENDS)
        .sign(key, None)
    )
    return made.public_bytes(Encoding.DER)


def key_of(document: bytes) -> bytes:
    """The raw Ed25519 key of a self-signed certificate; ValueError for every other one."""
    read = x509.load_der_x509_certificate(document)
    key = read.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("the certificate has no Ed25519 key")
    try:
        key.verify(read.signature, read.tbs_certificate_bytes)
    except Exception:
        raise ValueError("the certificate is not signed by its own key") from None
    return key.public_bytes_raw()


def pem(key: Ed25519PrivateKey, document: bytes) -> bytes:
    """Key and certificate as OpenSSL reads them from one file."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + ssl.DER_cert_to_PEM_cert(document).encode()


def exchange_key(key: Ed25519PrivateKey, session: str) -> X25519PrivateKey:
    """The key to which parts are sealed in one session; it is derived from the agent's key."""
    info = b"discreet/mpc/exchange/v1" + session.encode()
    return X25519PrivateKey.from_private_bytes(
        HKDF(SHA256(), 32, None, info).derive(key.private_bytes_raw())
    )


def summands(figures: Sequence[int], count: int) -> list[list[int]]:
    """Additive shares: `count` vectors that sum to `figures` (magnitudes below 2^63). All but one
    of them reveal nothing about the figures (SUMMAND_BITS)."""
    drawn = [[secrets.randbits(SUMMAND_BITS) for _ in figures] for _ in range(count - 1)]
    return [
        *drawn,
        [
            figure - sum(column)
            for figure, column in zip(figures, zip(*drawn, strict=True), strict=True)
        ],
    ]


def seal(public: bytes, context: bytes, part: Sequence[int]) -> bytes:
    """Seal a vector of integers to the holder of an exchange key, with a one-time key
    (ChaCha20-Poly1305)."""
    once = X25519PrivateKey.generate()
    mine = once.public_key().public_bytes_raw()
    key = _key(once.exchange(X25519PublicKey.from_public_bytes(public)), mine, public, context)
    return mine + ChaCha20Poly1305(key).encrypt(
        bytes(12), json.dumps([str(one) for one in part]).encode(), context
    )


def unseal(key: X25519PrivateKey, context: bytes, sealed: bytes) -> list[int]:
    """The vector; NotSealed if it was not sealed to this key under this context."""
    public, theirs = key.public_key().public_bytes_raw(), sealed[:32]
    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(theirs))
        opened = ChaCha20Poly1305(_key(shared, theirs, public, context)).decrypt(
            bytes(12), sealed[32:], context
        )
    except (InvalidTag, ValueError):
        raise NotSealed("the operator's part is not sealed to this agent in this session") from None
    return [int(one) for one in json.loads(opened)]


def _key(shared: bytes, once: bytes, public: bytes, context: bytes) -> bytes:
    info = b"discreet/mpc/seal/v1" + b"".join(
        struct.pack(">I", len(one)) + one for one in (once, public, context)
    )
    return HKDF(SHA256(), 32, None, info).derive(shared)
