"""Which places the operator allows, who may have datasets read from them, and to which place an
address belongs.

The setting `content_places` names a JSON file:

    {"places": [
      {"url": "file:///srv/exports/", "tenants": ["default"]},
      {"url": "https://data.example.org/daily/", "tenants": ["*"], "principals": ["ada"]},
      {"url": "s3://exports/daily/", "tenants": ["clinic"], "access_key": "…", "secret_key": "…"},
      {"url": "postgresql://db.example.org/meters", "tenants": ["clinic"], "user": "reader",
       "password": "…"}]}

Without it no address is allowed. An address belongs to a place if the place's address is a prefix
of it, segment by segment, and no segment leads elsewhere; to a database, if it names that one.
Whether something exists at an address is told only within a place that the principal may use: all
other addresses are refused in the same words.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import unquote, urlsplit

import anyio.to_thread
from pydantic import (
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from discreet.errors import InvalidInput, Unavailable
from discreet.problems.numbers import Frozen
from discreet.settings import Settings
from discreet.storage import tenants
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services

# Addresses ----------------------------------------------------------------------------------------
# Addresses of contents, each of which can be read in one way alone.
#
# file:///srv/exports/2026/*.parquet
#     https://data.example.org/daily/trips.csv
#     s3://exports/daily/*/part-*.parquet
#     postgresql://db.example.org/meters?query=SELECT%20*%20FROM%20trips
#     postgresql://db.example.org/meters?named=trips
#
# An address of a database holds an owner's query, or the name of one of the operator's: no
# parameter of a connection, all of which are the operator's.

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


# Rules --------------------------------------------------------------------------------------------

MOST_PLACES = 1000
FILE_BYTES = 1 << 20
"""The most bytes of the file of places."""
EVERYBODY = "*"
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


Query = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_QUERY_ADDRESS)]


class PlacesUnreadable(Unavailable):
    """The file of places cannot be read; nothing was registered."""

    code = "places_unreadable"


@dataclass(frozen=True)
class Located:
    """A content that is to be fetched: the address as an owner gave it."""

    text: str
    stays: bool = False
    """Whether it stays there, so that each job fetches it again."""


class Place(Frozen):
    """Contents below an address, and who may have them read."""

    SCHEME: ClassVar[str]

    url: Word = Field(description="Prefix of every address of this place; ends with `/`")
    tenants: Annotated[tuple[Word, ...], Field(min_length=1)] = Field(
        description="Names or ids of tenants; `*`: every tenant"
    )
    principals: tuple[Word, ...] | None = Field(
        default=None, description="Only these principals of the tenants; absent: every owner"
    )

    @field_validator("url")
    @classmethod
    def _folder(cls, url: str) -> str:
        try:
            found = _folder_of(url) if url.endswith("/") else None
        except PlaceRefused as refused:
            raise ValueError(refused.issues[0].detail) from None
        if found is None or found.is_pattern or "?" in url:
            raise ValueError("an address that ends with / and holds no * and no ? is needed")
        return url

    @property
    def address(self) -> Address:
        return _folder_of(self.url)

    @property
    def has_secrets(self) -> bool:
        return any(isinstance(value, SecretStr) for _, value in self)

    def lets(self, tenant: Sequence[str], principal: str) -> bool:
        """Whether a principal of this tenant (its id and name) may have contents read from here."""
        whose = bool({EVERYBODY, *tenant} & set(self.tenants))
        return whose and (self.principals is None or principal in self.principals)

    def holds(self, address: Address) -> bool:
        own = self.address
        where = (own.scheme, own.host) == (address.scheme, address.host)
        return (
            where
            and len(address.segments) > len(own.segments)
            and address.segments[: len(own.segments)] == own.segments
        )


class FolderPlace(Place):
    """Files below a folder of this machine."""

    SCHEME = "file"


class ServerPlace(Place):
    """Contents of a server that is reached by a name, over TLS."""

    private: bool = Field(
        default=False, description="The server may be on loopback or in a private network"
    )
    authority: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authority that signs the server's certificate",
    )


class WebPlace(ServerPlace):
    """Contents below an address of an HTTPS server."""

    SCHEME = "https"

    authorization: SecretStr | None = Field(
        default=None, description="Sent to this server alone, as the header Authorization"
    )


class BucketPlace(Place):
    """Objects with a prefix in an S3 bucket, or a bucket of a service compatible with S3."""

    SCHEME = "s3"

    endpoint: Word | None = Field(
        default=None, description="https:// address of the service; absent: AWS"
    )
    region: Word | None = None
    access_key: SecretStr | None = Field(
        default=None, description="Absent: the credentials in the service's environment"
    )
    secret_key: SecretStr | None = None
    anonymous: bool = Field(default=False, description="Send requests without credentials")


class DatabasePlace(ServerPlace):
    """Rows that a query finds in a PostgreSQL database."""

    SCHEME = DATABASE

    user: Word = Field(description="A role that may read what owners may, and do nothing else")
    password: SecretStr | None = None
    certificate: Path | None = Field(
        default=None, description="The client's certificate (PEM), where the server asks for one"
    )
    key: Path | None = Field(
        default=None, description="Its private key (PEM), which others may not read"
    )
    queries: Mapping[Word, Query] | None = Field(
        default=None,
        description="SELECTs by their names: only these may be asked for; absent: owners write "
        "their own",
    )
    seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=300,
        description="The most that the database may take to the first rows, and then for each "
        "some thousand more",
    )

    @field_validator("url")
    @classmethod
    def _folder(cls, url: str) -> str:
        try:
            if "?" not in url:
                _database_of(url)
                return url
        except PlaceRefused as refused:
            raise ValueError(refused.issues[0].detail) from None
        raise ValueError("an address without query is needed")

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key are given together")
        return self

    @property
    def address(self) -> Address:
        return _database_of(self.url)

    def holds(self, address: Address) -> bool:
        own = self.address
        return (own.scheme, own.host, own.segments) == (
            address.scheme,
            address.host,
            address.segments,
        )

    def query_of(self, address: Address) -> str:
        """The SQL that an address of this place stands for. PlaceRefused if it may not be asked
        for."""
        if self.queries is None:
            if address.named:
                raise NothingThere("the operator has given no query of this name")
            return address.query
        if not address.named:
            raise PlaceRefused(
                "of this database only queries that the operator wrote may be read, by ?named="
            )
        if address.named not in self.queries:
            raise NothingThere("the operator has given no query of this name")
        return self.queries[address.named]


KINDS: tuple[type[Place], ...] = (FolderPlace, WebPlace, BucketPlace, DatabasePlace)


def read_places(settings: Settings) -> list[Place]:
    """The places in the operator's file. PlacesUnreadable says what is wrong with it, without any
    value from it."""
    path = settings.content_places
    if path is None:
        return []
    try:
        with path.open("rb") as file:
            closed = not stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            text = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise PlacesUnreadable(
            f"the file of places (DISCREET_CONTENT_PLACES): {error.strerror}"
        ) from None
    try:
        whole = json.loads(text)
        entries = (
            whole["places"] if isinstance(whole, dict) and whole.keys() == {"places"} else None
        )
        if len(text) > FILE_BYTES or not isinstance(entries, list) or len(entries) > MOST_PLACES:
            raise ValueError
    except ValueError:
        says = (
            'the file of places (DISCREET_CONTENT_PLACES) is not {"places": [{"url": …, '
            '"tenants": […]}, …]}'
        )
        raise PlacesUnreadable(says) from None
    places = [_place(number, entry) for number, entry in enumerate(entries)]
    if not closed and any(place.has_secrets for place in places):
        raise PlacesUnreadable(
            "the file of places (DISCREET_CONTENT_PLACES) holds secrets and others may read it: "
            "chmod 600"
        )
    return places


def _place(number: int, entry: Any) -> Place:
    where = f"the file of places (DISCREET_CONTENT_PLACES): place {number}"
    scheme = str(entry.get("url")).partition(":")[0].lower() if isinstance(entry, dict) else ""
    kind = next((kind for kind in KINDS if scheme == kind.SCHEME), None)
    if kind is None:
        raise PlacesUnreadable(f"{where} needs a url that begins with {BEGINNINGS}")
    try:
        return kind.model_validate_json(json.dumps(entry))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = "/".join(map(str, first["loc"]))
        raise PlacesUnreadable(f"{where}, {field}: {first['msg']}") from None


def _folder_of(url: str) -> Address:
    """The address of a folder, which ends with a slash."""
    inside = parse(url + "x")
    return replace(inside, segments=inside.segments[:-1])


def _database_of(url: str) -> Address:
    return replace(parse(f"{url}?named=x"), named="")


def place_of(
    address: Address, places: Sequence[Place], tenant: Sequence[str], principal: str
) -> Place:
    """The narrowest place to which an address belongs, of those that the principal may use;
    PlaceRefused if there is none."""
    found = [place for place in places if place.lets(tenant, principal) and place.holds(address)]
    if not found:
        raise PlaceRefused(
            "no content is read from this address: the operator decides which places may be read "
            "and by whom, and it is in none of yours (DISCREET_CONTENT_PLACES)"
        )
    return max(found, key=lambda place: len(place.address.segments))


# Allowed ------------------------------------------------------------------------------------------
# The places that a principal may have contents read from, for whoever asks before giving an
# address.


async def addresses(services: Services, principal: Principal) -> list[str]:
    """What addresses that this owner may give begin with, in the order of the operator's file.
    PlacesUnreadable if that cannot be read."""
    require(principal, "owner")
    places = await anyio.to_thread.run_sync(read_places, services.settings)
    if not places:
        return []
    async with services.database.transaction(principal.tenant_id) as connection:
        name = await tenants.name_of(connection, principal.tenant_id)
    whose = (principal.tenant_id, *(() if name is None else (name,)))
    return [place.url for place in places if place.lets(whose, principal.name)]
