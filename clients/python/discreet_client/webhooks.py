"""Is a webhook from the service? (Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`.)

event = verify(secret, request.headers, request.body)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from discreet_client.errors import ClientError

TOLERANCE_SECONDS = 300.0


class WebhookRefused(ClientError):
    """The message is not from the holder of the secret, or it is old."""


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature `v1,…` of a message; ValueError when the secret is not `whsec_` and base64."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("the secret is whsec_ and base64") from None
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> dict[str, Any]:
    """The message, if one of its signatures is of this secret and it is not older or newer than the
    tolerance.

    body: the bytes as they came; a body that was parsed and written again has another signature.
    Remember the ids (`webhook-id`) of what was handled: a message may come twice.
    """
    plain = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, stamp = plain["webhook-id"], plain["webhook-timestamp"]
        given = plain["webhook-signature"].split(" ")
    except KeyError as error:
        raise WebhookRefused(f"the header {error.args[0]} is missing") from None
    if not (stamp.isascii() and stamp.isdecimal()):
        raise WebhookRefused("webhook-timestamp is no number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance_seconds:
        raise WebhookRefused("the message is too old or from the future")
    expected = sign(secret, message_id, int(stamp), body).encode()
    if not any(hmac.compare_digest(expected, one.encode()) for one in given):
        raise WebhookRefused("no signature of this secret")
    message: dict[str, Any] = json.loads(body)
    return message
