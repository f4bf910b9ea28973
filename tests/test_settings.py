"""No message repeats what a setting holds: canaries in every setting, well-formed and not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from discreet import cli
from discreet.cli.servers import settings_of
from discreet.errors import DiscreetError
from discreet.settings import Settings
from discreet.storage import database
from discreet.storage.keys.opening import Keys
from discreet.storage.objects import Objects
from discreet.usecases import cosigning
from discreet.usecases.oidc.configuration import configured
from discreet.usecases.places.rules import read_places
from tests.conftest import eventually

CANARY = "tr0ub4dor"
MALFORMED = (
    CANARY,
    f"{CANARY} 3",
    f"{CANARY}\x1b[2J",
    f"://{CANARY}",
    f"postgresql://u:{CANARY}%@127.0.0.1:1/d",
    f"postgresql://u:{CANARY} 3@127.0.0.1:1/d",
    f"postgresql://u:3@{CANARY}@127.0.0.1:1/d",
    f"postgresql://u:{CANARY}/3@127.0.0.1:1/d",
    f"postgresql://u:{CANARY}?3@127.0.0.1:1/d",
    f"postgresql://u:p@127.0.0.1:{CANARY}/d",
    f"postgresql://u@127.0.0.1:1/d?{CANARY}=1",
    f"postgresql://u@127.0.0.1:1/d?password={CANARY}%",
    f"postgresql+psycopg://u:{CANARY}@127.0.0.1:1/d",
    f"u:{CANARY}@127.0.0.1/d",
    f"s3://key:{CANARY}@[bucket",
    f"{CANARY}://bucket/x",
    f"memory://{CANARY}[::1/%",
    f"vault:{CANARY}",
    f"awskms://[{CANARY}/x",
    f"awskms:///x?{CANARY}=1",
    f"pkcs11:{CANARY}",
    f"pkcs11:token=x?module-path=/x&pin-value={CANARY}",
    f"https://u:{CANARY}@idp.example/",
    f"{{{CANARY}",
    f'{{"{CANARY}": 1}}',
    f"name+00000000+{CANARY} https://w.example",
    f"{CANARY}-1",
)
SETTINGS = sorted(Settings.model_fields)
USES: dict[str, tuple[Callable[[Settings], object], ...]] = {
    **dict.fromkeys(
        ("database_url", "database_direct_url"),
        (lambda one: asyncio.run(_connected(one)),),
    ),
    "migration_database_url": (
        lambda one: database.user_of(str(one.migration_database_url)),
        lambda one: database.sync_engine(str(one.migration_database_url)).connect(),
    ),
    "object_url": (lambda one: Objects(str(one.object_url)),),
    "keys": (Keys.of,),
    "witnesses": (cosigning.addresses,),
    "content_places": (read_places,),
    **dict.fromkeys((name for name in SETTINGS if name.startswith("oidc_")), (configured,)),
}
"""What reads a setting when a part starts."""


async def _connected(settings: Settings) -> None:
    found = database.Database(settings)
    try:
        async with found.transaction("*"):
            pass
    finally:
        await found.close()


def with_oidc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_OIDC_ISSUER", "https://idp.example")
    monkeypatch.setenv("DISCREET_OIDC_CLIENT_ID", "discreet")
    monkeypatch.setenv("DISCREET_PUBLIC_URL", "https://discreet.example")


@pytest.mark.parametrize("name", SETTINGS)
def test_no_error_of_a_setting_repeats_it(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Neither what says that it is not valid, nor what fails at its use, whose whole traceback is
    searched: a URL with an unescaped % ended in one with the whole password."""
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path))
    if name.startswith("database_"):
        monkeypatch.setenv("DISCREET_DATABASE_URL", "postgresql://u@127.0.0.1:1/d")
    if name.startswith("oidc_"):
        with_oidc(monkeypatch)
    told = []
    for value in MALFORMED:
        monkeypatch.setenv(f"DISCREET_{name.upper()}", value)
        try:
            settings = settings_of(None)
        except DiscreetError as error:
            told += traceback.format_exception(error)
            continue
        for use in USES.get(name, ()):
            try:
                use(settings)
            except Exception as error:
                told += traceback.format_exception(error)
    out, err = capfd.readouterr()
    told += [out, err]
    assert CANARY not in "".join(told)


def test_a_command_says_in_one_line_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISCREET_DATABASE_URL", f"postgresql://u:{CANARY}%@127.0.0.1/d")
    assert cli.run(["migrate"]) == 1
    out, err = capfd.readouterr()
    assert CANARY not in out + err
    assert "Traceback" not in err
    assert "DISCREET_DATABASE_URL" in err
    assert "%25" in err


def test_no_part_writes_a_secret(tmp_path: Path) -> None:
    """Of settings that are as they should be, where nothing answers."""
    secrets = tmp_path / "secrets.json"
    assert cli.run(["create-secrets", str(secrets)]) == 0
    values = {
        "STATE": str(tmp_path),
        "SECRETS_FILE": str(secrets),
        "DATABASE_URL": f"postgresql://u:{CANARY}@127.0.0.1:1/d?connect_timeout=2",
        "DATABASE_DIRECT_URL": f"postgresql://u:{CANARY}@127.0.0.1:1/d?connect_timeout=2",
        "MIGRATION_DATABASE_URL": f"postgresql://u:{CANARY}@127.0.0.1:1/d?connect_timeout=2",
        "OBJECT_URL": f"memory://{CANARY}",
        "KEYS_PIN": CANARY,
        "OIDC_ISSUER": "https://127.0.0.1:1",
        "OIDC_CLIENT_ID": "discreet",
        "OIDC_CLIENT_SECRET": CANARY,
        "OIDC_ROLES": '{"a": "north:owner"}',
        "PUBLIC_URL": "https://discreet.example",
    }
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    environment |= {f"DISCREET_{name}": value for name, value in values.items()}
    said = {part: tmp_path / f"{part}.log" for part in ("api", "worker", "rpc")}
    programs = []
    for part, path in said.items():
        arguments = ["--port", "0"] if part in ("api", "rpc") else []
        with path.open("wb") as file:
            programs.append(
                subprocess.Popen(
                    [sys.executable, "-m", "discreet", part, *arguments],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env=environment,
                )
            )
    try:
        for path in said.values():
            eventually(lambda path=path: path.stat().st_size > 0, "it says that nobody answers")
    finally:
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait()
    for path in said.values():
        assert CANARY not in path.read_text()
