"""Codes of errors in what is asked and by whom: their status, what always holds of them, and an
example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Code:
    """What a code means: its status, what always holds of it, and a detail as an example."""

    status: int
    title: str
    example: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the example."""


_POINTED = {"errors": [{"pointer": "/privacy/epsilon", "detail": "must be greater than 0"}]}

REQUEST_CODES: dict[str, Code] = {
    # Requests that cannot be read at all
    "invalid_http": Code(400, "The request is not HTTP", "this is not an HTTP/1.1 request"),
    "invalid_json": Code(
        400, "The body is not strict JSON", "not JSON at line 1, column 2: Expecting property name"
    ),
    "invalid_multipart": Code(400, "The body is not a multipart form", "not a multipart form"),
    "idempotency_key_missing": Code(
        400,
        "An idempotency key is needed",
        "send the header Idempotency-Key with 1 to 255 characters",
    ),
    # Keys
    "unauthenticated": Code(
        401, "An API key is needed", "send an API key: `Authorization: Bearer dsc_…`"
    ),
    "key_malformed": Code(
        401,
        "This is not an API key",
        "this is not a discreet API key: its form or its checksum is wrong, perhaps by a typing "
        "error",
    ),
    "key_unknown": Code(401, "The API key is unknown", "this API key is unknown"),
    "key_revoked": Code(401, "The API key was revoked", "this API key was revoked"),
    "key_expired": Code(401, "The API key has expired", "this API key has expired"),
    "forbidden": Code(
        403,
        "The key's role does not allow this",
        "this needs the role owner; this key has the role analyst",
    ),
    "reads_no_names": Code(
        403,
        "This installation reads no files with names of their own",
        "this installation reads no files with names and columns of their own "
        "(DISCREET_READS_NAMES): read it at home, with --local or local=True, and send its arrays",
    ),
    "token_invalid": Code(
        401,
        "This is not an access token for this service",
        "this token is signed by a key that the identity provider does not publish",
    ),
    "token_expired": Code(401, "The access token has expired", "this token has expired"),
    "token_ended": Code(
        401,
        "The person was logged out at the identity provider",
        "this person was logged out at the identity provider: log in again",
    ),
    "person_removed": Code(
        401,
        "The person was removed here",
        "this person was removed here; an owner or operator can undo that",
    ),
    "no_role": Code(
        403,
        "The identity provider gives the person no role here",
        "the identity provider gives this person no role here",
    ),
    "several_tenants": Code(
        403,
        "The identity provider gives the person roles in several tenants",
        "the identity provider gives this person roles in several tenants; one is needed",
    ),
    "provider_unavailable": Code(
        503,
        "The identity provider does not answer",
        "the identity provider does not answer; try again",
    ),
    "rate_limited": Code(
        429,
        "The key has used up its requests for now",
        "this key may ask 30000 times in 60 s (rate_limit_requests); again in 12 s",
        {
            "limit": {
                "setting": "rate_limit_requests",
                "unit": "requests",
                "allowed": 30000,
                "came": 30001,
            }
        },
    ),
    "too_many_uploads": Code(
        429,
        "Too many contents of this tenant are being registered",
        "4 contents of this tenant are being registered (tenant_uploads); send this one again when "
        "one of them is done",
        {"limit": {"setting": "tenant_uploads", "unit": "uploads", "allowed": 4, "came": 5}},
    ),
    "too_many_failed_reads": Code(
        429,
        "Too many reads of places failed for this tenant",
        "50 reads of places failed for this tenant within a day (place_failures); again in 3600 s",
        {"limit": {"setting": "place_failures", "unit": "failed reads", "allowed": 50}},
    ),
    "too_many_bodies": Code(
        429,
        "Too many large requests of this tenant are being worked on",
        "4 large requests of this tenant are being worked on (tenant_bodies); send this one again "
        "when one of them is done",
        {"limit": {"setting": "tenant_bodies", "unit": "bodies", "allowed": 4, "came": 5}},
    ),
    "too_many_streams": Code(
        429,
        "The key has as many event streams open as one may have",
        "200 event streams of this key are open (key_streams); send this one again when one of "
        "them is done",
        {
            "limit": {
                "setting": "key_streams",
                "unit": "event streams",
                "allowed": 200,
                "came": 201,
            }
        },
    ),
    # Fields
    "invalid_input": Code(
        422, "A field is not valid", "/privacy/epsilon: must be greater than 0", _POINTED
    ),
    "invalid_parameter": Code(
        422,
        "A parameter is not valid",
        "/query/page_size: must be at most 200",
        {"errors": [{"pointer": "/query/page_size", "detail": "must be at most 200"}]},
    ),
    "invalid_page_token": Code(
        422,
        "The page token is not valid here",
        "/query/page_token: not a page token that this service gave for this list",
        {
            "errors": [
                {
                    "pointer": "/query/page_token",
                    "detail": "not a page token that this service gave for this list",
                }
            ]
        },
    ),
    "idempotency_key_reused": Code(
        422,
        "The idempotency key was used with another body",
        "this Idempotency-Key was used with another body",
    ),
    "payload_too_large": Code(
        413,
        "The request is too large",
        "a request may have 32000000 bytes (json_body_bytes), this one has 40000000",
        {
            "limit": {
                "setting": "json_body_bytes",
                "unit": "bytes",
                "allowed": 32000000,
                "came": 40000000,
            }
        },
    ),
    "not_found": Code(404, "There is no such object", "there is no such job"),
    "method_not_allowed": Code(
        405, "Method not allowed", "PUT is not possible here; possible: GET, POST"
    ),
}
"""Of requests that cannot be read, of keys, and of fields."""
