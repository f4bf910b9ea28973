"""Long arrays, validated in pieces: pydantic collects every error of an array, and a million of
them take gigabytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import (
    CoreSchema,
    InitErrorDetails,
    PydanticCustomError,
    PydanticKnownError,
    core_schema,
)

from discreet.intake.field_issues import ALIKE, MOST_COUNTED, MOST_ISSUES

PIECE_ITEMS = 500
"""Items that one call of pydantic validates: each call is short, so other threads get their
turn."""
PIECE_MEMBERS = 5000
"""Members of these items, each of which may be a mistake, and an error takes a kilobyte. A
larger item is a piece of its own."""


@dataclass(frozen=True)
class InPieces:
    """Marks the type of an array that may be long: `Annotated[tuple[Link, ...],
    InPieces(max_length=1000)]`.

    The value is the same as without the mark. The length is checked first. Items with the same
    errors are reported once with their count; after `MOST_ISSUES` different errors, or
    `MOST_COUNTED` bad items, the rest is not looked at.
    """

    min_length: int = 0
    max_length: int | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        array = handler(source)
        if "min_length" in array or "max_length" in array:
            raise TypeError("limits of an array that is validated in pieces are those of InPieces")
        return core_schema.no_info_wrap_validator_function(self._validated, array)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler(schema)
        limits = {"maxItems": self.max_length, "minItems": self.min_length or None}
        return found | {name: limit for name, limit in limits.items() if limit is not None}

    def _validated(self, value: Any, validate: Callable[[Any], Any]) -> Any:
        if not isinstance(value, list | tuple):
            return validate(value)
        size = len(value)
        if size < self.min_length:
            context = {"field_type": "Array", "min_length": self.min_length, "actual_length": size}
            raise PydanticKnownError("too_short", context)
        if self.max_length is not None and size > self.max_length:
            raise PydanticKnownError(
                "too_long",
                {"field_type": "Array", "max_length": self.max_length, "actual_length": size},
            )
        mistakes = Mistakes()
        parts: list[Any] = []
        for first, end in _pieces(value):
            try:
                parts.append(validate(value[first:end]))
            except ValidationError as error:
                mistakes.add(error, first)
            if mistakes:
                parts.clear()
            if mistakes.full:
                break
        if mistakes:
            raise mistakes.error()
        return (
            parts[0] if len(parts) == 1 else type(parts[0])(item for part in parts for item in part)
        )


def _pieces(value: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Where pieces begin and end; an empty array is one piece."""
    first = members = 0
    for place, item in enumerate(value):
        own = len(item) if isinstance(item, Mapping | list) else 1
        if place > first and (place - first >= PIECE_ITEMS or members + own > PIECE_MEMBERS):
            yield first, place
            first, members = place, 0
        members += own
    yield first, len(value)


@dataclass
class _Alike:
    """An error of an item and those like it: their count, and the place of the last."""

    error: Mapping[str, Any]
    location: tuple[Any, ...]
    count: int = 0
    last: tuple[Any, ...] = ()

    def take(self, error: Mapping[str, Any], location: tuple[Any, ...]) -> None:
        more, end = error.get("ctx", {}).get(ALIKE, (0, ()))
        self.count += 1 + more
        self.last = (*location[: len(location) - len(end)], *end)


@dataclass
class Mistakes:
    """What is wrong with the items of an array, piece by piece."""

    _found: dict[object, list[_Alike]] = field(default_factory=dict)
    _counted: int = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def full(self) -> bool:
        """Whether the remaining items need not be looked at."""
        return self._counted >= MOST_COUNTED or len(self._found) > MOST_ISSUES

    def add(self, error: ValidationError, first: int) -> list[int]:
        """The errors of a piece whose first item has the position `first` in the array. Returns
        their positions."""
        items: dict[int, list[tuple[Mapping[str, Any], tuple[Any, ...]]]] = {}
        for one in error.errors(include_url=False):
            item, *below = one["loc"]
            items.setdefault(int(item), []).append((one, (first + int(item), *below)))
        for errors in items.values():
            self._counted += 1
            signature = tuple(
                (*_fields(location), one["type"], _message(one)) for one, location in errors
            )
            known = self._found.setdefault(signature, [_Alike(*one) for one in errors])
            for alike, (one_error, location) in zip(known, errors, strict=True):
                alike.take(one_error, location)
        return [first + item for item in items]

    def errors(self) -> Iterator[dict[str, Any]]:
        """The errors as pydantic gives them; one that stands for others too says so in its
        context: how many more, and the end of the last one's location."""
        for alike in (one for errors in self._found.values() for one in errors):
            context = dict(alike.error.get("ctx", {}))
            if alike.count > 1:
                context[ALIKE] = (alike.count - 1, alike.last)
            plain = {name: alike.error[name] for name in ("type", "msg", "input")}
            yield {**plain, "loc": alike.location, "ctx": context}

    def error(self) -> ValidationError:
        lines = [
            InitErrorDetails(
                type=PydanticCustomError(one["type"], "{said}", {**one["ctx"], "said": one["msg"]}),
                loc=one["loc"],
                input=one["input"],
            )
            for one in self.errors()
        ]
        return ValidationError.from_exception_data("items", lines)


def _fields(location: Sequence[Any]) -> Iterator[Any]:
    """A location, the same for every position of arrays."""
    return (None if isinstance(part, int) else part for part in location)


def _message(error: Mapping[str, Any]) -> str | None:
    """The message, which tells mistakes of our own validators apart; the library's add nothing
    to the type."""
    return str(error["msg"]) if error["type"] in ("value_error", "assertion_error") else None
