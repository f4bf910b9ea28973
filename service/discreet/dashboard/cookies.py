"""Cookies that scripts cannot read and that browsers send to this server only.

Over TLS they are `__Host-…`: a browser takes such a name only with `Secure`, `Path=/` and no
`Domain`, so neither a page of a sister domain nor one without TLS can plant one. Without TLS, on
loopback above all, they have plain names: some browsers refuse `Secure` there, and a `__Host-`
cookie without it is refused by all browsers.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response

from discreet.web.security import HOST_PREFIX as PREFIX


def over_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, to this process or to a proxy before it that keeps `Host`.

    Forms show it by the browser's `Origin`. All requests show it by `Sec-Fetch-Site`, which
    browsers send only over TLS and to loopback.
    """
    origin = urlsplit(request.headers.get("origin", ""))
    # The scheme of another site's origin says nothing about this one.
    own = origin.netloc == request.headers.get("host", "")
    if request.url.scheme == "https" or (own and origin.scheme == "https"):
        return True
    return "sec-fetch-site" in request.headers and not _is_loopback(request.url.hostname or "")


def read(request: Request, name: str) -> str:
    """The cookie's value, empty without one. Over TLS only the `__Host-` cookie counts."""
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
    """Set the cookie, until the browser closes or for `age` seconds. `from_elsewhere`: browsers
    also send it when another site, such as an identity provider, leads here (SameSite=Lax)."""
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
