"""What commands print: JSON, or tables and sentences for people; progress goes to stderr."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table

from discreet.cli.showing_answers import as_said
from discreet.cli.texts import printable

console = Console(stderr=True)


ID_LETTERS = 30
MOST_COLUMNS = 8
"""Of a file that is looked at, in a line."""
STATES = {"waiting": "waiting\nfor budget", "awaiting_agents": "waiting\nfor agents"}
"""States of jobs whose name does not say what they wait for, in two lines of their column."""
JOB_COLUMNS = (
    Column("id", no_wrap=True, width=ID_LETTERS),
    Column("kind and name", overflow="fold", width=22),
    Column("state", no_wrap=True, width=15),
    Column("epsilon", overflow="fold", width=10),
)


def tell(value: Any, as_json: bool, show: Callable[[], object]) -> None:
    if as_json:
        print(json.dumps(value, indent=2, default=str))
    else:
        show()


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """`1 account`, `2 accounts`; `plural` where it takes more than an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr."""
    from rich.progress import (  # noqa: PLC0415 - only for who waits
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description:9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=not console.is_terminal) as progress:
        task = progress.add_task("queued", total=None)

        def on_progress(state: str, step: int, total: int) -> None:
            done = total if state == "succeeded" else step
            progress.update(task, description=state, completed=done, total=total)

        yield on_progress


def _whole(name: str) -> Column:
    """A column of ids, which are there to be copied: never shortened, however narrow the
    terminal."""
    return Column(name, no_wrap=True, min_width=ID_LETTERS)


def _narrow(*columns: Column | str) -> Table:
    """A table that has room on 80 columns for the words that it is made of; only columns given as
    such are wrapped."""
    whole = [one if isinstance(one, Column) else Column(one, no_wrap=True) for one in columns]
    return Table(*whole, box=box.SIMPLE, padding=0, pad_edge=False, show_edge=False)


def _minute(time: str) -> str:
    """Day and minute of a time."""
    return time[:16].replace("T", " ")


def show_submitted(job: Mapping[str, Any]) -> None:
    """The job's id; beside it, for people, why it waits."""
    print(job["id"])
    if waits := job.get("waiting"):
        says = as_said(f"it waits for budget: {waits['detail']}")
        Console(stderr=True).print(says, soft_wrap=True)


def show_jobs(found: Sequence[Mapping[str, Any]]) -> None:
    """Under its id when it was made, under its kind its name, or that of its dataset, and below
    both what it answers. What a simulation would cost is no price."""
    screen = Console()
    for number, job in enumerate(found):
        # A table each, because what a job answers has a line of its own; as wide as the longest
        # words.
        table = _narrow(*(column.copy() for column in JOB_COLUMNS))
        table.show_header = not number
        name = job.get("name") or job.get("dataset_name")
        table.add_row(
            f"{job['id']}\n{_minute(job['created_at'])}",
            as_said(job["kind"] if name is None else f"{job['kind']}\n{name}"),
            STATES.get(job["state"], job["state"])
            + ("\nmostly noise" if job.get("mostly_noise") else ""),
            "simulation" if job.get("simulation") else f"{job['price']['epsilon']:.9g}",
        )
        screen.print(table)
        if waits := job.get("waiting"):
            says = (
                f"not before {_minute(waits['not_before'])}, decided by {_minute(waits['until'])}"
            )
            screen.print(Padding(f"waits for budget: {says} UTC", (0, 0, 0, 2)), highlight=False)
        if headline := job.get("headline"):
            screen.print(Padding(as_said(headline), (0, 0, 0, 2)))


def show_datasets(found: Sequence[Mapping[str, Any]]) -> None:
    """Two lines each: under its id when it was made, under its name its kind."""
    table = _narrow(_whole("id"), Column("name and kind", overflow="fold"), "mode")
    for one in found:
        table.add_row(
            f"{one['id']}\n{_minute(one['created_at'])}",
            as_said(f"{one['name']}\n{one['kind']}"),
            one["mode"],
        )
    Console().print(table)


def show_dataset(one: Mapping[str, Any]) -> None:
    table = Table(
        Column("field", no_wrap=True), Column("value", overflow="fold", min_width=ID_LETTERS)
    )
    for name in ("id", "name", "kind", "mode", "account", "created_at", "expires_at"):
        if one[name] is not None:
            table.add_row(name, as_said(str(one[name])))
    if one["delete_after_job"]:
        table.add_row("erased", "after the first job that succeeds on it")
    if (place := one.get("place")) is not None:
        where = place.get("address") or f"an address that begins with {place['at']}://"
        seen = _minute(place["unchanged_at"])
        table.add_row("stays", as_said(f"{where}; last seen there unchanged at {seen}"))
    table.add_row("public", as_said(json.dumps(one["public"], ensure_ascii=False, default=str)))
    Console().print(table)


