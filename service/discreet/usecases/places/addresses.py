"""Addresses of contents, each of which can be read in one way alone.

    file:///srv/exports/2026/*.parquet
    https://data.example.org/daily/trips.csv
    s3://exports/daily/*/part-*.parquet
    postgresql://db.example.org/meters?query=SELECT%20*%20FROM%20trips
    postgresql://db.example.org/meters?named=trips

An address of a database holds an owner's query, or the name of one of the operator's: no parameter
of a connection, all of which are the operator's.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from discreet.errors import InvalidInput, Unavailable

POINTER = "/content_from"
DATABASE = "postgresql"
SCHEMES = ("file", "https", "s3", DATABASE)
BEGINNINGS = "file:///, https://, s3:// or postgresql://"
LONGEST_ADDRESS, LONGEST_QUERY_ADDRESS = 2000, 8000
"""In characters; the second one with a query, percent-encoded."""
PATTERN = frozenset("*?")
"""Wildcards within a segment, in addresses of files and buckets."""
QUERY, NAMED = "query", "named"
"""What an address of a database may ask for: an owner's query, or one of the operator's by name."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_PORTS = {"https": 443, DATABASE: 5432}


class PlaceRefused(InvalidInput):
    """No content may be read from this address."""

    code = "place_refused"

    def __init__(self, why: str) -> None:
        super().__init__(why, pointer=POINTER)


class NothingThere(PlaceRefused):
    """The place may be read, and nothing is at this address."""


class QueryRefused(InvalidInput):
    """The database does not run this query, or nothing can be read from its rows."""

    code = "query_refused"

    def __init__(self, why: str) -> None:
        super().__init__(why, pointer=POINTER)


class PlaceUnavailable(Unavailable):
    """The place that holds the content does not answer; nothing was registered."""

    code = "place_unavailable"

    @property
    def kind_of_cause(self) -> str | None:
        """Of what error it came: its type alone, as its text may contain an address or a key."""
        cause = self.__cause__
        return None if cause is None else f"{type(cause).__module__}.{type(cause).__qualname__}"


@dataclass(frozen=True)
class Address:
    """An address in its parts: scheme, host, and the decoded segments of its path."""

    scheme: str
    host: str
    """For `https` and `postgresql` host and port, for `s3` the bucket, for `file` empty."""
    segments: tuple[str, ...]
    """For `postgresql` the name of the database alone."""
    text: str
    """The address as it was given. It may contain a signature: it must not be shown or logged."""
    query: str = ""
    """For `postgresql`: SQL; empty where `named` is given."""
    named: str = ""
    """For `postgresql`: the name of one of the operator's queries."""

    @property
    def hostname(self) -> str:
        return self.host.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    @property
    def is_pattern(self) -> bool:
        return self.scheme in ("file", "s3") and any(
            PATTERN & set(segment) for segment in self.segments
        )


def parse(text: str) -> Address:
    """An address in its parts. PlaceRefused if it is not an address, or is ambiguous."""
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    most = LONGEST_QUERY_ADDRESS if scheme == DATABASE else LONGEST_ADDRESS
    if len(text) > most:
        raise PlaceRefused(f"an address of at most {most} characters is needed")
    if not text.isascii() or any(letter <= " " or letter in '\\"<>^`{|}\x7f' for letter in text):
        raise PlaceRefused(
            "an address of printable ASCII is needed; write other letters percent-encoded or as "
            "punycode"
        )
    if not separator or scheme not in SCHEMES:
        raise PlaceRefused(f"an address that begins with {BEGINNINGS} is needed")
    if "#" in rest:
        raise PlaceRefused("an address without fragment is needed")
    asked = {}
    if scheme == DATABASE:
        rest, mark, asks = rest.partition("?")
        asked = _asked(asks if mark else "")
    host, slash, path = rest.partition("/")
    if scheme == "https":
        path = path.partition("?")[0]
    if not slash:
        raise PlaceRefused("the address needs a path after the host or bucket")
    segments = tuple(_segment(one, scheme) for one in path.split("/"))
    if scheme == DATABASE and len(segments) > 1:
        raise PlaceRefused("the name of one database is needed after the host")
    return Address(scheme, _host(scheme, host), segments, text, **asked)


def _asked(written: str) -> dict[str, str]:
    """What stands behind the question mark of a database's address: `query` or `named`, once."""
    name, _, value = written.partition("=")
    if name not in (QUERY, NAMED) or not value or "&" in value:
        raise PlaceRefused(
            "the address of a database ends with ?query= and one SELECT, or ?named= and the name "
            "of a query of the operator's, and nothing else; & is written %26"
        )
    if "+" in value:  # a space in forms, a plus everywhere else
        raise PlaceRefused("in a query, write %20 for a space and %2B for a plus")
    text = _decoded(value)
    if not text.strip() or any(letter < " " and letter not in "\t\n\r" for letter in text):
        raise PlaceRefused("a query is a text without control characters")
    return {name: text}


def _host(scheme: str, host: str) -> str:
    if scheme == "file":
        if host not in ("", "localhost"):
            raise PlaceRefused(
                "file:///… names files of the service's own machine, so it has no host"
            )
        return ""
    if "@" in host:
        raise PlaceRefused(
            "an address without user and password is needed: the operator's file of places holds "
            "them"
        )
    host = host.lower()
    name, port = host, ""
    if scheme in _PORTS:
        try:
            found = urlsplit("https://" + host)
            port = str(found.port or _PORTS[scheme])
            name = host if found.port is None else host.rpartition(":")[0]
            # A query that begins before the first slash would make the path another one.
            if found.netloc != host:
                raise ValueError
        except ValueError:
            raise PlaceRefused("this is not the name of a host") from None
        if name.startswith("["):
            try:
                name = f"[{ipaddress.IPv6Address(name[1:-1]).compressed}]"
            except ValueError:
                raise PlaceRefused("this is not the name of a host") from None
    if not _HOST.fullmatch(name):
        raise PlaceRefused(
            "this is not the name of a host"
            if scheme in _PORTS
            else "this is not the name of a bucket"
        )
    return f"{name}:{port}" if scheme in _PORTS else name


def _segment(written: str, scheme: str) -> str:
    """A segment of a path, decoded once. It must not be empty, lead elsewhere, or contain a
    separator of segments. Some servers decode twice, or read `..;` as `..`, so for `https` what
    would lead such a server elsewhere is refused too."""
    segment = _decoded(written)
    plain = segment.partition(";")[0] if scheme == "https" else segment
    separates = any(letter < " " or letter in "/\\\x7f" for letter in segment)
    if plain in ("", ".", "..") or separates or (scheme == "https" and "%" in segment):
        raise PlaceRefused(
            "an address without empty segments, without . and .., and without encoded separators "
            "is needed"
        )
    return segment


def _decoded(written: str) -> str:
    """Percent-decoded, once."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", written):
        raise PlaceRefused("in an address, two hexadecimal digits must follow each percent sign")
    try:
        return unquote(written, errors="strict")
    except UnicodeDecodeError:
        raise PlaceRefused("an address whose percent-encoded bytes are UTF-8 is needed") from None
