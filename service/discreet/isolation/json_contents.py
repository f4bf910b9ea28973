"""Uploaded JSON becomes content while it is read: its long arrays are validated and packed into
columns in pieces."""

from __future__ import annotations

from functools import cache
from typing import Any, BinaryIO

from discreet.errors import InvalidInput
from discreet.isolation.blocks import Block
from discreet.isolation.rows import Rows

JSON_MEMORY, JSON_LEAST_MEMORY = 6, 128 << 20
"""Bytes of memory that a byte of JSON may take, and that any text may."""


def json_bytes(size: int) -> int:
    """The memory that reading a JSON text of so many bytes may take, beyond what a child begins
    with."""
    return JSON_MEMORY * size + JSON_LEAST_MEMORY


def read_json(kind: Any, public: Any, file: BinaryIO, block: Block | None = None) -> Any:
    """The content of a JSON text, whose long arrays become columns while they are read; for a
    `block`, after its dates were checked."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    from discreet.intake.field_issues import issues_of  # noqa: PLC0415
    from discreet.intake.strict_json import PART_BYTES, Parser  # noqa: PLC0415

    annotation: Any = kind.model_fields["content"].annotation
    adapter = TypeAdapter[Any](annotation)
    rows = {name: Rows(kind, name, item, block) for name, item in kind.ROWS.items()}
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
        raise InvalidInput(issues_of(placed, {"content": value}, _schema(kind)))
    if block is not None:
        block.check()
    if not rows:
        return kind.read_rows(public, content)
    return kind.read_packed(
        public,
        {name: taken.packed() for name, taken in rows.items() if value.get(name) is not None},
    )


@cache
def _schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a kind's registrations, made before the walls: it takes longer than most
    files."""
    made: dict[str, Any] = kind.model_json_schema()
    return made
