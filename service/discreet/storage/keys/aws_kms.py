"""Keys wrapped by AWS KMS: the secrets file alone opens nothing, and every opening stands in
CloudTrail.

    awskms:///KEY?region=…      KEY: id, ARN or alias/… of a symmetric key; else as boto finds it
    awskms://HOST:PORT/KEY      another address: https, http on loopback alone
    awskms:///ARN BASE64        in the secrets file: a key as `Encrypt` gave it, and by which key

The form of the URI is sigstore's. A process calls `Decrypt` once for every key of the file when it
starts, and for a new key when the file changes; opened keys stay in its memory as long as it lives,
and no request waits for KMS. Signing keys are Ed25519 keys wrapped in the same way, and sign in
memory: a signature needs no call either."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    DataNotFoundError,
    NoRegionError,
    UnknownEndpointError,
)

from discreet.storage.database import Impatience, Silent
from discreet.storage.keys.provider import (
    KEY_BYTES,
    KeyProvider,
    KeysUnavailable,
    Purpose,
    SecretsError,
)

CONNECT_SECONDS = 2.0
READ_SECONDS = 3.0
ATTEMPTS = 2
"""In all, with pauses between; whoever needs the keys asks again later."""

CALL_SECONDS = 10.0
"""For all attempts: the other limits count from one byte to the next."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_ALTERED = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})
_REFUSED: Mapping[str, str] = {
    "AccessDeniedException": "does not allow this service to use the key",
    "DisabledException": "says that the key is disabled",
    "InvalidArnException": "knows no such key",
    "InvalidKeyUsageException": "says that the key is not for encryption",
    "KMSInvalidStateException": "says that the key cannot be used now (is it to be deleted?)",
    "NotFoundException": "knows no such key",
    "UnrecognizedClientException": "does not know the credentials of this service",
    "ValidationException": "rejects the name of the key",
}
"""Errors that waiting does not cure. Any other answer may be otherwise in a moment."""

Value = TypeVar("Value")


class KmsKeys(KeyProvider):
    """One symmetric KMS key that wraps all others."""

    name = "awskms"

    def __init__(self, client: Any, key: str) -> None:
        """`client`: of botocore for `kms`. `key`: id, ARN or alias."""
        self._client, self._key = client, key
        self._arn = key if ":key/" in key else None
        self._impatience = Impatience("kms")

    @classmethod
    def at(cls, uri: str) -> KmsKeys:
        """By its URI; SecretsError where that is none."""
        wrong = SecretsError(
            "DISCREET_KEYS: awskms:///KEY?region=REGION is needed, KEY as id, ARN or alias/NAME"
        )
        try:
            parts = urlsplit(uri)
            key, query = parts.path.lstrip("/"), parse_qs(parts.query)
            _ = parts.port
        except ValueError:  # whose words may repeat it
            raise wrong from None
        if (
            not uri.startswith("awskms://")
            or not key
            or set(query) - {"region"}
            or parts.username is not None
        ):
            raise wrong
        scheme = "http" if parts.hostname in LOOPBACK else "https"
        # Its log of debugging shows bodies, in which keys stand.
        logging.getLogger("botocore").setLevel(logging.WARNING)
        try:
            client = _session().create_client(
                "kms",
                region_name=query["region"][0]
                if query
                else (key.split(":")[3] if ":key/" in key else None),
                endpoint_url=f"{scheme}://{parts.netloc}" if parts.netloc else None,
                config=Config(
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=READ_SECONDS,
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                ),
            )
        except (
            NoRegionError,
            UnknownEndpointError,
            DataNotFoundError,
            ValueError,
            IndexError,
        ) as error:
            raise SecretsError(
                "DISCREET_KEYS: awskms: no region; add ?region=… or set AWS_DEFAULT_REGION"
            ) from error
        return cls(client, key)

    def holds(self, text: str) -> bool:
        return (
            text.startswith("awskms:") and text.partition(" ")[0] == f"awskms:///{self._its_arn()}"
        )

    def lock(self, purpose: Purpose, secret: bytes) -> str:
        arn, *uses = self._describe()
        if uses != ["SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"]:
            raise SecretsError("DISCREET_KEYS: this AWS KMS key is not a symmetric encryption key")
        self._arn = arn
        wrapped = self._ask(
            "encrypt",
            lambda answer: bytes(answer["CiphertextBlob"]),
            KeyId=arn,
            Plaintext=secret,
            EncryptionContext=_context(purpose),
        )
        return f"awskms:///{arn} {base64.b64encode(wrapped).decode()}"

    def unlock(self, purpose: Purpose, text: str) -> bytes:
        try:
            wrapped = base64.b64decode(text.partition(" ")[2], validate=True)
        except binascii.Error as error:
            raise _broken(purpose) from error
        if not wrapped:
            raise _broken(purpose)
        # The key is named: one of a stranger's account, which may have made what it likes, opens
        # nothing here.
        arn = self._its_arn()
        by, secret = self._ask(
            "decrypt",
            lambda answer: (str(answer["KeyId"]), bytes(answer["Plaintext"])),
            purpose,
            KeyId=arn,
            CiphertextBlob=wrapped,
            EncryptionContext=_context(purpose),
        )
        if by != arn or len(secret) != KEY_BYTES:
            raise _broken(purpose)
        return secret

    def _its_arn(self) -> str:
        """The key itself: an alias may lead to another one day."""
        if self._arn is None:
            self._arn = self._describe()[0]
        return self._arn

    def _describe(self) -> tuple[str, str, str]:
        """The key's ARN, its type, and what it is for."""

        def read(answer: Any) -> tuple[str, str, str]:
            found = answer["KeyMetadata"]
            return str(found["Arn"]), str(found["KeySpec"]), str(found["KeyUsage"])

        return self._ask("describe_key", read, KeyId=self._key)

    def _ask(
        self,
        call: str,
        read: Callable[[Any], Value],
        purpose: Purpose | None = None,
        **arguments: Any,
    ) -> Value:
        """What `read` finds in the answer to one call. No word of an answer goes into an error but
        its code: arguments and answers hold keys."""
        why = ""
        try:
            answer = self._impatience.within(
                CALL_SECONDS, lambda: getattr(self._client, call)(**arguments)
            )
            return read(answer)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if purpose is not None and code in _ALTERED:
                raise _broken(purpose) from None
            if code in _REFUSED:
                raise SecretsError(f"AWS KMS {_REFUSED[code]} ({call}: {code})") from None
            why = f"gives no key now ({call}: {code})"
        except Silent:
            why = f"gives no answer within {CALL_SECONDS:g} s ({call})"
        except BotoCoreError as error:
            why = f"does not answer ({call}: {type(error).__name__})"
        except Exception as error:  # of botocore's parser, or ours: a proxy's page, half an answer
            why = f"gives an answer that is not one of KMS ({call}: {type(error).__name__})"
        raise KeysUnavailable(f"AWS KMS {why}; nothing was done, try again")


@cache
def _session() -> Any:
    """One for all clients of a process: it reads the descriptions of services, and finds
    credentials, once."""
    return botocore.session.get_session()


def _context(purpose: Purpose) -> dict[str, str]:
    """Bound to what is wrapped, and shown in CloudTrail."""
    return {"service": "discreet", "purpose": purpose}


def _broken(purpose: Purpose) -> SecretsError:
    return SecretsError(
        f"a key of the secrets file ({purpose}) cannot be decrypted: it was altered, or belongs "
        "to another installation"
    )
