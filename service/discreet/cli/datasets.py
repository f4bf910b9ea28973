"""Datasets on a server."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.dataset_files import (
    cap_of,
    check_file,
    described,
    looked_at,
    name_of,
    pairs_of,
    public_part,
    read_file,
    sent_as,
    what_is_published,
    whole_body,
    zones_of,
)
from discreet.cli.files import read_body
from discreet.cli.jobs import changed, field_of
from discreet.cli.options import (
    AcceptDoubtsFlag,
    EncodingOption,
    JsonFlag,
    KeyOption,
    LocalFlag,
    QueryOption,
    ServerOption,
    StateOption,
    StaysFlag,
    asked_of,
    require_address,
)
from discreet.cli.people import account_of, notes, undeclared
from discreet.cli.servers import client_of, dataset_id
from discreet.cli.showing import show_dataset, show_datasets, show_preview, tell
from discreet.errors import InvalidInput
from discreet_client import people

app = typer.Typer(
    no_args_is_help=True, help="Datasets: private data that jobs may be run on, each with a budget."
)

DatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="Id or name of a dataset")]


@app.command("list")
def list_datasets(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List all datasets of the tenant, newest first."""
    with client_of(state, server, key) as client:
        found = list(client.datasets())
    tell(found, as_json, lambda: show_datasets(found))


