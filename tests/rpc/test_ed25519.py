"""The checks of signatures: what RFC 8032 prints, and one line for all who check the same one."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.rpc.ed25519 import is_signed
from discreet_agent.federation import signing
from discreet_agent.federation.identity import Identity
from tests import edwards

VERIFIER = Path(__file__).parents[2] / "clients" / "verifier" / "discreet_verify.py"
STATEMENT = signing.message("ses_1", bytes(32), 1, 1, 1, b"body")


@pytest.mark.parametrize(
    ("key", "message", "signature"),
    [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
    ],
)
def test_the_examples_of_rfc_8032(key: str, message: str, signature: str) -> None:
    read = (bytes.fromhex(text) for text in (key, message, signature))
    assert is_signed(*read)


def test_every_changed_byte_is_seen_as_openssl_sees_it() -> None:
    key = Identity.generate()
    signature = key.sign(STATEMENT)
    genuine = (key.public_key, STATEMENT, signature)
    assert is_signed(*genuine)
    for part in range(3):
        for place in range(len(genuine[part])):
            changed = [bytearray(one) for one in genuine]
            changed[part][place] ^= 1 << place % 8
            forged = tuple(bytes(one) for one in changed)
            assert not signing.is_signed(*forged)
            assert not is_signed(*forged)


def test_key_signature_and_statement_do_not_lend_each_other_bytes() -> None:
    """libsodium takes signature and statement as one."""
    key = Identity.generate()
    signature = key.sign(STATEMENT)
    whole = signature + STATEMENT
    for at in (0, 63, 65, len(whole)):
        assert not is_signed(key.public_key, whole[at:], whole[:at])
    for wrong in (b"", key.public_key[:31], key.public_key + b"\0"):
        assert not is_signed(wrong, STATEMENT, signature)


def verifiers() -> dict[str, Callable[[bytes, bytes, bytes], bool]]:
    """Of key, message and signature. The TypeScript agent is asked in
    tests/clients/test_protocol_vectors.py."""
    by_verifier = runpy.run_path(str(VERIFIER))["is_signed"]
    return {
        "the service, of a message": is_signed,
        "a Python agent, and the service elsewhere": signing.is_signed,
        "the verifier of one file": lambda key, said, signature: by_verifier(key, signature, said),
    }


def test_every_verifier_draws_the_same_line() -> None:
    """Keys and signatures of small order, in other forms, and with and without the cofactor."""
    edges, asked = edwards.edges(), verifiers()
    for edge in edges:
        expected = edwards.holds(edge.key, edge.message, edge.signature)
        for name, holds in asked.items():
            assert holds(edge.key, edge.message, edge.signature) is expected, (name, edge.about)
    # The cases are none that all libraries refuse: OpenSSL takes most of them.
    taken = [edge for edge in edges if by_openssl(edge) and not is_signed(*edge[1:])]
    assert len(taken) > 20


def by_openssl(edge: edwards.Edge) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(edge.key).verify(edge.signature, edge.message)
    except InvalidSignature:
        return False
    return True


def test_random_signatures_hold_by_the_rule_as_it_is_written() -> None:
    """`edwards.holds` is no library's code; where it errs, the line above is drawn wrongly."""
    for number in range(3):
        key, said = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32), bytes(number)
        public, signature = key.public_key().public_bytes_raw(), key.sign(said)
        assert edwards.holds(public, said, signature)
        assert not edwards.holds(public, said + b"!", signature)
