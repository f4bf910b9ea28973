"""Running the service, and what its operators do: migrations, backups, probes, first keys.

The parts of the service start here too, so nothing that only clients need is loaded at the top.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.files import read_json
from discreet.cli.options import JsonFlag, KeyOption, ServerOption, StateOption
from discreet.cli.servers import client_of, settings_of
from discreet.cli.showing import counted, tell
from discreet.cli.texts import printable
from discreet.errors import Unavailable

if TYPE_CHECKING:
    from discreet.settings import Settings


LAST_PORT = 65_535

MetricsHostOption = Annotated[
    str, typer.Option(help="Address for health and metrics; no analyst should reach it")
]
MetricsPortOption = Annotated[
    int | None, typer.Option(help="Port for /healthz, /readyz and /metrics; none by default")
]
MetricsSocketOption = Annotated[
    int | None, typer.Option(help="A listening socket to use instead", hidden=True)
]
ChildrenSocketOption = Annotated[
    int | None, typer.Option(help="Socket at which to request fork servers", hidden=True)
]

HeadsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--head",
        exists=True,
        dir_okay=False,
        help="A head of the ledger that was stored elsewhere (JSON); repeatable",
    ),
]
ForgetFlag = Annotated[
    bool,
    typer.Option(
        "--forget-spending", help="Restore although no head shows what was spent after the backup"
    ),
]

app = typer.Typer()


@app.command()
def up(
    state: StateOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the API; 0 picks a free one")] = 8080,
    rpc_port: Annotated[
        int | None,
        typer.Option(
            help="Port of gRPC; 0 picks a free one",
            show_default="the API's port plus 1, or 0 with --port 0",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Copy the logs of all parts to stderr")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start everything: embedded PostgreSQL (or DISCREET_DATABASE_URL), migrations, API, gRPC,
    workers."""
    from discreet.cli.variables import unused_variables  # noqa: PLC0415
    from discreet.installation.supervisor import run as run_supervisor  # noqa: PLC0415

    for sentence in unused_variables(os.environ):
        print(f"discreet: {sentence}", file=sys.stderr)
    if rpc_port is None:  # who takes any port for one does so because a service runs here already
        rpc_port = port + 1 if 0 < port < LAST_PORT else 0
    raise typer.Exit(
        run_supervisor(settings_of(state), host, port, rpc_port, verbose=verbose, as_json=as_json)
    )


@app.command()
def api(
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one")] = 8080,
    fd: Annotated[int | None, typer.Option(help="A listening socket to use instead")] = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_port: MetricsPortOption = None,
    metrics_fd: MetricsSocketOption = None,
    children_fd: ChildrenSocketOption = None,
) -> None:
    """Run only the HTTP API and the dashboard, for production."""
    settings = _part("api", children_fd)
    from discreet.api.app import serve  # noqa: PLC0415
    from discreet.dashboard.app import install  # noqa: PLC0415

    monitor = _monitor(metrics_host, metrics_port, metrics_fd)
    serve(settings, host=host, port=port, descriptor=fd, monitor=monitor, pages=install)


@app.command()
def rpc(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than loopback needs TLS")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port")] = 8081,
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_port: MetricsPortOption = None,
    metrics_fd: MetricsSocketOption = None,
    children_fd: ChildrenSocketOption = None,
) -> None:
    """Run only the gRPC server, for production: federated sessions and their agents."""
    settings = _part("rpc", children_fd)
    from discreet.rpc.server import serve  # noqa: PLC0415

    asyncio.run(serve(settings, host, port, _monitor(metrics_host, metrics_port, metrics_fd)))


@app.command()
def worker(
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_port: MetricsPortOption = None,
    metrics_fd: MetricsSocketOption = None,
    children_fd: ChildrenSocketOption = None,
) -> None:
    """Run only a worker, for production."""
    settings = _part("worker", children_fd)
    from discreet.worker.main import serve  # noqa: PLC0415

    asyncio.run(serve(settings, _monitor(metrics_host, metrics_port, metrics_fd)))