@app.command("show")
def show(
    given: DatasetArgument,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one dataset: its public part and its account, never its content."""
    with client_of(state, server, key) as client:
        found = client.dataset(dataset_id(client, given))
    tell(found, as_json, lambda: show_dataset(found))


@app.command("add")
def add(
    given: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="The content: a .csv, .parquet, .json or .omx file; a .json file of OpenADR "
            "reports; a .json file with the whole body of POST /v1/datasets; or an address from "
            "which the service reads it: file:///…, https://…, s3://bucket/…, "
            "postgresql://host/database with --query",
        ),
    ],
    metadata: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="JSON {name, kind, public, cap, …}; options override it",
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="The kind of problem that the data are for, such as routing")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What people call it; the file's name by default")
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(help="Its public part: JSON text, or a file that holds it (docs/problems)"),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field of the public part, beside --public or instead of it, such as horizon=3 "
            "or reader.time_zone=Europe/Berlin; may be repeated",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="What your columns are called: origin=from_zone,destination=to_zone,…"),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(
            help="Trips: the names of your zones, as a CSV file id,number or as a stored network, "
            "by its id or name"
        ),
    ] = None,
    encoding: EncodingOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="openadr: the file must hold OpenADR reports; by default the format is recognized",
        ),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Cap: epsilon that may be spent on it in total")
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="Cap: delta that may be spent on it in total")
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(help="Account of another dataset of the same people, instead of a cap"),
    ] = None,
    same_people_as: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="The same, by that dataset's id or name: both are charged on its account",
        ),
    ] = None,
    other_people: Annotated[
        bool,
        typer.Option(
            "--other-people", help="Nobody in this file is in another dataset: do not ask"
        ),
    ] = False,
    mode: Annotated[str | None, typer.Option(help="private, or simulation for public data")] = None,
    retention_days: Annotated[
        int | None, typer.Option(help="Erase the content after this many days")
    ] = None,
    delete_after_job: Annotated[
        bool,
        typer.Option(
            "--delete-after-job", help="Erase the content after the first job that succeeds on it"
        ),
    ] = False,
    accept_doubts: AcceptDoubtsFlag = False,
    local: LocalFlag = False,
    stays: StaysFlag = False,
    query: QueryOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Register a dataset. The same content again is the same dataset, on the same account.

    Data of the same people prepared in another way - another rule for the same patients, other
    edges for the same meters - count as other content: with --same-people-as both are charged to
    one account. On two accounts their losses add up.

    Tables with their own column names are read by --columns and the rules in `reader` of --public
    (docs/own-files.md). The whole file is sent, and erased once it is registered; with --local it
    is read on this machine. Content at a URL is read by the service, where its operator allows that
    place; with --stays it is left there, and each job reads it again.
    """
    where = asked_of(given if "://" in given else None, query)
    require_address(where, stays)
    file = Path(given)
    if where is None:
        check_file(file, form)
    elif form or local:
        says = "need a file on this machine"
        raise typer.BadParameter(says, param_hint="--format, --local")
    if same_people_as is not None and (other_people or account is not None):
        raise typer.BadParameter(
            "names the account, so no other option may", param_hint="--same-people-as"
        )
    whole = whole_body(file) if where is None else None
    chosen = {
        "kind": kind,
        "name": name,
        "public": None if public is None else public_part(public),
        "cap": cap_of(epsilon, delta),
        "account": account,
        "mode": mode,
        "retention_days": retention_days,
        "delete_after_job": delete_after_job or None,
        "accept_doubts": accept_doubts or None,
    }
    body = {
        "name": file.stem if where is None else name_of(where),
        **(whole or {}),
        **({} if metadata is None else read_body(metadata)),
        **{name: value for name, value in chosen.items() if value is not None},
    }
    if fields:
        body["public"] = changed(body.get("public") or {}, map(field_of, fields))
    if "kind" not in body:
        raise typer.BadParameter(
            "say what kind of data it is, here or in --metadata", param_hint="--kind"
        )
    if "public" not in body:
        raise typer.BadParameter(what_is_published(str(body["kind"])), param_hint="--public")
    if same_people_as is None and not {"cap", "account"} & body.keys():
        says = "say what may be spent on it in total, or give --same-people-as"
        raise typer.BadParameter(says, param_hint="--epsilon")
    there = partial(client_of, state, server, key)
    named = None if zones is None else zones_of(zones, body, there, local=local)
    given_rules = (("zones", named), ("encoding", encoding))
    rules = {name: value for name, value in given_rules if value is not None}
    if where is not None:
        placed = {"content_from": where, **({"content_stays": True} if stays else {})}
        whole = body = {**sent_as(described(body, pairs_of(columns), rules), where), **placed}
    elif whole is None:
        body = read_file(file, body, pairs_of(columns), rules, local=local)
        whole = body if "content" in body else None
    with client_of(state, server, key) as client:
        before = client.budgets()
        if same_people_as is not None:
            body["account"] = account_of(before, same_people_as)
        unsaid = [] if other_people else people.others(before, body)
        if unsaid:
            simulated = {one["id"] for one in client.datasets() if one["mode"] == "simulation"}
            unsaid = people.others(unsaid, body, simulated)
        if unsaid and sys.stdin.isatty():
            if (account := _asked_whose(unsaid)) is not None:
                body["account"] = account
            unsaid = []
        if body.get("account"):
            body.pop("cap", None)
        if whole is not None:
            made = client.register(body)
        else:
            with file.open("rb") as content:
                made = client.upload(body, content, file.name)
    known = next((one for one in before if one["id"] == made["account"]), None)
    for note in [*made.get("notes", ()), *notes(known, unsaid, made), *undeclared(made)]:
        typer.echo(note, err=True)
    tell(made, as_json, lambda: show_dataset(made))


def _asked_whose(others: Sequence[people.Budget]) -> str | None:
    """The account on which its people are already, asked at a terminal; None where they are nobody
    else's."""
    print(
        "Data of the same people belong on one account; over several accounts their losses add up. "
        "There are:"
    )
    for one in others:
        print(f"  {people.described(one)}")
    while True:
        given = str(
            typer.prompt(
                "Who is in this file too? A dataset's name, or Enter for nobody", default=""
            )
        )
        if not given:
            return None
        try:
            return account_of(others, given)
        except InvalidInput as error:
            print(f"{error}.")


@app.command("preview")
def preview(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="The table: CSV, Parquet, Excel, …")
    ],
    kind: Annotated[str, typer.Option(help="The kind of problem that the data are for")],
    public: Annotated[str | None, typer.Option(help="As in `dataset add`")] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="As in `dataset add`; may be repeated"),
    ] = None,
    columns: Annotated[str | None, typer.Option(help="As in `dataset add`")] = None,
    zones: Annotated[str | None, typer.Option(help="As in `dataset add`")] = None,
    encoding: EncodingOption = None,
    local: LocalFlag = False,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a file would be read as, and what is wrong with it. Nothing is registered.

    The whole file is sent, and erased after a day; with --local it is read on this machine.
    """
    said = {} if public is None else public_part(public)
    body: dict[str, Any] = {"kind": kind, "public": changed(said, map(field_of, fields or ()))}
    there = partial(client_of, state, server, key)
    named = None if zones is None else zones_of(zones, body, there, local=local)
    given_rules = (("zones", named), ("encoding", encoding))
    rules = {name: value for name, value in given_rules if value is not None}
    public_of_file = described(body, pairs_of(columns), rules)["public"]
    if local:
        found: Any = looked_at(kind, file, public_of_file)
    else:
        with client_of(state, server, key) as client, warnings.catch_warnings(record=True) as told:
            found = client.datasets.look(file, kind=kind, public=public_of_file)
        for one in told:
            typer.echo(f"{file.name}: {one.message}", err=True)
    tell(found, as_json, lambda: show_preview(found))


@app.command("correct")
def correct(
    dataset: DatasetArgument,
    given: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|URL]",
            help="The content again, as `dataset add` reads it: where a field is corrected that "
            "decides how rows are read, such as zones or edges. Without it what is stored is "
            "checked anew, or read again at the place where it stays",
        ),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(help="Fields of the public part to correct: JSON text, or a file of it"),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field of the public part, such as max_total=5000; null takes it away; of a "
            "FILE also rules such as reader.time_zone=Europe/Berlin; may be repeated",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="What the columns of FILE are called, as in `dataset add`"),
    ] = None,
    zones: Annotated[
        str | None, typer.Option(help="The names of zones in FILE, as in `dataset add`")
    ] = None,
    encoding: EncodingOption = None,
    form: Annotated[str | None, typer.Option("--format", help="As in `dataset add`")] = None,
    local: LocalFlag = False,
    stays: StaysFlag = False,
    query: QueryOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Correct what is public of a dataset, while nothing was given away of it.

    That is while nothing was spent or reserved on its account and no job on it waits or runs; a
    simulation can be corrected while no job on it waits or runs. Id, account and unit stay. Later
    the public part stays too: register the data beside it, with --same-people-as.
    """
    where = asked_of(given if given is not None and "://" in given else None, query)
    require_address(where, stays)
    file = Path(given) if given is not None and where is None else None
    if file is not None:
        check_file(file, form)
    elif zones or encoding or form or local:
        says = "go with a file on this machine"
        raise typer.BadParameter(says, param_hint="--zones, --encoding, --format, --local")
    said = {} if public is None else public_part(public)
    said = changed(said, map(field_of, fields or ()))
    if not said and given is None:
        raise typer.BadParameter("say what is to be corrected", param_hint="--set")
    if file is None and columns:
        said = {**said, "columns": pairs_of(columns)}
    with client_of(state, server, key) as client:
        found = dataset_id(client, dataset)
        if file is None:
            corrected = client.datasets.correct(found, said, where, stays=stays)
        else:
            before = client.dataset(found)
            whole: dict[str, Any] = {"kind": before["kind"], "public": dict(before["public"])}
            whole["public"] = {
                name: value
                for name, value in changed(whole["public"], said.items()).items()
                if value is not None
            }
            named = None
            if zones is not None:
                there = partial(client_of, state, server, key)
                named = zones_of(zones, whole, there, local=local)
            given_rules = (("zones", named), ("encoding", encoding))
            rules = {name: value for name, value in given_rules if value is not None}
            new = described({"public": said}, pairs_of(columns), rules)["public"]
            corrected = client.datasets.correct(found, new, file, local=local)
    for note in undeclared(corrected):
        typer.echo(note, err=True)
    tell(corrected, as_json, lambda: show_dataset(corrected))


@app.command("delete")
def delete(
    given: DatasetArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Erase a dataset's content. Its account stays, with what was spent on it."""
    with client_of(state, server, key) as client:
        erased = dataset_id(client, given)
        if not yes:
            found = client.dataset(erased)
            question = f"Erase the content of {found['name']} ({erased})? It cannot be undone"
            typer.confirm(question, abort=True, err=True)
        remains = client.delete_dataset(erased)

    def show() -> None:
        print(
            f"{erased}: its content is erased; its account stays. Sealed bytes remain for a while:"
        )
        for place in remains:
            print(f"  - {place}")

    tell({"deleted": erased, "remains": remains}, as_json, show)
