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

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from discreet.errors import Unavailable
from discreet.problems.numbers import Frozen
from discreet.settings import Settings
from discreet.usecases.places.addresses import (
    BEGINNINGS,
    DATABASE,
    LONGEST_QUERY_ADDRESS,
    Address,
    NothingThere,
    PlaceRefused,
    parse,
)

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