@app.command(hidden=True)
def helper(
    job: Annotated[str, typer.Argument(help="The job")],
    attempt: Annotated[int, typer.Argument(help="The attempt whose release it is")],
) -> None:
    """Read shares of one release until it is over, or standard input ends. Nodes of a cluster start
    it (DISCREET_CLUSTER)."""
    settings = _part("helper", None)
    from discreet.worker.cluster.helper import serve  # noqa: PLC0415

    asyncio.run(serve(settings, job, attempt))


@app.command()
def migrate(as_json: JsonFlag = False) -> None:
    """Migrate the database to this version's schema; safe to repeat, and while processes are
    running."""
    from discreet.storage.migrations import migrate as run_migrations  # noqa: PLC0415

    schema = run_migrations(settings_of(None))
    tell(
        {"migrated": True, "schema": schema},
        as_json,
        lambda: print(f"the database has schema {schema}"),
    )


@app.command()
def backup(
    folder: Annotated[
        Path, typer.Argument(help="The folder to create; it will hold the keys of all data")
    ],
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Back up an embedded installation, running or not: database, secrets, keys, and the heads of
    its ledgers."""
    from discreet.installation.backup import backup as write_backup  # noqa: PLC0415

    made = write_backup(settings_of(state), folder)
    entries = sum(head["seq"] for head in made["heads"])
    told = (
        f"{folder}: schema {made['schema']}, {counted(entries, 'ledger entry', 'ledger entries')}; "
        "it holds all keys"
    )
    if not made["noted"]:
        print(
            "the database could not record it: operators will not see that it was made",
            file=sys.stderr,
        )
    tell(made, as_json, lambda: print(told))


@app.command("note-backup")
def note_backup(
    made_at: Annotated[
        str | None,
        typer.Option("--at", help="The time of the state that it holds (RFC 3339); now by default"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Record a backup that was made by other means, after it is made: the operators' page and
    alerts show it."""
    from discreet.errors import InvalidInput  # noqa: PLC0415
    from discreet.usecases import operations  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    now = datetime.now(UTC)
    try:
        when = now if made_at is None else datetime.fromisoformat(made_at)
    except ValueError:
        raise InvalidInput(
            f"--at: {made_at} is no time in RFC 3339, such as 2026-11-24T03:00:00Z"
        ) from None
    if when.tzinfo is None or when > now:
        raise InvalidInput(f"--at: {made_at} has no offset from UTC, or is still to come")

    async def go() -> None:
        async with open_services(settings_of(None)) as services:
            await operations.note_backup(services, when, "other")

    asyncio.run(go())
    tell(
        {"made_at": when.isoformat()},
        as_json,
        lambda: print(f"noted: a backup of {when.isoformat()}"),
    )


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A backup")],
    head: HeadsOption = None,
    forget_spending: ForgetFlag = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a state folder from a backup; its ledgers are verified, and must contain every given
    head. Without a head that was kept elsewhere, what was spent after the backup could be spent
    again, so the command refuses unless you accept that with --forget-spending.
    """
    from discreet.installation.backup import restore as read_backup  # noqa: PLC0415

    heads = [read_json(one) for one in head or ()]
    found = read_backup(settings_of(state), folder, heads, forget_spending=forget_spending)

    def show() -> None:
        entries = sum(one["entries"] for one in found["ledgers"])
        print(
            f"restored as of {found['created_at']}: "
            f"{counted(entries, 'ledger entry', 'ledger entries')} verified"
        )
        if found["ended_jobs"]:
            print(
                f"{found['ended_jobs']} jobs that had not ended were ended, and charged: they may "
                "have run since"
            )
        if forget_spending:
            print(
                "Warning: --forget-spending. What was spent after this backup is forgotten and "
                "can be spent again:\n"
                "compare with a head that was kept elsewhere (--head), or lower the caps by what "
                "may be missing.",
                file=sys.stderr,
            )

    tell(found, as_json, show)


@app.command()
def adopt(
    head: HeadsOption = None,
    forget_spending: ForgetFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Run this after you restored your own PostgreSQL server and before any worker runs: verify
    every ledger and end unfinished jobs."""
    from discreet.usecases import operations as restoring  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    kept = [read_json(one) for one in head or ()]

    async def go() -> tuple[int, int]:
        async with open_services(settings_of(None)) as services:
            verified = await restoring.check_ledger(services, kept)
            await restoring.require_remembered(services, forget=forget_spending)
            if not forget_spending:
                restoring.require_heads([one.tenant for one in verified if one.entries], kept)
            return sum(one.entries for one in verified), await restoring.end_unfinished(services)

    entries, ended = asyncio.run(go())
    verified = counted(entries, "ledger entry", "ledger entries")
    told = f"{verified} verified; {ended} jobs that had not ended were ended, and charged"
    tell(
        {"entries": entries, "ended_jobs": ended, "heads": len(kept)}, as_json, lambda: print(told)
    )


@app.command()
def check(
    url: Annotated[str, typer.Argument(help="Such as http://127.0.0.1:8080/readyz")],
    seconds: Annotated[float, typer.Option(help="How long to wait for the answer")] = 10.0,
    as_json: JsonFlag = False,
) -> None:
    """Ask a process whether it is ready: exit 0 for 200, else 1 and the check that fails. For
    probes."""
    from discreet.outbound import Asks, OutboundError, Reach, fetch  # noqa: PLC0415

    try:
        asks = Asks("GET", url, silent_seconds=seconds)
        answer = asyncio.run(fetch(asks, Reach("any", http=True), 1 << 20, seconds))
        body = dict(json.loads(answer.body))
    except OutboundError as error:
        raise Unavailable(f"{url} does not answer: {error.why}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise Unavailable(f"{url} answers {answer.status} and no JSON object") from error
    if answer.status != 200:
        failed = [f"{name}: {why}" for name, why in body.get("checks", {}).items() if why != "ok"]
        raise Unavailable(
            "; ".join(failed) or str(body.get("detail", f"{url} answers {answer.status}"))
        )
    tell(body, as_json, lambda: print(body.get("status", "ok")))


@app.command("create-secrets")
def create_secrets(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="Where to write them (mode 0600)")],
    as_json: JsonFlag = False,
) -> None:
    """Create the secrets of an installation, one file for all its processes. Keep a copy in a safe
    place."""
    from discreet.storage import secrets  # noqa: PLC0415
    from discreet.storage.keys.opening import Keys  # noqa: PLC0415

    secrets.create(file, Keys.of(settings_of(None)))
    tell({"written": str(file)}, as_json, lambda: print(f"written to {file}"))


