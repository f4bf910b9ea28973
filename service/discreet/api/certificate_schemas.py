"""Answers about certificates: the verdict on one, and the envelope it comes in."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class EnvelopeSignature(BaseModel):
    """A signature over the type and the bytes of an envelope's payload (DSSE's pre-authentication
    encoding)."""

    keyid: str = Field(description="SHA-256 of the public key's 32 bytes, hexadecimal")
    sig: str = Field(description="Ed25519, base64")


class EnvelopeAnswer(BaseModel):
    """An in-toto statement in an envelope (DSSE)."""

    payload: str = Field(
        description="The statement in base64; its predicate is the requested certificate or head"
    )
    payloadType: str = Field(description="application/vnd.in-toto+json")  # noqa: N815 - DSSE calls it so
    signatures: list[EnvelopeSignature]


class CertificateCheck(BaseModel):
    """One check; `holds` is null when it could not be made."""

    name: Literal[
        "signature",
        "price",
        "guarantee",
        "transcript",
        "release",
        "result",
        "table",
        "inclusion",
        "log",
        "witnesses",
    ]
    holds: bool | None
    detail: str


class CertificateVerdict(BaseModel):
    """The verdict on a certificate: valid when no check failed."""

    valid: bool
    checks: list[CertificateCheck]
