"""Records of a block: each record's date is checked to belong to the block and then dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.errors import FieldIssue, InvalidInput

DATE = "date"
MOST_ISSUES = 20
LENGTHS = {"day": 10, "month": 7}
"""Of the text that begins a date and names its block."""
_TIME = r"([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?"
BEHIND = {"day": re.compile(_TIME, re.ASCII), "month": re.compile(r"-\d{2}" + _TIME, re.ASCII)}
"""What stands behind it: nothing or a time of the day, or the day. A zone is none of it: with one
the same moment is of another day where one is, so that it would lie in two blocks."""


def any_record(content: Mapping[str, Any]) -> bool:
    """Whether there is a record in a content. (Starts of records have a first entry where there is
    none.)"""
    return any(len(array) > 1 if name == "start" else len(array) for name, array in content.items())


@dataclass
class Block:
    """A day or month, and what of the records that came was not of it."""

    by: str
    name: str
    issues: list[FieldIssue] = field(default_factory=list)

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> Block | None:
        """The block whose dates are checked; None where it has a label, or it is no block that is
        read."""
        given = job.get("block")
        return None if given is None or given["by"] == "label" else cls(given["by"], given["name"])

    def rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches of a table without their dates. InvalidInput with the rows that are of other
        blocks."""
        first = 0
        for batch in batches:
            yield self._without(batch, first)
            first += batch.num_rows
        self.check()

    def plain(self, table: Any) -> Any:
        """A part of a table without its dates, of which each is looked at once. InvalidInput, which
        names no row, where one is not of the block."""
        import pyarrow as pa  # noqa: PLC0415

        dates = table.column(DATE)
        if pa.types.is_timestamp(dates.type):
            dates = dates.cast(pa.timestamp("s"), safe=False).cast(pa.date32(), safe=False)
        seen = Block(self.by, self.name)
        for value in dates.unique().to_pylist():
            seen._look(value if isinstance(value, str | None) else value.isoformat(), DATE)
        seen.check()
        return table.drop_columns([DATE])

    def schema(self, schema: Any) -> Any:
        """The schema without the dates. InvalidInput where there are none, or none that say a
        day."""
        import pyarrow as pa  # noqa: PLC0415

        place = schema.get_field_index(DATE)
        if place < 0:
            says = f"a column `{DATE}` is needed: it says of every record of which {self.by} it is"
            raise InvalidInput(says, pointer="/content")
        kind = schema.field(place).type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            says = (
                f"column `{DATE}`: a moment of a zone is in a day by where one is; give the day "
                "itself, 2026-10-01"
            )
            raise InvalidInput(says, pointer="/content")
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind) or _is_text(kind)):
            says = f"column `{DATE}` must hold dates such as 2026-10-01, not {kind}"
            raise InvalidInput(says, pointer="/content")
        return schema.remove(place)

    def items(self, items: list[Any], first: int, prefix: str) -> list[Any]:
        """Rows of JSON without their dates; what is no object is left to who validates it."""
        found = []
        for place, item in enumerate(items, start=first):
            if isinstance(item, dict):
                self._look(item.get(DATE), f"{prefix}/{place}/{DATE}")
                found.append({name: value for name, value in item.items() if name != DATE})
            else:
                found.append(item)
        return found

    def check(self) -> None:
        """InvalidInput with what was found; the same mistake of several records is said once."""
        if not self.issues:
            return
        alike: dict[str, list[str]] = {}
        for issue in self.issues:
            alike.setdefault(issue.detail, []).append(issue.pointer)
        least = "at least " if len(self.issues) == MOST_ISSUES else ""
        raise InvalidInput(
            [
                FieldIssue(
                    pointers[0],
                    detail
                    + (
                        f" (and {least}{len(pointers) - 1} more like this, up to {pointers[-1]})"
                        if len(pointers) > 1
                        else ""
                    ),
                )
                for detail, pointers in alike.items()
            ]
        )

    def _without(self, batch: Any, first: int) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        table = pa.Table.from_batches([batch])
        dates = table.column(DATE)
        if pa.types.is_timestamp(dates.type):
            dates = dates.cast(pa.timestamp("s"), safe=False)
        for place, value in enumerate(dates.to_pylist(), start=first):
            self._look(
                value if isinstance(value, str | None) else value.isoformat(),
                f"/content/{place}/{DATE}",
            )
            if len(self.issues) == MOST_ISSUES:
                break
        self.check()
        rest = table.drop_columns([DATE]).combine_chunks().to_batches()
        return (
            rest[0]
            if rest
            else batch.slice(0, 0).select([n for n in batch.schema.names if n != DATE])
        )

    def _look(self, text: Any, pointer: str) -> None:
        if len(self.issues) == MOST_ISSUES:
            return
        length = LENGTHS[self.by]
        if not isinstance(text, str):
            self.issues.append(FieldIssue(pointer, "every record needs a date such as 2026-10-01"))
        elif text[:length] == self.name and BEHIND[self.by].fullmatch(text, length) is None:
            says = (
                "a day such as 2026-10-01, or a moment of it without a zone, is needed; found "
                f"{text[:40]!r}"
            )
            self.issues.append(FieldIssue(pointer, says))
        elif text[:length] != self.name:
            says = (
                f"{text[:40]!r} is not of block {self.name}: a record is registered in the "
                "block of its own date"
            )
            self.issues.append(FieldIssue(pointer, says))


def _is_text(kind: Any) -> bool:
    """Whether a column holds texts in any of Arrow's ways; pandas 3 writes large_string, and its
    categories are a dictionary."""
    import pyarrow as pa  # noqa: PLC0415

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(inner)
        or pa.types.is_large_string(inner)
        or pa.types.is_string_view(inner)
    )
