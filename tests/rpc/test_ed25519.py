"""The server's check of agents' signatures: what RFC 8032 prints, what OpenSSL says, and less."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.rpc.ed25519 import is_signed
from discreet_client.federation import signing
from discreet_client.federation.identity import Identity

ORDER = 2**252 + 27742317777372353535851937790883648493
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


def test_a_signature_has_one_form_and_a_key_one_owner() -> None:
    key = Ed25519PrivateKey.generate()
    signature = key.sign(STATEMENT)
    larger = int.from_bytes(signature[32:], "little") + ORDER
    again = signature[:32] + larger.to_bytes(32, "little")
    assert not is_signed(key.public_key().public_bytes_raw(), STATEMENT, again)
    # The neutral element as a key: with it as R, and S = 0, a signature on everything.
    neutral = (1).to_bytes(32, "little")
    assert not is_signed(neutral, STATEMENT, neutral + bytes(32))
