"""The tables of kinds in README.md and docs/, from what the kinds say of themselves.

python -m tests.tables      writes them; a test compares
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from discreet.problems import KINDS
from discreet.problems.charts import charts_module

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- kinds: python -m tests.tables -->\n", "<!-- end of kinds -->\n"


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


TABLES: dict[str, Callable[[], str]] = {
    "README.md": lambda: overview(lambda kind: f"[`{kind}`](docs/problems/{kind}.md)"),
    "docs/index.md": lambda: overview(lambda kind: f"[{KINDS[kind].title}](problems/{kind}.md)"),
    "docs/dashboard.md": charts,
}


def page(name: str, root: Path = ROOT) -> str:
    """A page with its table as it is to be."""
    before, _, rest = (root / name).read_text().partition(BEGIN)
    return before + BEGIN + TABLES[name]() + END + rest.partition(END)[2]


if __name__ == "__main__":
    for name in TABLES:
        (ROOT / name).write_text(page(name))
