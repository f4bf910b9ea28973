"""Signed notes, checkpoints and cosignatures: those of others are read, and nothing else."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.ledger.checkpoints import (
    BadNote,
    Checkpoint,
    Verifier,
    cosign,
    public_bytes,
    read_checkpoint,
    sign_checkpoint,
    signers,
)

# The example of golang.org/x/mod/sumdb/note: a note that Go has signed.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your "
    "problem is.\n"
)
GO_LINE = (
    "— PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
)

KEY, WITNESS = (
    Ed25519PrivateKey.from_private_bytes(bytes(32)),
    Ed25519PrivateKey.from_private_bytes(b"w" * 32),
)
ORIGIN, ROOT = "discreet/test", b"r" * 32
LOG = Verifier(ORIGIN, public_bytes(KEY))
SEEN = Verifier("witness.example/one", public_bytes(WITNESS), witness=True)


def signed() -> Checkpoint:
    return sign_checkpoint(ORIGIN, 7, ROOT, KEY)


def test_a_note_of_go_is_read() -> None:
    verifier = Verifier.read(GO_KEY)
    assert verifier.text == GO_KEY
    assert Checkpoint("", 0, b"", GO_TEXT, (GO_LINE,)).signed_by(verifier)
    with pytest.raises(BadNote, match="forged"):
        Checkpoint("", 0, b"", GO_TEXT + "!", (GO_LINE,)).signed_by(verifier)


def test_what_is_signed_is_read_again() -> None:
    checkpoint = signed()
    assert checkpoint.text == f"discreet/test\n7\n{base64.b64encode(ROOT).decode()}\n"
    line = cosign(checkpoint, SEEN.name, WITNESS, 1_700_000_000)
    read = read_checkpoint(checkpoint.cosigned([line, line]).note)
    assert read == checkpoint.cosigned([line])
    assert (read.origin, read.size, read.root) == (ORIGIN, 7, ROOT)
    assert signers(read, [LOG, SEEN]) == [LOG, SEEN]
    assert read.seen_at(SEEN) == 1_700_000_000
    assert not checkpoint.signed_by(SEEN)
    assert not read.signed_by(Verifier("another", LOG.key))


def test_another_size_is_forged() -> None:
    note = signed().cosigned([cosign(signed(), SEEN.name, WITNESS, 5)]).note
    changed = read_checkpoint(note.replace("\n7\n", "\n8\n"))
    for verifier in (LOG, SEEN):
        with pytest.raises(BadNote, match="forged"):
            changed.signed_by(verifier)


def test_the_name_is_part_of_the_key() -> None:
    """A signature under one name does not count under another."""
    renamed = read_checkpoint(signed().note.replace("discreet/test", "discreet/other"))
    assert not renamed.signed_by(Verifier("discreet/other", LOG.key))


def test_a_cosignature_binds_its_time() -> None:
    line = cosign(signed(), SEEN.name, WITNESS, 5)
    start, _, encoded = line.rpartition(" ")
    blob = bytearray(base64.b64decode(encoded))
    blob[11] += 1  # the last byte of the time
    moved = f"{start} {base64.b64encode(blob).decode()}"
    with pytest.raises(BadNote, match="forged"):
        signed().cosigned([moved]).signed_by(SEEN)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n\n",
        "a\n1\n\n",
        "x" * 100_000,
        signed().note[:-1],
        signed().note.replace("\n7\n", "\n07\n"),
        signed().note.replace("\n7\n", "\n-7\n"),
        signed().note.replace("\n7\n", "\n7 \n"),
        signed().note.replace("\n7\n", f"\n{10**30}\n"),
        signed().note.replace("— ", "- "),
        signed().note.replace("=\n", "\n", 1),
        signed().note.replace("— discreet/test ", "—  "),
        signed().note + "\n",
        signed().text,
    ],
)
def test_what_is_no_checkpoint_is_refused(note: str) -> None:
    with pytest.raises(BadNote):
        read_checkpoint(note)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a+b",
        "a+00000000+AAAA",
        GO_KEY.replace("c74f", "c74e"),
        GO_KEY + "A",
        " " + "+" * 5,
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(BadNote):
        Verifier.read(text)
