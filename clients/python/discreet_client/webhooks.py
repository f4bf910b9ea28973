"""Checks that a webhook comes from the service (Standard Webhooks 1.0: HMAC-SHA256 over
`id.timestamp.body`).

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
LONGEST_STAMP = 18
"""Digits of a timestamp: longer ones may overflow, and anybody can send them."""


class WebhookRefused(ClientError):
    """The message is not signed with the secret, or its time is too far from now."""


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature `v1,…` of a message; ValueError if the secret is not base64 after `whsec_`."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("the secret must be whsec_ followed by base64") from None
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
    """The message, if one of its signatures is by this secret and its time is within the tolerance
    of now; otherwise WebhookRefused.

    body: the bytes as received, since a body that was parsed and written again may differ. Remember
    the ids (`webhook-id`) of handled messages: a message may be sent twice.
    """
    plain = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, stamp = plain["webhook-id"], plain["webhook-timestamp"]
        given = plain["webhook-signature"].split(" ")
    except KeyError as error:
        raise WebhookRefused(f"the header {error.args[0]} is missing") from None
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= LONGEST_STAMP):
        raise WebhookRefused("webhook-timestamp is not a number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance_seconds:
        raise WebhookRefused("the message is too old or from the future")
    expected = sign(secret, message_id, int(stamp), body).encode()
    if not any(hmac.compare_digest(expected, one.encode()) for one in given):
        raise WebhookRefused("no signature of the message is by this secret")
    message: dict[str, Any] = json.loads(body)
    return message
