"""The command line. Every command takes `--json`; exit 0 done, 1 refused or failed with one line why, 2 bad usage."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from discreet.errors import DiscreetError, InvalidInput, NotFound, StateHeld, Unavailable
from discreet.settings import Settings
from discreet.strict_json import loads
from discreet_client.client import ApiError, Client, Unreachable
from discreet_client.federation.errors import NotTrusted
from discreet_client.federation.identity import Identity
from discreet_client.federation.rosters import chosen, roster_document, told
from discreet_client.federation.signing import roster as roster_statement

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON")]
StateOption = Annotated[Path | None, typer.Option("--state", help="State folder")]
ServerOption = Annotated[str | None, typer.Option("--server", envvar="DISCREET_URL", help="Address of a server")]
KeyOption = Annotated[str | None, typer.Option("--key", envvar="DISCREET_KEY", help="API key")]
PublicKeyOption = Annotated[
    list[str] | None,
    typer.Option("--public-key", help="The key that must have signed (base64); after a rotation, again for each"),
]
FileArgument = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Body of POST /v1/jobs as JSON")]

MetricsHostOption = Annotated[str, typer.Option(help="Address for health and metrics; no analyst should reach it")]
MetricsPortOption = Annotated[int | None, typer.Option(help="Port for /healthz, /readyz and /metrics; none by default")]
MetricsSocketOption = Annotated[int | None, typer.Option(help="A listening socket to use instead", hidden=True)]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Private optimization as a service.",
)
tenant_app = typer.Typer(no_args_is_help=True, help="Tenants.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")
ledger_app = typer.Typer(no_args_is_help=True, help="The privacy ledger.")
certificate_app = typer.Typer(no_args_is_help=True, help="Certificates.")
cap_app = typer.Typer(no_args_is_help=True, help="Caps on the tenant and on principals.")
session_app = typer.Typer(no_args_is_help=True, help="Sessions of federated jobs.")
secrets_app = typer.Typer(no_args_is_help=True, help="Keys of the installation, and their rotation.")
convert_app = typer.Typer(no_args_is_help=True, help="Read other formats.")
app.add_typer(tenant_app, name="tenant")
app.add_typer(key_app, name="key")
app.add_typer(ledger_app, name="ledger")
app.add_typer(certificate_app, name="certificate")
app.add_typer(cap_app, name="cap")
app.add_typer(session_app, name="session")
app.add_typer(convert_app, name="convert")
app.add_typer(secrets_app, name="secrets")

console = Console(stderr=True)


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line."""
    try:
        app(args=arguments, prog_name="discreet")  # ends in SystemExit, with 2 for bad usage
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (DiscreetError, ApiError, Unreachable) as error:
        print(f"discreet: {error}", file=sys.stderr)
        return 1
    return 0


# Secrets -------------------------------------------------------------------------------------------------------------

