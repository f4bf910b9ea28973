"""Which places the operator allows, who may have datasets read from them, and to which place an
address belongs.

The setting `content_places` names a JSON file:

    {"places": [
      {"url": "file:///srv/exports/", "tenants": ["default"]},
      {"url": "https://data.example.org/daily/", "tenants": ["*"], "principals": ["ada"]},
      {"url": "s3://exports/daily/", "tenants": ["clinic"], "access_key": "…", "secret_key": "…"}]}

Without it no address is allowed. An address belongs to a place if the place's address is a prefix
of it, segment by segment, and no segment leads elsewhere. Whether something exists at an address is
told only within a place that the principal may use: all other addresses are refused in the same
words.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, StringConstraints, ValidationError, field_validator

from discreet.errors import InvalidInput, Unavailable
from discreet.problems.numbers import Frozen
from discreet.settings import Settings

POINTER = "/content_from"
LONGEST_ADDRESS = 2000
MOST_PLACES = 1000
FILE_BYTES = 1 << 20
"""The most bytes of the file of places."""
EVERYBODY = "*"
PATTERN = frozenset("*?")
"""Wildcards within a segment, in addresses of files and buckets."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_PORTS = {"https": 443}

Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class PlaceRefused(InvalidInput):
    """No content may be read from this address."""

    code = "place_refused"

    def __init__(self, why: str) -> None:
        super().__init__(why, pointer=POINTER)


class NothingThere(PlaceRefused):
    """The place may be read, and nothing is at this address."""


class PlaceUnavailable(Unavailable):
    """The place that holds the content does not answer; nothing was registered."""

    code = "place_unavailable"


class PlacesUnreadable(Unavailable):
    """The file of places cannot be read; nothing was registered."""

    code = "places_unreadable"


@dataclass(frozen=True)
class Address:
    """An address in its parts: scheme, host, and the decoded segments of its path."""

    scheme: str
    host: str
    """For `https` host and port, for `s3` the bucket, for `file` empty."""
    segments: tuple[str, ...]
    text: str
    """The address as it was given. It may contain a signature: it must not be shown or logged."""

    @property
    def hostname(self) -> str:
        return self.host.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    @property
    def is_pattern(self) -> bool:
        return self.scheme != "https" and any(PATTERN & set(segment) for segment in self.segments)


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


class WebPlace(Place):
    """Contents below an address of an HTTPS server."""

    SCHEME = "https"

    private: bool = Field(
        default=False, description="The server may be on loopback or in a private network"
    )
    authority: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authority that signs the server's certificate",
    )
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


KINDS: tuple[type[Place], ...] = (FolderPlace, WebPlace, BucketPlace)


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
        ) from error
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
        raise PlacesUnreadable(f"{where} needs a url that begins with file:///, https:// or s3://")
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


def parse(text: str) -> Address:
    """An address in its parts. PlaceRefused if it is not an address, or is ambiguous."""
    if len(text) > LONGEST_ADDRESS:
        raise PlaceRefused(f"an address of at most {LONGEST_ADDRESS} characters is needed")
    if not text.isascii() or any(letter <= " " or letter in '\\"<>^`{|}\x7f' for letter in text):
        raise PlaceRefused(
            "an address of printable ASCII is needed; write other letters percent-encoded or as "
            "punycode"
        )
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in {kind.SCHEME for kind in KINDS}:
        raise PlaceRefused("an address that begins with file:///, https:// or s3:// is needed")
    if "#" in rest:
        raise PlaceRefused("an address without fragment is needed")
    host, slash, path = rest.partition("/")
    if scheme == "https":
        path = path.partition("?")[0]
    if not slash:
        raise PlaceRefused("the address needs a path after the host or bucket")
    return Address(
        scheme, _host(scheme, host), tuple(_segment(one, scheme) for one in path.split("/")), text
    )


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
    if scheme == "https":
        try:
            found = urlsplit("https://" + host)
            port = str(found.port or _PORTS["https"])
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
            if scheme == "https"
            else "this is not the name of a bucket"
        )
    return f"{name}:{port}" if scheme == "https" else name


def _segment(written: str, scheme: str) -> str:
    """A segment of a path, decoded once. It must not be empty, lead elsewhere, or contain a
    separator of segments. Some servers decode twice, or read `..;` as `..`, so for `https` what
    would lead such a server elsewhere is refused too."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", written):
        raise PlaceRefused("in an address, two hexadecimal digits must follow each percent sign")
    try:
        segment = unquote(written, errors="strict")
    except UnicodeDecodeError:
        raise PlaceRefused("an address whose percent-encoded bytes are UTF-8 is needed") from None
    plain = segment.partition(";")[0] if scheme == "https" else segment
    separates = any(letter < " " or letter in "/\\\x7f" for letter in segment)
    if plain in ("", ".", "..") or separates or (scheme == "https" and "%" in segment):
        raise PlaceRefused(
            "an address without empty segments, without . and .., and without encoded separators "
            "is needed"
        )
    return segment


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