@app.command(hidden=True)
def bootstrap(
    owner_key: Annotated[Path, typer.Option(help="Where to write the first owner's key")],
) -> None:
    """Create the tenant `default` with its first keys, once: the owner's, and beside it the
    operator's."""
    from discreet.private_files import write_private  # noqa: PLC0415
    from discreet.usecases import access  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    # On disk before they count: whoever is killed in between begins again with the same keys, and
    # none is lost.
    draft = owner_key.with_name("keys.draft")
    if draft.exists():
        keys = json.loads(draft.read_text(encoding="utf-8"))
    else:
        keys = {role: access.new_key() for role in ("owner", "operator")}
        write_private(draft, json.dumps(keys))

    async def make() -> bool:
        async with open_services(settings_of(None)) as services:
            return await access.bootstrap(services, keys)

    if asyncio.run(make()):
        write_private(owner_key.with_name("operator.key"), keys["operator"] + "\n")
        write_private(owner_key, keys["owner"] + "\n")  # last: its presence says that all is done
    draft.unlink(missing_ok=True)


def _part(name: str, children_fd: int | None) -> Settings:
    """Settings of a part of the service, with its logs, its traces, its cache of kernels and its
    children set up."""
    import structlog  # noqa: PLC0415

    from discreet.cli.variables import unused_variables  # noqa: PLC0415
    from discreet.isolation import children  # noqa: PLC0415
    from discreet.observability.telemetry import configure  # noqa: PLC0415
    from discreet.private_files import kernel_cache  # noqa: PLC0415

    faulthandler.enable()  # a part that is ended because it was silent says where it stood: SIGABRT
    settings = settings_of(None)
    os.environ.update(kernel_cache(settings.state) | dict(os.environ))
    configure(name)
    for sentence in unused_variables(os.environ):
        structlog.get_logger().warning("unused variable", detail=sentence)
    if children_fd is not None:
        children.template = socket.socket(fileno=children_fd)
    return settings


