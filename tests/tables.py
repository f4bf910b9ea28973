"""The tables of kinds in README.md and docs/, from what the kinds say of themselves, and that of
settings.

python -m tests.tables      writes them; a test compares
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from discreet.problems import KINDS
from discreet.problems.charts import charts_module
from discreet.settings import Settings

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- kinds: python -m tests.tables -->\n", "<!-- end of kinds -->\n"
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "MB": 1_000_000}


def overview(name: Callable[[str], str]) -> str:
    """What each kind protects and publishes."""
    rows = [f"| {name(kind)} | {one.private} | {one.published} |" for kind, one in KINDS.items()]
    return "\n".join(
        ["| problem | what is private | what is published |", "|---|---|---|", *rows, ""]
    )


def charts() -> str:
    """What is drawn of each kind's results."""
    drawn = {
        f"`{kind}`": charts_module(kind).SHOWN for kind in KINDS if charts_module(kind) is not None
    }
    drawn["federated"] = (
        "who was there: enrolment, roster, rounds. The server does not keep who answered which "
        "round"
    )
    return "\n".join(
        [
            "| kind | charts |",
            "|---|---|",
            *(f"| {kind} | {shown} |" for kind, shown in drawn.items()),
            "",
        ]
    )


def default(name: str, value: object) -> str:
    """How a table says a default: sizes in the largest unit that divides them."""
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith("_bytes") and isinstance(value, int):
        unit = next((unit for unit, size in UNITS.items() if value % size == 0), None)
        return f"{value // UNITS[unit]} {unit}" if unit else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value in (None, "") else f"`{value}`" if isinstance(value, str) else str(value)


def settings() -> str:
    """Every variable of the environment, by its field."""
    rows = [
        f"| `DISCREET_{name.upper()}` | "
        f"{'' if field.is_required() or field.default_factory else default(name, field.default)} | "
        f"{field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows, ""])


TABLES: dict[str, Callable[[], str]] = {
    "README.md": lambda: overview(lambda kind: f"[`{kind}`](docs/problems/{kind}.md)"),
    "docs/index.md": lambda: overview(lambda kind: f"[{KINDS[kind].title}](problems/{kind}.md)"),
    "docs/dashboard.md": charts,
    "docs/settings.md": settings,
}


def page(name: str, root: Path = ROOT) -> str:
    """A page with its table as it is to be."""
    before, _, rest = (root / name).read_text().partition(BEGIN)
    return before + BEGIN + TABLES[name]() + END + rest.partition(END)[2]


if __name__ == "__main__":
    for name in TABLES:
        (ROOT / name).write_text(page(name))
