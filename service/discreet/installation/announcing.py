"""What `discreet up` announces: to Prometheus where metrics are, to people that the service is
ready."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from discreet.private_files import write_private

OWNER_KEY_FILE = "owner.key"
METRICS_FILE = "metrics.json"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show_ready(state: Path, url: str, rpc_address: str) -> None:
    """Show a table of the service's addresses."""
    console = Console(soft_wrap=True, highlight=False)
    console.print("discreet is ready", style="bold green")
    for label, value in (
        ("address", url),
        ("dashboard", f"{url}/ (`discreet login` prints a link that logs in)"),
        ("gRPC", rpc_address),
        ("owner's key", str(state / OWNER_KEY_FILE)),
        ("logs", str(state / "logs")),
        ("stop", "Ctrl-C"),
    ):
        console.print(Text(f"  {label:<12}", style="dim").append(value, style="default not dim"))


def write_targets(state: Path, monitors: Mapping[str, socket.socket]) -> None:
    """Where metrics are, as Prometheus reads it (`file_sd_configs`)."""
    targets = [
        {"targets": [f"127.0.0.1:{listener.getsockname()[1]}"], "labels": {"part": name}}
        for name, listener in monitors.items()
    ]
    write_private(state / METRICS_FILE, json.dumps(targets))