def _monitor(host: str, port: int | None, descriptor: int | None) -> socket.socket | None:
    from discreet.installation.ports import listen  # noqa: PLC0415

    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    return None if port is None else listen(host, port, "--metrics-port")


# Operations ---------------------------------------------------------------------------------------
# The state of the installation, for its operators.


@app.command()
def status(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the queue, the workers and their isolation, witnesses, the last backup, versions, and
    whose jobs are waiting (operators)."""
    with client_of(state, server, key, role="operator") as client:
        found = client.operations()
    tell(found, as_json, lambda: print("\n".join(printable(line) for line in lines(found))))


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What `status` prints, one subject per line."""
    for name, why in found["checks"].items():
        if why != "ok":
            yield f"NOT READY  {name}: {why}"
    queue, log, backup, versions = (found[name] for name in ("queue", "log", "backup", "versions"))
    oldest = queue["oldest_wait_seconds"]
    waited = "" if oldest is None else f", the oldest for {oldest:.0f} s"
    lost = queue["leases_over"]
    yield (
        f"queue      {queue['queued']} wait{waited}; {queue['running']} running, {lost} of them "
        "without a worker"
    )
    workers = [one for one in found["processes"] if one["part"] == "worker"]
    if not any(one["alive"] for one in workers):
        yield "workers    none is running: jobs wait until one is started"
    for one in found["processes"]:
        yield f"{one['part']:<10} {_process(one)}"
    checkpoint = log["checkpoint"]
    signed = (
        "nothing signed yet"
        if checkpoint is None
        else f"{checkpoint['size']} entries at {checkpoint['signed_at']}"
    )
    yield (
        f"log        {signed}, {log['pending']} not in it yet; witnesses: "
        f"{len(log['witnesses']) or 'none named'}"
    )
    for one in log["witnesses"]:
        last = (
            "has signed nothing"
            if one["size"] is None
            else f"signed {one['size']} entries at {one['signed_at']}"
        )
        yield f"witness    {one['name']} {last}" + (
            "" if one["signed_newest"] else ", not the newest checkpoint"
        )
    last = backup["last"]
    yield "backup     " + (
        "none known"
        if last is None
        else f"state of {last['made_at']}, made with {last['made_with']}"
    )
    yield (
        f"versions   discreet {versions['service']}, schema {versions['schema_version']}"
        f" (database {versions['database_schema_version']}), PostgreSQL {versions['postgres']}"
    )
    yield f"keys       in {found['keys']}"
    for one in found["tenants"]:
        yield (
            f"tenant     {one['tenant']} has {one['share']:.0%} of all waiting: {one['queued']} "
            "jobs"
        )


def _process(one: Mapping[str, Any]) -> str:
    walls = one["isolation"]
    shut = "walls not known yet" if walls is None else f"isolation {walls['level']}"
    if walls is not None and walls["reached"]:
        shut += f" (reached: {', '.join(walls['reached'])})"
    busy = "" if one["busy"] is None else f", busy {one['busy']} of {one['places']}"
    life = "alive" if one["alive"] else f"SILENT for {one['silent_seconds']:.0f} s"
    helping = ", helps another" if one["helping"] else ""
    return f"{one['host']} {life}{busy}{helping}, {shut}, version {one['version']}"