def proposal_of(found: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """What a preview proposes: columns by role, and fields of the public part as `--set` has
    them."""
    rules = {
        f"reader.{rule}": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for rule, value in found["proposal"]["reader"].items()
    }
    return dict(found["proposal"]["columns"]), rules


def options_of(columns: Mapping[str, str], fields: Mapping[str, str]) -> list[tuple[str, str]]:
    """The options of `dataset add` that say these columns and fields."""
    plain = {role: name for role, name in columns.items() if not set(",=") & set(name)}
    others = {f"columns.{role}": name for role, name in columns.items() if role not in plain}
    said = [("--columns", ",".join(map("=".join, plain.items())))] if plain else []
    return [*said, *(("--set", "=".join(pair)) for pair in {**fields, **others}.items())]


def show_preview(found: Mapping[str, Any]) -> None:
    """What a file would be read as: a proposal, the first rows, what is left out and what is
    wrong."""
    print(f"Columns: {printable(_few(found['columns']))}")
    for option, said in options_of(*proposal_of(found)):
        print(f"Proposed: {option} {shlex.quote(printable(said))}")
    for row in found["rows"]:
        print(f"  row {row['row']}: {printable(_few(row['cells'].values()))}")
        if means := row["meaning"]:
            said = ", ".join(f"{name} {value}" for name, value in means[0].items())
            print(f"    read as {printable(said)}{', …' if len(means) > 1 else ''}")
    if found["count"] is not None:
        print(f"{found['count']:,} rows")
    for one in found["left_out"]:
        print(f"Left out: {one['count']:,} ({printable(one['why'])})")
    for note in found["notes"]:
        print(printable(note))
    for issue in found["issues"]:
        way = issue.get("way_out")
        see = f"; see {way}" if way and way not in issue["detail"] else ""
        print(f"Wrong: {printable(issue['detail'] + see)}")


def _few(values: Iterable[Any]) -> str:
    """The first of some values in a line, and how many more there are."""
    texts = ["–" if one is None else str(one) for one in values]
    more = len(texts) - MOST_COLUMNS
    return " | ".join(texts[:MOST_COLUMNS]) + (f" | … and {more:,} more" if more > 0 else "")


def show_stored(found: Sequence[Mapping[str, Any]]) -> None:
    """Two lines each: under its id when it was stored, under its name its size."""
    table = _narrow(_whole("id"), Column("name and size", overflow="fold"))
    for one in found:
        size = f"{one['nodes']:,} nodes, {one['links']:,} links"
        table.add_row(
            f"{one['id']}\n{_minute(one['created_at'])}", as_said(f"{one['name']}\n{size}")
        )
    Console().print(table)


def show_network(one: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
    table = Table(
        Column("field", no_wrap=True), Column("value", overflow="fold", min_width=ID_LETTERS)
    )
    for name in (
        "id",
        "name",
        "nodes",
        "links",
        "coordinates",
        "sha256",
        "created_by",
        "created_at",
    ):
        if one.get(name) is not None:
            table.add_row(name, as_said(str(one[name])))
    output = Console()
    output.print(table)
    for note in notes:
        output.print(as_said(note))


def show_sources(found: Sequence[Mapping[str, Any]]) -> None:
    table = _narrow(_whole("id"), Column("name", overflow="fold"), Column("blocks"))
    for one in found:
        table.add_row(
            f"{one['id']}\n{_minute(one['created_at'])}",
            as_said(one["name"]),
            f"{one['kind']}, by {one['by']}",
        )
    Console().print(table)


def show_source(one: Mapping[str, Any]) -> None:
    """What it says of its blocks, and of each what is spent, reserved and left."""
    cap = (
        f"epsilon {one['cap']['epsilon']:g}, delta {one['cap']['delta']:g} for each {one['cap_of']}"
    )
    output = Console()
    output.print(
        as_said(
            f"{one['name']} ({one['id']}): {one['kind']}, blocks by {one['by']}, {one['mode']}, "
            f"{cap}"
        )
    )
    if rule := one.get("rule"):
        shares = ", ".join(f"{name} {100 * share:g} %" for name, share in rule["shares"].items())
        output.print(as_said(f"shares: {shares}; lent over {rule['lent_days']} days"))
    if one.get("blocks") is None:
        return
    what = Column("content", overflow="fold")
    table = Table(Column("block", overflow="fold"), "version", "spent", "reserved", "left", what)
    for block in one["blocks"]:
        figures = [f"{block[name]['epsilon']:g}" for name in ("spent", "reserved", "remaining")]
        content = "erased" if block["erased"] else "sealed"
        if not block["erased"] and (place := block.get("place")) is not None:
            seen = _minute(place["unchanged_at"])
            content = f"stays at {place['at']}://…, seen there unchanged {seen}"
        table.add_row(as_said(block["block"]), str(block["version"]), *figures, as_said(content))
    output.print(table)
    if not one["blocks"]:
        output.print("No block yet: discreet source add registers one.")


def show_block(one: Mapping[str, Any]) -> None:
    Console().print(
        as_said(
            f"block {one['block']}, version {one['version']} ({one['dataset']}), on "
            f"{one['account']}"
        )
    )


def show_budgets(budgets: Sequence[Mapping[str, Any]]) -> None:
    of, largest = (
        Column("datasets", overflow="fold", min_width=8),
        Column("largest request", min_width=7),
    )
    table = _narrow(_whole("id"), of, "unit", "cap", "spent", "reserved", largest)
    for budget in budgets:
        names = ", ".join(dataset["name"] for dataset in budget["datasets"]) or budget["subject"]
        figures = [
            budget[name]["epsilon"] for name in ("cap", "spent", "reserved", "largest_request")
        ]
        table.add_row(
            budget["id"], as_said(names), budget["unit"], *(f"{figure:.9g}" for figure in figures)
        )
    output = Console()
    output.print(table)
    units = [budget["unit"] for budget in budgets if budget["scope"] == "data"]
    if len(set(units)) < len(units):
        output.print(
            "Each cap bounds its own account only. For people in the data of two accounts, both "
            "losses add up."
        )


def show_entries(entries: list[dict[str, Any]]) -> None:
    from discreet.ledger.entries import ENTRIES  # noqa: PLC0415 - it loads all mechanisms

    table = _narrow("seq", "at", "what", "epsilon", _whole("job"))
    for entry in entries:
        price = int(entry["price"].get("epsilon", 0))
        epsilon = f"{Decimal(price).scaleb(-9).normalize():f}" if price else ""
        table.add_row(
            str(entry["seq"]), _minute(entry["at"]), entry["kind"], epsilon, entry["job"] or ""
        )
    output = Console()
    output.print(table)
    for kind in dict.fromkeys(entry["kind"] for entry in entries):
        title, meaning = ENTRIES[kind]
        output.print(
            f"{kind}: {title.lower()}. {meaning.format(actor='Somebody')}",
            markup=False,
            highlight=False,
        )


def show_session(found: Mapping[str, Any]) -> None:
    title = f"Session {found['id']} of {found['kind']}: {found['state']}, round {found['round']}"
    fingerprint = Column(
        "fingerprint", overflow="fold", min_width=32
    )  # whole: it is there to be compared
    table = Table("agent", fingerprint, "on the roster", "accepted", "speaks", title=title)
    for one in found["agents"]:
        table.add_row(
            as_said(one["name"]),
            one["fingerprint"],
            *("yes" if one[name] else "" for name in ("on_roster", "accepted")),
            as_said(", ".join(one["speaks"])),
        )
    Console().print(table)
    before = found["opened_before"]
    if before["numbers"]:
        print(
            f"of an agent here {before['numbers']} numbers were opened without noise in "
            f"{before['jobs']} other jobs ({before['for_each_agent']:.2g} for each agent): chances "
            "to find it out add up"
        )
    if found["error"] is not None:
        print(f"failed ({found['error']['code']}): {found['error']['detail']}")
        for one in found["error"]["agents"] or ():
            print(f"{one['fingerprint']}: {one['cause']}: {one['detail']}")
        if found["error"]["agents"] and found["roster"] is not None:
            print(f"to start again without: discreet session again {found['job']}")
    if found.get("approve_by"):
        print(
            f"waits until {found['approve_by']} for the signed roster; then the job fails, and "
            "nothing is charged"
        )


def show_audit(rows: list[Any]) -> None:
    table = Table("attacked", "lower bound", "charged epsilon", "delta", "verdict")
    for row in rows:
        found = row.row
        verdict = found.verdict if not row.planted else "caught" if row.as_expected else "MISSED"
        bound, charged = f"{found.lower_bound:.4f}", f"{found.price_epsilon:.4f}"
        table.add_row(found.name, bound, charged, f"{found.delta:.0e}", verdict)
    Console().print(table)


def show_networks(rows: Sequence[Any]) -> None:
    """Differences to the published flows: of the objective, and of the links whose flow the model
    determines the largest in parts of the largest flow, all in parts of all flow."""
    names = ("objective", "largest difference", "of all flow")
    table = Table("network", "status", "gap", *names, "seconds", "MiB")
    for row in rows:
        figures = (
            row.gap,
            row.objective_difference,
            row.largest_difference,
            row.total_difference,
        )
        shown = ["" if figure is None else f"{figure:.1e}" for figure in figures]
        table.add_row(row.network, row.status, *shown, f"{row.seconds:.2f}", f"{row.mib:.0f}")
    output = Console()
    output.print(table)
    for row in rows:
        for says in (row.reason, row.left):
            if says is not None:
                output.print(f"{row.network}: {says}", markup=False)


def show_report(found: Any) -> None:
    from discreet.reproduce.report import COLUMNS  # noqa: PLC0415

    table = Table(title=found.source, caption=f"seeds: {found.seeds}")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for line in found.lines:
        table.add_row(*line.cells())
    console = Console()
    console.print(table)
    for what, why in found.unreproduced:
        console.print(f"not reproduced, {what}: {why}")
