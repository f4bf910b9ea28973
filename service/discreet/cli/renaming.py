"""Renames the columns of a table, on this machine, to the names that the service reads; values stay
as they are."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from discreet_client.tables import first_line


@contextmanager
def renamed(file: Path, names: Mapping[str, str], known: Sequence[str]) -> Iterator[Path]:
    """A copy of the file with the service's names of columns, in a private folder that is removed
    when the context ends.

    `names`: the service's name of a column, and the file's own. Other columns are copied only if
    their name is one of `known`. BadParameter for a column that the file does not have, and for
    files that are not tables.
    """
    with TemporaryDirectory(prefix="discreet-") as folder:
        made = Path(folder) / file.name
        if file.suffix.lower() == ".csv":
            _csv(file, made, names, known)
        elif file.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq  # noqa: PLC0415 - takes a moment to load

            with pq.ParquetFile(file) as whole:
                chosen = _chosen(whole.schema_arrow.names, names, known)
                table = whole.read(columns=list(chosen.values())).select(list(chosen.values()))
            pq.write_table(table.rename_columns(list(chosen)), made)
        else:
            raise typer.BadParameter("needs a table, .csv or .parquet", param_hint="--columns")
        yield made


def _csv(file: Path, made: Path, names: Mapping[str, str], known: Sequence[str]) -> None:
    separator, header, before = first_line(file)
    chosen = _chosen(header, names, known)
    places = [header.index(name) for name in chosen.values()]
    with (
        file.open(encoding="utf-8-sig", newline="") as source,
        made.open("w", encoding="utf-8", newline="") as out,
    ):
        for _ in range(before):
            source.readline()
        rows = csv.reader(source, delimiter=separator)
        next(rows, None)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(chosen)
        for number, row in enumerate(rows, 1):
            if len(row) != len(header) and (len(row) < len(header) or any(row[len(header) :])):
                says = (
                    f"{file.name}: row {number} has {len(row)} values, but the first line names "
                    f"{len(header)} columns"
                )
                raise typer.BadParameter(says, param_hint="FILE")
            writer.writerow([row[place] for place in places])


def _chosen(
    header: Sequence[str], names: Mapping[str, str], known: Sequence[str]
) -> dict[str, str]:
    """The file's name of each column that is copied, by the service's name, in the file's order."""
    if missing := [own for own in names.values() if own not in header]:
        raise typer.BadParameter(
            f"the file has no column {', '.join(missing)}", param_hint="--columns"
        )
    found = {
        name: name
        for name in header
        if name in known and name not in names and name not in names.values()
    }
    found.update(names)
    return dict(sorted(found.items(), key=lambda one: header.index(one[1])))
