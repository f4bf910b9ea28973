"""Objects of an S3 bucket, or of a service that is compatible with S3, read by s3fs (extra `s3`).

The operator's place fixes the bucket, the prefix of the names, the endpoint and the credentials: an
address chooses only the rest of a name. The driver itself retries if the service throttles or a
connection breaks; an answer that takes longer than `SILENT_SECONDS` is not waited for. Every object
must have the size, and at the end the ETag, with which it was listed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from discreet.storage.database import Impatience, Silent
from discreet.usecases.places.local import MOST_PARTS, ContentChanged, fits
from discreet.usecases.places.rules import (
    Address,
    BucketPlace,
    NothingThere,
    PlaceRefused,
    PlaceUnavailable,
)
from discreet.usecases.uploads import Upload

BLOCK_BYTES = 8 << 20
CONNECT_SECONDS, SILENT_SECONDS = 10.0, 60.0
"""The longest that a connection may take to open, and that a request may take with its retries."""
MOST_LOOKED_THROUGH = 100_000
"""The most names that are listed for one pattern."""
ATTEMPTS = 5
"""Attempts at one request: a service that throttles answers 503 `SlowDown`."""


def copy(
    place: BucketPlace, address: Address, upload: Upload, room: Callable[[int], None], until: float
) -> None:
    """Write the objects at this address to the upload, one part each, in the order of their names,
    until the monotonic clock reaches `until`. `room` is called with the bytes that will come, and
    raises if they are too many.

    Raises PlaceRefused, PlaceUnavailable or ContentChanged.
    """
    driver = _Driver(place)
    try:
        for name, size, etag in _listed(driver, address):
            room(size)
            for start in range(0, size, BLOCK_BYTES):
                if time.monotonic() > until:
                    raise PlaceUnavailable("reading the objects took too long")
                end = min(start + BLOCK_BYTES, size)
                part = driver.ask(partial(driver.files.cat_file, name, start=start, end=end))
                if len(part) != end - start:
                    raise PlaceUnavailable("an object was shorter than the object storage says")
                upload.write(part)
            after = driver.ask(partial(driver.files.info, name, refresh=True))
            if (after["size"], after.get("ETag")) != (size, etag):
                raise ContentChanged()
            upload.end_part()
    except FileNotFoundError as error:
        raise NothingThere(
            "there is no object of this name, or none that matches the pattern"
        ) from error
    finally:
        driver.close()


class _Driver:
    """s3fs for one place; its errors become PlaceUnavailable with the kind of error as its text."""

    def __init__(self, place: BucketPlace) -> None:
        try:
            import s3fs  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise PlaceUnavailable(
                "this installation cannot read s3:// (the extra `s3` is not installed)"
            ) from error
        path = {} if place.endpoint is None else {"s3": {"addressing_style": "path"}}
        retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
        patience = {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": SILENT_SECONDS,
            "retries": retries,
        }
        self.files: Any = s3fs.S3FileSystem(
            anon=place.anonymous,
            key=None if place.access_key is None else place.access_key.get_secret_value(),
            secret=None if place.secret_key is None else place.secret_key.get_secret_value(),
            endpoint_url=place.endpoint,
            client_kwargs={} if place.region is None else {"region_name": place.region},
            config_kwargs={**patience, **path},
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        self._impatience = Impatience("content-places")

    def ask(self, question: Callable[[], Any]) -> Any:
        """The driver's answer; only FileNotFoundError passes unchanged."""
        try:
            return self._impatience.within(SILENT_SECONDS, question)
        except FileNotFoundError:
            raise
        except Exception as error:
            if isinstance(error, PermissionError):
                raise PlaceUnavailable("the object storage does not let this service in") from error
            if isinstance(error, Silent):
                raise PlaceUnavailable(
                    f"the object storage said nothing for {SILENT_SECONDS:g} s"
                ) from error
            raise PlaceUnavailable(
                "the object storage does not answer, or with an error"
            ) from error

    def close(self) -> None:
        with suppress(Exception):
            session = getattr(self.files, "_s3", None)
            if session is not None:
                self.files.close_session(self.files.loop, session)


def _listed(driver: _Driver, address: Address) -> list[tuple[str, int, str | None]]:
    """Names, sizes and ETags of the objects, in the order of their names."""
    if not address.is_pattern:
        entry = driver.ask(
            lambda: driver.files.info("/".join((address.host, *address.segments)), refresh=True)
        )
        if entry["type"] != "file":
            raise FileNotFoundError
        return [(str(entry["name"]), int(entry["size"]), entry.get("ETag"))]
    chosen = []
    for entry in _Listing(driver, address.host).objects("", address.segments):
        chosen.append((f"{address.host}/{entry['Key']}", int(entry["Size"]), entry.get("ETag")))
        if len(chosen) > MOST_PARTS:
            raise PlaceRefused(f"a pattern of at most {MOST_PARTS} objects is needed")
    if not chosen:
        raise FileNotFoundError
    return sorted(chosen)


class _Listing:
    """Objects of a bucket that match a pattern, listed page by page: a bucket may have billions,
    and a pattern must not make this process hold all their names."""

    def __init__(self, driver: _Driver, bucket: str) -> None:
        self._driver, self._bucket = driver, bucket
        self._looked = 0

    def objects(self, root: str, segments: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """The listing's entries of objects whose names match the segments behind the prefix
        `root`."""
        first, rest = segments[0], segments[1:]
        plain = re.split("[*?]", first, maxsplit=1)[0]
        if rest and plain == first:
            yield from self.objects(f"{root}{first}/", rest)
            return
        for page in self._pages(root + plain):
            for entry in page.get("CommonPrefixes" if rest else "Contents", ()):
                name = (
                    str(entry["Prefix"])[len(root) : -1] if rest else str(entry["Key"])[len(root) :]
                )
                if not name or not fits(name, first):
                    continue
                if rest:
                    yield from self.objects(f"{root}{name}/", rest)
                else:
                    yield entry

    def _pages(self, prefix: str) -> Iterator[dict[str, Any]]:
        question: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix, "Delimiter": "/"}
        while True:
            page = self._driver.ask(
                partial(self._driver.files.call_s3, "list_objects_v2", **question)
            )
            self._looked += 1 + len(page.get("Contents", ())) + len(page.get("CommonPrefixes", ()))
            if self._looked > MOST_LOOKED_THROUGH:
                says = (
                    f"at most {MOST_LOOKED_THROUGH} names are searched for a pattern: a narrower "
                    "one is needed"
                )
                raise PlaceRefused(says)
            yield page
            if not page.get("IsTruncated") or not page.get("NextContinuationToken"):
                return
            question["ContinuationToken"] = page["NextContinuationToken"]
