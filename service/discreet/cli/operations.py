"""The state of the installation, for its operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from discreet.cli.options import JsonFlag, KeyOption, ServerOption, StateOption
from discreet.cli.servers import client_of
from discreet.cli.showing import tell
from discreet.cli.texts import printable

app = typer.Typer()


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
