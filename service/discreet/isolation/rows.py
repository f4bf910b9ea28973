"""Rows of a long JSON array as they are read: validated in pieces, and packed into columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.isolation.blocks import Block


class Rows:
    """Collects the items of one array as they arrive."""

    def __init__(self, kind: Any, name: str, item: Any, block: Block | None = None) -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415

        from discreet.intake.items import Mistakes  # noqa: PLC0415

        self.mistakes = Mistakes()
        self.wrong: dict[int, Any] = {}
        """Items in which there are mistakes, by their position."""
        self._kind, self._name, self._block = kind, name, block
        self._adapter: Any = TypeAdapter(list[item])
        self._columns: dict[str, Any] = {}
        self._kinds: dict[str, Any] = {}

    def take(self, items: list[Any], first: int) -> None:
        from pydantic import ValidationError  # noqa: PLC0415

        from discreet.intake.items import PIECE_ITEMS  # noqa: PLC0415

        if self._block is not None:
            items = self._block.items(items, first, f"/content/{self._name}")
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
            name: column
            if isinstance(column, np.ndarray)
            else np.frombuffer(column, dtype=self._kinds[name])
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
        return (
            np.fromiter(column, dtype=object, count=len(column))
            if isinstance(column, list)
            else column
        )