KindArgument = Annotated[Literal["content", "pepper", "signing"], typer.Argument(help="Which keys")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Although something still depends on the old key")]


@secrets_app.command("show")
def show_secrets(state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Ids and states of the keys that can be rotated; never a key."""
    from discreet.storage import secrets  # noqa: PLC0415

    rows = secrets.overview(_settings(state).secrets_path)
    _print({"keys": rows}, as_json, lambda: [print(f"{row['kind']:8} {row['state']:7} {row['id']}") for row in rows])


@secrets_app.command("rotate")
def rotate_secrets(
    kind: KindArgument,
    stage: Annotated[bool, typer.Option("--stage", help="Only make the next key known; use it later")] = False,
    force: ForceFlag = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Use a new key from now on. `content` wraps every data key again and touches no content."""
    from discreet.storage import secrets  # noqa: PLC0415
    from discreet.usecases import rotation  # noqa: PLC0415

    settings = _settings(state)
    if stage:
        key_id = secrets.stage(settings.secrets_path, kind)
        _print(
            {"kind": kind, "staged": key_id}, as_json, lambda: print(f"{kind} key {key_id} is known, and not used yet")
        )
        return
    done = _with_services(
        settings, lambda services: rotation.rotate(services, settings.secrets_path, kind, force=force)
    )
    _print(done, as_json, lambda: print(f"{kind} key {done['used']} is used now; {done['moved']} rows moved to it"))


@secrets_app.command("rewrap")
def rewrap_secrets(state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Bring what an old content key still holds under the one in use; goes on with an interrupted rotation."""
    from discreet.usecases import rotation  # noqa: PLC0415

    moved = _with_services(_settings(state), rotation.rewrap)
    _print({"moved": moved}, as_json, lambda: print(f"{moved} rows moved"))


@secrets_app.command("retire")
def retire_secret(
    kind: KindArgument,
    key_id: Annotated[str, typer.Argument(help="As `discreet secrets show` names it")],
    force: ForceFlag = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Forget an old key that nothing needs any more."""
    from discreet.usecases import rotation  # noqa: PLC0415

    settings = _settings(state)
    path = settings.secrets_path
    done = _with_services(settings, lambda services: rotation.retire(services, path, kind, key_id, force=force))
    _print(done, as_json, lambda: print(f"{kind} key {key_id} is forgotten"))


def _with_services(settings: Settings, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """What `work` gives on the database: the one that is set, that of a running `discreet up`, or the embedded one."""
    from discreet.postgres import url_of_running  # noqa: PLC0415
    from discreet.up import embedded  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    async def run_on(ready: Settings) -> Any:
        async with open_services(ready) as services:
            return await work(services)

    if settings.database_url is not None:
        return asyncio.run(run_on(settings))
    try:
        with embedded(settings) as ready:
            return asyncio.run(run_on(ready))
    except StateHeld:
        url = url_of_running(settings.state)
    return asyncio.run(run_on(settings.model_copy(update={"database_url": url})))


# Running the service ------------------------------------------------------------------------------------------------


@app.command()
def up(
    state: StateOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the API; 0 picks a free one")] = 8080,
    rpc_port: Annotated[int, typer.Option(help="Port of gRPC; 0 picks a free one")] = 8081,
    verbose: Annotated[bool, typer.Option(help="Copy the logs of all parts to stderr")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start everything: embedded PostgreSQL (or DISCREET_DATABASE_URL), migrations, API, gRPC, workers."""
    from discreet.up import run as run_supervisor  # noqa: PLC0415

    raise typer.Exit(run_supervisor(_settings(state), host, port, rpc_port, verbose=verbose, as_json=as_json))


@app.command()
def api(
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one")] = 8080,
    fd: Annotated[int | None, typer.Option(help="A listening socket to use instead")] = None,
) -> None:
    """The HTTP API and the dashboard alone, for production."""
    settings = _part("api")
    from discreet.api.app import serve  # noqa: PLC0415
    from discreet.dashboard.app import install  # noqa: PLC0415

    serve(settings, host=host, port=port, descriptor=fd, pages=install)


@app.command()
def rpc(
    host: Annotated[str, typer.Option(help="Address to listen on; other than loopback: TLS")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port")] = 8081,
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_port: MetricsPortOption = None,
    metrics_fd: MetricsSocketOption = None,
) -> None:
    """gRPC alone, for production: federated sessions and their agents."""
    settings = _part("rpc")
    from discreet.rpc.server import serve  # noqa: PLC0415

    asyncio.run(serve(settings, host, port, _monitor(metrics_host, metrics_port, metrics_fd)))


@app.command()
def worker(
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_port: MetricsPortOption = None,
    metrics_fd: MetricsSocketOption = None,
) -> None:
    """A worker alone, for production."""
    settings = _part("worker")
    from discreet.worker.main import serve  # noqa: PLC0415

    asyncio.run(serve(settings, _monitor(metrics_host, metrics_port, metrics_fd)))


@app.command()
def migrate(
    to: Annotated[str, typer.Option(help="Number of a schema; this version's by default")] = "head",
    down: Annotated[
        bool, typer.Option("--down", help="Go back to an older schema; what newer columns hold is lost")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Bring the database to this version's schema; safe beside running processes, and to repeat."""
    from discreet.storage.migrations import migrate as run_migrations  # noqa: PLC0415

    schema = run_migrations(Settings(), to, down=down)
    _print({"migrated": True, "schema": schema}, as_json, lambda: print(f"the database has schema {schema}"))


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="A folder to make; it will hold the keys of all data")],
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Back up an embedded installation, running or not: database, secrets, keys, and the heads of its ledgers."""
    from discreet.backup import backup as write_backup  # noqa: PLC0415

    made = write_backup(_settings(state), folder)
    entries = sum(head["seq"] for head in made["heads"])
    told = f"{folder}: schema {made['schema']}, {entries} ledger entries; it holds all keys"
    _print(made, as_json, lambda: print(told))


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A backup")],
    head: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True, dir_okay=False, help="A head of the ledger that was kept elsewhere (JSON); repeatable"
        ),
    ] = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a new state folder from a backup; its ledgers are verified, and must contain every head that is given."""
    from discreet.backup import restore as read_backup  # noqa: PLC0415

    found = read_backup(_settings(state), folder, [_read_json(one) for one in head or ()])

    def show() -> None:
        entries = sum(one["entries"] for one in found["ledgers"])
        print(f"restored as of {found['created_at']}: {entries} ledger entries verified")
        if found["ended_jobs"]:
            print(f"{found['ended_jobs']} jobs that had not ended were ended, and charged: they may have run since")
        if not head:
            print(
                "Warning: no head was given. What was spent after this backup is forgotten, and can be spent again:\n"
                "compare with a head that was kept elsewhere (--head), or lower the caps by what may be missing.",
                file=sys.stderr,
            )

    _print(found, as_json, show)


@app.command()
def adopt(
    head: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True, dir_okay=False, help="A head of the ledger that was kept elsewhere (JSON); repeatable"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """After a PostgreSQL of your own was restored, before any worker runs: verify every ledger, end unfinished jobs."""
    from discreet.usecases import restoring  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    kept = [_read_json(one) for one in head or ()]

    async def go() -> tuple[int, int]:
        async with open_services(Settings()) as services:
            verified = await restoring.check_ledger(services, kept)
            return sum(one.entries for one in verified), await restoring.end_unfinished(services)

    entries, ended = asyncio.run(go())
    told = f"{entries} ledger entries verified; {ended} jobs that had not ended were ended, and charged"
    _print({"entries": entries, "ended_jobs": ended, "heads": len(kept)}, as_json, lambda: print(told))


@app.command()
def check(
    url: Annotated[str, typer.Argument(help="Such as http://127.0.0.1:8080/readyz")],
    seconds: Annotated[float, typer.Option(help="How long to wait for the answer")] = 10.0,
    as_json: JsonFlag = False,
) -> None:
    """Ask a process whether it is ready: exit 0 for 200, else 1 and the check that fails. For probes."""
    import httpx  # noqa: PLC0415

    try:
        answer = httpx.get(url, timeout=seconds, trust_env=False)
        body = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(f"{url} does not answer: {type(error).__name__}") from error
    except ValueError as error:
        raise Unavailable(f"{url} answers {answer.status_code} and no JSON") from error
    if answer.status_code != httpx.codes.OK:
        failed = [f"{name}: {why}" for name, why in body.get("checks", {}).items() if why != "ok"]
        raise Unavailable("; ".join(failed) or str(body.get("detail", f"{url} answers {answer.status_code}")))
    _print(body, as_json, lambda: print(body.get("status", "ok")))


@app.command("create-secrets")
def create_secrets(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="Where to write them (mode 0600)")],
    as_json: JsonFlag = False,
) -> None:
    """New secrets of an installation, one file for all its processes. Keep a copy in a safe place."""
    from discreet.storage import secrets  # noqa: PLC0415

    secrets.create(file)
    _print({"written": str(file)}, as_json, lambda: print(f"written to {file}"))


@app.command(hidden=True)
def bootstrap(owner_key: Annotated[Path, typer.Option(help="Where to write the first owner's key")]) -> None:
    """Make tenant `default` with its first keys, once: the owner's, and beside it the operator's."""
    from discreet.state import write_private  # noqa: PLC0415
    from discreet.usecases import access  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    # On disk before they count: whoever is killed in between begins again with the same keys, and none is lost.
    draft = owner_key.with_name("keys.draft")
    if draft.exists():
        keys = json.loads(draft.read_text(encoding="utf-8"))
    else:
        keys = {role: access.new_key() for role in ("owner", "operator")}
        write_private(draft, json.dumps(keys))

    async def make() -> bool:
        async with open_services(Settings()) as services:
            return await access.bootstrap(services, keys)

    if asyncio.run(make()):
        write_private(owner_key.with_name("operator.key"), keys["operator"] + "\n")
        write_private(owner_key, keys["owner"] + "\n")  # last: its presence says that all is done
    draft.unlink(missing_ok=True)


# Jobs ---------------------------------------------------------------------------------------------------------------


@app.command()
def solve(
    file: FileArgument,
    out: Annotated[Path | None, typer.Option(help="Write result and certificate to this file")] = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run one job with no server left behind; the ledger is in the state folder."""
    from discreet.state import kernel_cache  # noqa: PLC0415
    from discreet.telemetry import configure  # noqa: PLC0415

    settings = _settings(state)
    os.environ.update(kernel_cache(settings.state) | dict(os.environ))
    configure(level=logging.WARNING)
    from discreet import solve as local  # noqa: PLC0415 - loads numba

    body = _read(file)
    holder = _ready(settings)
    if holder is not None:
        with Client(holder, _owner_key(settings)) as client:
            answer = _submit(client, body, wait=True)
    else:
        with _bar() as on_progress:
            answer = local.solve(settings, body, on_progress)
    if out is not None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    _print(answer, as_json, lambda: _show_answer(answer, out))


@app.command()
def plan(
    file: FileArgument,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The price and the noise of a job; nothing is spent, no data are touched."""
    from discreet import solve as local  # noqa: PLC0415

    body = _read(file)
    if not isinstance(_dataset_of(body), str):  # the data stand in the file, or are the agents'
        answer = local.plan(body)
    else:
        with _client(state, server, key) as client:
            answer = client.plan(body)
    _print(answer, as_json, lambda: _show_plan(answer))


@app.command()
def submit(
    file: FileArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result, with a progress bar")] = False,
    out: Annotated[Path | None, typer.Option(help="Write result and certificate to this file")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit a job over HTTP."""
    body = _read(file)
    with _client(state, server, key) as client:
        answer = _submit(client, body, wait=wait)
    if out is not None and wait:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    _print(answer, as_json, lambda: _show_answer(answer, out) if wait else print(answer["id"]))


@app.command()
def jobs(
    job_state: Annotated[str | None, typer.Option("--job-state", help="Only jobs in this state")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The tenant's newest jobs."""
    with _client(state, server, key) as client:
        found = client.jobs(**({"state": job_state} if job_state else {}))["jobs"]
    _print(found, as_json, lambda: _show_jobs(found))


@app.command()
def result(
    job_id: Annotated[str, typer.Argument(help="Id of a job")],
    out: Annotated[Path | None, typer.Option(help="Write result and certificate to this file")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Result and certificate of a job."""
    with _client(state, server, key) as client:
        answer = client.result(job_id)
    if out is not None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    _print(answer, as_json, lambda: _show_answer(answer, out))


@app.command()
def draw(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A result that was written with --out")],
    problem: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The job body that it answers")],
    out: Annotated[Path, typer.Option(help="Picture file: .png, .svg or .pdf")],
    coordinates: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="JSON [[x, y], …] of the nodes, or an object whose `nodes` are that"
        ),
    ] = None,
) -> None:
    """Draw a result: a network map with link flows, the load with and without control, values by state."""
    from discreet.figures.results import draw_result  # noqa: PLC0415

    places = None if coordinates is None else loads(coordinates.read_bytes())
    if isinstance(places, dict):
        places = places.get("nodes")
    draw_result(_read(problem)["problem"], _read(file)["result"], out, coordinates=places)


@app.command()
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="Parts of mechanisms' or kinds' names; all by default")
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="A tenth of the samples")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="Also attack planted faults, which must be caught")] = False,
    save: Annotated[bool, typer.Option("--save", help="Keep the table for the dashboard of this state folder")] = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack every mechanism and every kind's whole release; a lower bound above the price is a fault. Exit 1 then."""
    from discreet.state import private_folder  # noqa: PLC0415
    from discreet.usecases import audits  # noqa: PLC0415

    rows = list(audits.run_audits(names or [], short=short, faults=faults))
    if not rows:
        raise NotFound("there is no such mechanism or kind")
    if save:
        audits.save(private_folder(_settings(state).state), rows, short=short, names=names or [])
    _print([row.to_json() for row in rows], as_json, lambda: _show_audit(rows))
    if not all(row.as_expected for row in rows):
        raise typer.Exit(1)


@app.command()
def reproduce(
    papers: Annotated[list[str] | None, typer.Argument(help="hassan, hale, xie, tsao, huo; all by default")] = None,
    full: Annotated[bool, typer.Option("--full", help="All sizes and seeds: minutes to an hour a paper")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for tables (CSV) and pictures (PNG)")] = None,
    markdown: Annotated[Path | None, typer.Option(help="File for the tables as Markdown")] = None,
    as_json: JsonFlag = False,
) -> None:
    """The papers' figures: as printed, as their methods truly give them, and ours at the same guarantee."""
    from discreet import reproduce as studies  # noqa: PLC0415

    chosen = papers or list(studies.NAMES)
    if unknown := sorted(set(chosen) - set(studies.NAMES)):
        raise NotFound(f"there is no paper {', '.join(unknown)}; there are {', '.join(studies.NAMES)}")
    reports = []
    for name in chosen:
        found = studies.reproduce(name, full=full)
        reports.append(found)
        if out is not None:
            found.write(out)
        if not as_json:
            _show_report(found)
    if markdown is not None:
        markdown.write_text(studies.document(reports, full=full))
    if as_json:
        _print([found.to_json() for found in reports], as_json, lambda: None)


# Sessions of agents ---------------------------------------------------------------------------------------------------


OwnerIdentityOption = Annotated[
    Path | None, typer.Option("--owner-identity", help="Your key file (in your user folder by default), never sent")
]


def _owner_identity(path: Path | None) -> Identity:
    """The owner's Ed25519 key, made on first use. The server never gets it: it signs who may take part."""
    return Identity.open(path or platformdirs.user_data_path("discreet") / "session-owner.pem")


@session_app.command("tokens")
def session_tokens(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    count: Annotated[int, typer.Option(help="How many agents to invite")] = 1,
    group: Annotated[str | None, typer.Option(help="Invite a standing group instead: no tokens")] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Links for agents, each good for one; printed this once."""
    owner = _owner_identity(owner_identity)
    with _client(state, server, key) as client:
        made = client.session_tokens(job_id, owner=owner.fingerprint, count=count, group=group)
    _print(made, as_json, lambda: print("\n".join(made["links"] or [made["link"]])))


@session_app.command("show")
def session_show(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Who is there."""
    with _client(state, server, key) as client:
        found = client.session(job_id)
    _print(found, as_json, lambda: _show_session(found))


@session_app.command("approve")
def session_approve(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Fingerprints to approve (16 digits or more); all by default"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before signing")] = False,
    save_as: Annotated[str | None, typer.Option(help="Keep these agents as a standing group of this name")] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Sign the roster with your own key: nobody else can take part. The price is reserved, and the session begins."""
    owner = _owner_identity(owner_identity)
    with _client(state, server, key) as client:
        found = client.session(job_id)
        try:
            agents = chosen(found["agents"], agent)
        except NotTrusted as error:
            raise DiscreetError(str(error)) from None
        if not as_json:
            # Agents believe the owner alone, and the owner sees here what the server would have it sign.
            print("\n".join(["You sign:", *told(agents, found["parameters"])]), file=sys.stderr)
            if sys.stdin.isatty() and not yes:
                typer.confirm("Sign it?", abort=True, err=True)
        document = roster_document(found["id"], job_id, found["kind"], agents, found["parameters"])
        done = client.approve_session(
            job_id,
            roster=document.decode(),
            signature=base64.b64encode(owner.sign(roster_statement(document))).decode(),
            owner_key=base64.b64encode(owner.public_key).decode(),
            save_as=save_as,
        )
    _print(done, as_json, lambda: _show_session(done))


# Tenants, keys, ledger ----------------------------------------------------------------------------------------------


@tenant_app.command("create")
def create_tenant(
    name: str, state: StateOption = None, server: ServerOption = None, key: KeyOption = None, as_json: JsonFlag = False
) -> None:
    """Make a tenant (operators)."""
    with _client(state, server, key, role="operator") as client:
        made = client.create_tenant(name)
    _print(made, as_json, lambda: print(made["id"]))


@app.command()
def login(
    role: Annotated[str, typer.Option(help="Whose key of the state folder: owner or operator")] = "owner",
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """A link to the dashboard that logs you in, once, within ten minutes."""
    with _client(state, server, key, role=role) as client:
        made = client.login_link()
    _print(made, as_json, lambda: print(made["link"]))


@key_app.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="operator, owner, analyst or auditor")],
    tenant: Annotated[str | None, typer.Option(help="Name of the tenant; operators only")] = None,
    principal: Annotated[str | None, typer.Option(help="Who holds the key; the role by default")] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: in so many days (`90d`) or hours (`8h`), or a time in RFC 3339")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make an API key; it is printed this once."""
    expires_at = None if expires is None else _moment(expires)
    with _client(state, server, key, role="operator" if tenant else "owner") as client:
        made = client.create_key(role=role, principal=principal or role, tenant=tenant, expires_at=expires_at)
    _print(made, as_json, lambda: print(made["key"]))


@key_app.command("list")
def list_keys(
    state: StateOption = None, server: ServerOption = None, key: KeyOption = None, as_json: JsonFlag = False
) -> None:
    """The tenant's keys, without their secrets."""
    with _client(state, server, key) as client:
        keys = client.list_keys()
    _print(keys, as_json, lambda: _show_keys(keys))


@key_app.command("revoke")
def revoke_key(
    key_id: str,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Revoke a key."""
    with _client(state, server, key) as client:
        client.revoke_key(key_id)
    _print({"revoked": key_id}, as_json, lambda: print(f"{key_id} opens nothing any more"))


@ledger_app.command("show")
def show_ledger(
    account: Annotated[str | None, typer.Argument(help="Id of a budget; all when left out")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Budgets, or the entries of one."""
    with _client(state, server, key) as client:
        if account is None:
            budgets = client.budgets()
            _print(budgets, as_json, lambda: _show_budgets(budgets))
        else:
            entries = list(client.entries(account))
            _print(entries, as_json, lambda: _show_entries(entries))


@ledger_app.command("head")
def ledger_head(
    state: StateOption = None, server: ServerOption = None, key: KeyOption = None, as_json: JsonFlag = False
) -> None:
    """The signed head of the ledger; keep it (--json) where the service cannot reach it."""
    with _client(state, server, key) as client:
        head = client.ledger_head()
    _print(head, as_json, lambda: print(f"{head['seq']} entries, head {head['hash']}, key {head['public_key']}"))


@ledger_app.command("export")
def export_ledger(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="Where to write; JSON Lines")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The whole ledger with its signed head, for `discreet ledger verify`."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with _client(state, server, key) as client, draft.open("wb") as out:
            client.export_ledger(out)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    _print({"written": str(file)}, as_json, lambda: print(f"written to {file}"))


@ledger_app.command("verify")
def verify_ledger(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export")],
    public_key: PublicKeyOption = None,
    head: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A head that was kept elsewhere (JSON)")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check an export with no server: hashes, sums, rules, signature. Exit 1 and the first broken entry otherwise."""
    from discreet.privacy import ledger_chain  # noqa: PLC0415

    kept = None if head is None else _read_json(head)
    try:
        with file.open("rb") as lines:
            found = ledger_chain.verify(lines, public_key=public_key, head=kept)
    except ledger_chain.Broken as broken:
        answer: dict[str, Any] = {"valid": False, "account": broken.account, "seq": broken.seq, "what": broken.what}
        line = f"broken: {broken}"
        _print(answer, as_json, lambda: print(line))
        raise typer.Exit(1) from None
    _print(
        {"valid": True, **asdict(found)},
        as_json,
        lambda: print(
            f"holds: {found.entries} entries of {found.accounts} accounts of {found.tenant}, head {found.hash},"
            f" signed by {found.public_key}" + ("" if public_key else " (compare this key with one that you know)")
        ),
    )


@certificate_app.command("verify")
def verify_certificate(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A certificate, or a result with one")],
    ledger: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="An export that must hold its entries")
    ] = None,
    public_key: PublicKeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a certificate with no server: signature, price from the events, guarantee, and its place in an export."""
    from discreet.privacy import certificates, ledger_chain  # noqa: PLC0415

    body = _read_json(file)
    body = body.get("certificate", body)
    checks = certificates.check(body, public_key)
    if ledger is None:
        checks.append(certificates.Check("inclusion", None, "not looked at: give an export with --ledger"))
    else:
        entries: list[tuple[dict[str, Any], str]] = []

        def watch(entry: dict[str, Any], digest: str) -> None:
            if entry["job"] is not None and entry["job"] == body.get("job"):
                entries.append((entry, digest))

        try:
            with ledger.open("rb") as lines:
                ledger_chain.verify(lines, public_key=public_key or body.get("public_key"), watch=watch)
            checks.append(certificates.check_inclusion(body, entries))
        except ledger_chain.Broken as broken:
            checks.append(certificates.Check("inclusion", False, f"the export does not hold: {broken}"))
    answer = certificates.verdict(checks)
    marks = {True: "holds ", False: "BROKEN", None: "open  "}
    _print(answer, as_json, lambda: [print(f"{marks[one.holds]} {one.name}: {one.detail}") for one in checks])
    if not answer["valid"]:
        raise typer.Exit(1)


@cap_app.command("set")
def set_cap(
    epsilon: Annotated[str, typer.Option(help="Epsilon of the cap")],
    reason: Annotated[str, typer.Option(help="Stays in the ledger")],
    delta: Annotated[str, typer.Option(help="Delta of the cap")] = "0",
    principal: Annotated[str | None, typer.Option(help="Whose cap; of the whole tenant when left out")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Cap what the tenant or one principal may spend over all data, from now on."""
    try:
        figures = {"epsilon": Decimal(epsilon), "delta": Decimal(delta)}
    except InvalidOperation:
        raise InvalidInput("epsilon and delta are numbers") from None
    scope = "tenant" if principal is None else "principal"
    with _client(state, server, key) as client:
        made = client.set_cap(scope=scope, principal=principal, reason=reason, **figures)
    _print(made, as_json, lambda: _show_budgets([made]))


@cap_app.command("show")
def show_caps(
    state: StateOption = None, server: ServerOption = None, key: KeyOption = None, as_json: JsonFlag = False
) -> None:
    """The caps on the tenant and on its principals."""
    with _client(state, server, key) as client:
        found = client.caps()
    _print(found, as_json, lambda: _show_budgets(found))


@convert_app.command("tntp")
def convert_tntp(
    net: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Network file")],
    trips: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trips file")],
    epsilon: Annotated[str, typer.Option(help="Epsilon of the job")] = "0.1",
    round_trips: Annotated[bool, typer.Option(help="Round trips that are no integers")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file")] = None,
) -> None:
    """The TNTP format of the field, as a job body with its dataset."""
    from discreet.tntp import convert  # noqa: PLC0415

    body = convert(net.read_text(), trips.read_text(), epsilon=epsilon, round_trips=round_trips)
    text = json.dumps(body, separators=(",", ":"))
    if out is None:
        print(text)
    else:
        out.write_text(text)


# Finding a server ---------------------------------------------------------------------------------------------------


def _settings(state: Path | None) -> Settings:
    return Settings() if state is None else Settings(state=state)


def _part(name: str) -> Settings:
    """Settings of a part of the service, with its logs, its traces and its cache of kernels set up."""
    from discreet.state import kernel_cache  # noqa: PLC0415
    from discreet.telemetry import configure  # noqa: PLC0415

    settings = Settings()
    os.environ.update(kernel_cache(settings.state) | dict(os.environ))
    configure(name)
    return settings


def _monitor(host: str, port: int | None, descriptor: int | None) -> socket.socket | None:
    from discreet.monitoring import listen  # noqa: PLC0415

    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    return None if port is None else listen(host, port)


def _ready(settings: Settings) -> str | None:
    """The address of the `discreet up` that holds this state folder, if one runs."""
    try:
        ready = json.loads((settings.state / "ready.json").read_text())
        os.kill(ready["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return str(ready["api"])


def _owner_key(settings: Settings, role: str = "owner") -> str:
    path = settings.state / f"{role}.key"
    try:
        return path.read_text().strip()
    except OSError as error:
        raise NotFound(f"no key: set DISCREET_KEY, or let {path} be readable") from error


def _client(state: Path | None, server: str | None, key: str | None, role: str = "owner") -> Client:
    """The server of `--server`/DISCREET_URL with DISCREET_KEY, else that of the state folder with its own key."""
    settings = _settings(state)
    address = server or _ready(settings)
    if address is None:
        raise NotFound(f"no server: set DISCREET_URL, or run `discreet up` on {settings.state}")
    return Client(address, key or _owner_key(settings, role))


# Bodies -------------------------------------------------------------------------------------------------------------


def _read(file: Path) -> Any:
    body = loads(file.read_bytes())
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: an object is needed")
    return body


def _read_json(file: Path) -> dict[str, Any]:
    """Plain JSON: what is compared must keep the types that it was signed with."""
    try:
        body = json.loads(file.read_bytes())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: a JSON object is needed")
    return body


def _dataset_of(body: dict[str, Any]) -> Any:
    problem = body.get("problem")
    return problem.get("dataset") if isinstance(problem, dict) else None


def _submit(client: Client, body: dict[str, Any], *, wait: bool) -> dict[str, Any]:
    """Register an inline dataset, submit, and wait for the result if asked to."""
    dataset = _dataset_of(body)
    if isinstance(dataset, dict):
        body = {**body, "problem": {**body["problem"], "dataset": client.register(dataset)["id"]}}
    job = client.submit(body, idempotency_key=str(uuid.uuid4()))
    if not wait:
        return job
    with _bar() as on_progress:
        ended = client.wait(job["id"], on_progress)
    if ended["state"] != "succeeded":
        raise DiscreetError(f"job {ended['id']} {ended['state']}: {ended.get('error', {}).get('detail', '')}")
    return client.result(job["id"])


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr."""
    columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=not console.is_terminal) as progress:
        task = progress.add_task("queued", total=None)

        def on_progress(state: str, step: int, total: int) -> None:
            done = total if state == "succeeded" else step
            progress.update(task, description=state, completed=done, total=total)

        yield on_progress


# Showing ------------------------------------------------------------------------------------------------------------


def _print(value: Any, as_json: bool, show: Callable[[], object]) -> None:
    if as_json:
        print(json.dumps(value, indent=2, default=str))
    else:
        show()


def _show_plan(answer: dict[str, Any]) -> None:
    table = Table("quantity", "noise", "standard deviation", title="Nothing was spent")
    for noise in answer["plan"]["noise"]:
        table.add_row(noise["quantity"], noise["distribution"], f"{noise['standard_deviation']:.4g}")
    out = Console()
    out.print(table)
    out.print(f"price: epsilon {answer['price']['epsilon']}, delta {answer['price']['delta']}")
    out.print(f"protects: {answer['plan']['neighbours']}")
    for sentence in answer["plan"]["advice"]:
        out.print(f"expect: {sentence}")
    if not answer.get("admitted", True):
        out.print(f"over budget; the largest request that passes is epsilon {answer['binding']['largest']['epsilon']}")


def _show_answer(answer: dict[str, Any], out: Path | None) -> None:
    guarantee = answer["certificate"]["guarantee"]
    table = Table("field", "value", title=f"Job {answer['job']['id']}")
    for name, value in answer["result"].items():
        if isinstance(value, int | float | str):
            table.add_row(name, f"{value}")
        elif value:
            table.add_row(name, f"{len(value)} entries")
    screen = Console()
    screen.print(table)
    if guarantee["type"] == "none":
        screen.print("certificate: none; this is a simulation on data declared public")
    elif guarantee["type"] == "cryptographic":
        screen.print(f"certificate: cryptographic; protects {guarantee['neighbours']}")
    else:
        screen.print(
            f"certificate: {guarantee['type']}, epsilon {guarantee['epsilon']}, delta {guarantee['delta']};"
            f" protects {guarantee['neighbours']}"
        )
    if out is not None:
        screen.print(f"written to {out}")


def _show_jobs(found: list[dict[str, Any]]) -> None:
    table = Table("id", "kind", "state", "epsilon", "created")
    for job in found:
        table.add_row(job["id"], job["kind"], job["state"], f"{job['price']['epsilon']}", job["created_at"])
    Console().print(table)


def _moment(text: str) -> str:
    """A moment from now (`90d`, `8h`), or as it stands, in RFC 3339."""
    units = {"d": "days", "h": "hours"}
    number, unit = text[:-1], text[-1:]
    try:
        if unit in units and number.isascii() and number.isdigit():
            moment = datetime.now(UTC) + timedelta(**{units[unit]: int(number)})
        else:
            moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter("`90d`, `8h`, or a time in RFC 3339", param_hint="--expires") from None
    return moment.isoformat()


def _show_keys(keys: list[dict[str, Any]]) -> None:
    table = Table(Column("key", no_wrap=True), "principal", "role", "made", "expires", "last used", "state")
    now = datetime.now(UTC).isoformat()
    for one in keys:
        state = "revoked" if one["revoked_at"] else "expired" if (one["expires_at"] or "9") < now else "good"
        times = [(one[name] or "")[:16].replace("T", " ") for name in ("created_at", "expires_at", "last_used_at")]
        table.add_row(one["id"], one["principal"], one["role"], *times, state)
    Console().print(table)


def _show_budgets(budgets: Sequence[Mapping[str, Any]]) -> None:
    table = Table("id", "datasets", "unit", "cap", "spent", "reserved", "largest request")
    for budget in budgets:
        names = ", ".join(dataset["name"] for dataset in budget["datasets"]) or budget["subject"]
        figures = [budget[name]["epsilon"] for name in ("cap", "spent", "reserved", "largest_request")]
        table.add_row(budget["id"], names, budget["unit"], *(f"{figure}" for figure in figures))
    Console().print(table)


def _show_report(found: Any) -> None:
    from discreet.reproduce.report import shown  # noqa: PLC0415

    table = Table(title=found.source, caption=f"seeds: {found.seeds}")
    for column in ("figure", "paper", "honest", "ours", ""):
        table.add_column(column, overflow="fold")
    for line in found.lines:
        table.add_row(line.quantity, *map(shown, (line.paper, line.honest, line.ours)), line.note)
    console = Console()
    console.print(table)
    for what, why in found.unreproduced:
        console.print(f"not reproduced, {what}: {why}")


def _show_audit(rows: list[Any]) -> None:
    table = Table("attacked", "lower bound", "charged epsilon", "delta", "verdict")
    for row in rows:
        found = row.row
        verdict = found.verdict if not row.planted else "caught" if row.as_expected else "MISSED"
        bound, charged = f"{found.lower_bound:.4f}", f"{found.price_epsilon:.4f}"
        table.add_row(found.name, bound, charged, f"{found.delta:.0e}", verdict)
    Console().print(table)


def _show_session(found: dict[str, Any]) -> None:
    title = f"Session {found['id']} of {found['kind']}: {found['state']}, round {found['round']}"
    table = Table("agent", "fingerprint", "on the roster", "accepted", title=title)
    for one in found["agents"]:
        table.add_row(
            "".join(letter if letter.isprintable() else "?" for letter in one["name"]),
            one["fingerprint"],
            *("yes" if one[name] else "" for name in ("on_roster", "accepted")),
        )
    Console().print(table)


def _show_entries(entries: list[dict[str, Any]]) -> None:
    table = Table("seq", "kind", "job", "epsilon (1e-9)", "at", "hash")
    for entry in entries:
        price = entry["price"].get("epsilon", "")
        table.add_row(str(entry["seq"]), entry["kind"], entry["job"] or "", price, entry["at"], entry["hash"][:12])
    Console().print(table)
