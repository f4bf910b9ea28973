"""Uploaded JSON becomes content while it is read: its long arrays are validated and packed into columns in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from discreet.errors import InvalidInput

JSON_MEMORY, JSON_LEAST_MEMORY = 6, 128 << 20
"""Bytes of memory that a byte of JSON may take, and that any text may."""


def json_bytes(size: int) -> int:
    """The memory that reading a JSON text of so many bytes may take, beyond what a child begins with."""
    return JSON_MEMORY * size + JSON_LEAST_MEMORY


def read_json(kind: Any, public: Any, file: BinaryIO) -> Any:
    """The content of a JSON text, whose long arrays become columns while they are read."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    from discreet.intake.field_issues import issues_of  # noqa: PLC0415
    from discreet.intake.strict_json import PART_BYTES, Parser  # noqa: PLC0415

    annotation: Any = kind.model_fields["content"].annotation
    adapter = TypeAdapter[Any](annotation)
    rows = {name: Rows(kind, name, item) for name, item in kind.ROWS.items()}
    parser = Parser({(name,): taken.take for name, taken in rows.items()})
    try:
        while part := file.read(PART_BYTES):
            parser.feed(part)
        value = parser.close()
    except InvalidInput as error:
        raise error.under("/content") from None
    errors: list[Any] = []
    content = None
    try:
        content = adapter.validate_python(value)
    except ValidationError as error:
        errors += error.errors(include_url=False)
    for name, taken in rows.items():
        if taken.wrong:
            value[name] = taken.wrong  # where the pointers lead
            errors += ({**error, "loc": (name, *error["loc"])} for error in taken.mistakes.errors())
    if errors:  # as of the whole body: sentences name places too
        placed = ({**error, "loc": ("content", *error["loc"])} for error in errors)
        raise InvalidInput(issues_of(placed, {"content": value}, kind.model_json_schema()))
    if not rows:
        return kind.read_rows(public, content)
    return kind.read_packed(
        public, {name: taken.packed() for name, taken in rows.items() if value.get(name) is not None}
    )


class Rows:
    """Items of a long array as they come: validated, and packed into columns."""

    def __init__(self, kind: Any, name: str, item: Any) -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415

        from discreet.intake.items import Mistakes  # noqa: PLC0415

        self.mistakes = Mistakes()
        self.wrong: dict[int, Any] = {}
        """Items in which there are mistakes, by their position."""
        self._kind, self._name = kind, name
        self._adapter: Any = TypeAdapter(list[item])
        self._columns: dict[str, Any] = {}
        self._kinds: dict[str, Any] = {}

    def take(self, items: list[Any], first: int) -> None:
        from pydantic import ValidationError  # noqa: PLC0415

        from discreet.intake.items import PIECE_ITEMS  # noqa: PLC0415

        for start in range(0, len(items), PIECE_ITEMS):
            if self.mistakes.full:
                return
            piece = items[start : start + PIECE_ITEMS]
            try:
                self._put(self._kind.pack(self._name, self._adapter.validate_python(piece)))
            except ValidationError as error:
                for place in self.mistakes.add(error, first + start):
                    self.wrong[place] = items[place - first]

    def packed(self) -> dict[str, Any]:
        """The columns of all items."""
        import numpy as np  # noqa: PLC0415

        if not self._columns:
            self._put(self._kind.pack(self._name, []))
        return {
            name: column if isinstance(column, np.ndarray) else np.frombuffer(column, dtype=self._kinds[name])
            for name, column in ((name, self._whole(name)) for name in list(self._columns))
        }

    def _put(self, packed: Mapping[str, Any]) -> None:
        for name, part in packed.items():
            self._kinds[name] = part.dtype
            if part.dtype == object:
                self._columns.setdefault(name, []).extend(part)
            else:
                self._columns.setdefault(name, bytearray()).extend(part.tobytes())

    def _whole(self, name: str) -> Any:
        import numpy as np  # noqa: PLC0415

        column = self._columns.pop(name)
        return np.fromiter(column, dtype=object, count=len(column)) if isinstance(column, list) else column
