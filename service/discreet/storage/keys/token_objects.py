"""Keys as objects of a token: how they are made, found, looked at and used, on an open session.

All of it runs in the thread of `token_session`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pkcs11 import Attribute, GCMParams, KeyType, Mechanism, MechanismFlag, ObjectClass, exceptions

from discreet.storage.keys.provider import KEY_BYTES, TAG_BYTES, SecretsError
from discreet.storage.keys.token_session import Session

ID_BYTES = 16
ED25519 = bytes.fromhex("06032b6570")
"""The object identifier 1.3.101.112 (RFC 8410), as CKA_EC_PARAMS has it."""

MAY_BE_ALTERED = (
    exceptions.ArgumentsBad,
    exceptions.DataInvalid,
    exceptions.DataLenRange,
    exceptions.EncryptedDataInvalid,
    exceptions.EncryptedDataLenRange,
    exceptions.FunctionFailed,
    exceptions.GeneralError,
    exceptions.SignatureInvalid,
)


def gcm(call: Callable[..., Any], data: bytes, nonce: bytes, about: bytes) -> Any:
    return call(
        data, mechanism=Mechanism.AES_GCM, mechanism_param=GCMParams(nonce, about, 8 * TAG_BYTES)
    )


def make_aes(session: Session, label: str) -> bytes:
    key_id = os.urandom(ID_BYTES)
    session.raw.generate_key(
        KeyType.AES,
        8 * KEY_BYTES,
        id=key_id,
        label=label,
        store=True,
        capabilities=MechanismFlag.ENCRYPT | MechanismFlag.DECRYPT,
        template=_PRIVATE,
    )
    return key_id


def make_ed25519(session: Session) -> bytes:
    key_id = os.urandom(ID_BYTES)
    parameters = session.raw.create_domain_parameters(
        KeyType.EC_EDWARDS, {Attribute.EC_PARAMS: ED25519}, local=True
    )
    parameters.generate_keypair(
        mechanism=Mechanism.EC_EDWARDS_KEY_PAIR_GEN,
        id=key_id,
        label="discreet signing",
        store=True,
        capabilities=MechanismFlag.SIGN | MechanismFlag.VERIFY,
        private_template=_PRIVATE,
    )
    return key_id


_PRIVATE: Mapping[Attribute, Any] = {
    Attribute.PRIVATE: True,
    Attribute.SENSITIVE: True,
    Attribute.EXTRACTABLE: False,
}


def key_object(session: Session, key_id: bytes, kind: ObjectClass) -> Any:
    """The key, which was looked at once in this session: it is what it should be, and nobody can
    read it."""
    known = session.found.get((key_id, kind))
    if known is None:
        known = session.found[key_id, kind] = checked_key(find_key(session, key_id, kind), kind)
    return known


def find_key(session: Session, key_id: bytes, kind: ObjectClass) -> Any:
    try:
        return session.raw.get_key(object_class=kind, id=key_id)
    except exceptions.NoSuchKey as error:
        raise SecretsError(
            f"the token has no key with the id {key_id.hex()}, which the secrets file names"
        ) from error
    except exceptions.MultipleObjectsReturned as error:
        raise SecretsError(f"the token has several keys with the id {key_id.hex()}") from error


def checked_key(key: Any, kind: ObjectClass) -> Any:
    if kind == ObjectClass.SECRET_KEY and (
        key.key_type != KeyType.AES or key.key_length != 8 * KEY_BYTES
    ):
        raise SecretsError(
            "a key of the token that the secrets file names is not an AES key of 256 bits"
        )
    if kind == ObjectClass.PRIVATE_KEY and key.key_type != KeyType.EC_EDWARDS:
        raise SecretsError("a key of the token that the secrets file names is not an Ed25519 key")
    if not key[Attribute.SENSITIVE] or key[Attribute.EXTRACTABLE]:
        raise SecretsError(
            "a key of the token can be read out of it: make one that is sensitive and not "
            "extractable"
        )
    return key


def public_key_of(session: Session, key_id: bytes) -> Ed25519PublicKey:
    """Of the pair, both halves of which must be there and belong together."""
    private = key_object(session, key_id, ObjectClass.PRIVATE_KEY)
    point = bytes(find_key(session, key_id, ObjectClass.PUBLIC_KEY)[Attribute.EC_POINT])
    # PKCS#11 3.0 has the point as an octet string of DER, some tokens as it is.
    try:
        public = Ed25519PublicKey.from_public_bytes(
            point[2:] if len(point) == KEY_BYTES + 2 else point
        )
        public.verify(bytes(private.sign(b"discreet", mechanism=Mechanism.EDDSA)), b"discreet")
    except (InvalidSignature, ValueError) as error:
        raise SecretsError(
            "the two halves of the token's signing key do not belong together"
        ) from error
    return public
