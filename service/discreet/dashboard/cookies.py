"""Cookies that no script reads, and that browsers send to this server's own pages only.

Over TLS they are `__Host-…`: a browser takes such a name only with `Secure`, `Path=/` and no
`Domain`, so neither a page of a sister domain nor one without TLS can plant one. Without TLS, on
loopback above all, they have plain names: some browsers refuse `Secure` there, and a `__Host-`
cookie without it is refused by all.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response

PREFIX = "__Host-"


def over_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, to this process or to a proxy before it that keeps `Host`.

    The browser's own `Origin` tells, which comes with forms. So does `Sec-Fetch-Site`, which comes
    with everything, but only over TLS and to loopback.
    """
    origin = urlsplit(request.headers.get("origin", ""))
    own = origin.netloc == request.headers.get(
        "host", ""
    )  # what another site says of itself tells nothing of this one
    if request.url.scheme == "https" or (own and origin.scheme == "https"):
        return True
    return "sec-fetch-site" in request.headers and not _is_loopback(request.url.hostname or "")


def read(request: Request, name: str) -> str:
    """The cookie's value, empty without one. Over TLS only what this server has set there
    counts."""
    guarded = request.cookies.get(PREFIX + name)
    if guarded is not None:
        return guarded
    return "" if over_tls(request) else request.cookies.get(name, "")


def put(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    age: int | None = None,
    from_elsewhere: bool = False,
) -> None:
    """Set the cookie, until the browser closes or for `age` seconds. `from_elsewhere`: it also
    comes when a page of another site leads here, as an identity provider's does (SameSite=Lax)."""
    secure = over_tls(request)
    response.set_cookie(
        PREFIX + name if secure else name,
        value,
        max_age=age,
        path="/",
        httponly=True,
        samesite="lax" if from_elsewhere else "strict",
        secure=secure,
    )


def drop(request: Request, response: Response, name: str) -> None:
    """Remove the cookie under both of its names."""
    response.delete_cookie(name, path="/", httponly=True, samesite="strict")
    if over_tls(request):
        response.delete_cookie(
            PREFIX + name, path="/", httponly=True, samesite="strict", secure=True
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
