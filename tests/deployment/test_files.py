"""What the deployment files say is what the program understands: commands, settings, ports, users,
secrets.

That the image builds and its parts run as these files say is shown by `.ci/deployment_rehearsal.py`
(`make rehearse`), which reads the same files.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml

from discreet.cli import app
from discreet.installation import prepared
from discreet.settings import CREDENTIALS, Settings

ROOT = Path(__file__).parents[2]
DEPLOYMENT = ROOT / "docs" / "deployment"
ARCHIVE = DEPLOYMENT / "archive"
UNITS = sorted((DEPLOYMENT / "systemd").glob("*.service"))
VARIABLES = {f"DISCREET_{name.upper()}" for name in Settings.model_fields} | {
    "DISCREET_CREDENTIALS"
}


def load_rehearsal() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "deployment_rehearsal", ROOT / ".ci" / "deployment_rehearsal.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


rehearsal = load_rehearsal()
BUILD, IMAGE = rehearsal.read_dockerfile((ROOT / "Dockerfile").read_text())
COMPOSE = rehearsal.read_compose((ROOT / "compose.yaml").read_text())
SERVICES = {
    name: service for name, service in COMPOSE["services"].items() if service["image"] == "discreet"
}


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a command line of discreet; click's UsageError for what it does not
    understand."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("discreet", [words[0], "--help"], resilient_parsing=True)
    return dict(
        command.commands[words[0]].make_context(words[0], list(words[1:]), parent=context).params
    )


def test_image_is_built_from_the_hashed_lock_and_runs_as_nobody_in_particular() -> None:
    text = (ROOT / "Dockerfile").read_text()
    (install,) = [
        rest for name, rest in BUILD.steps if "pip install" in rest and "--require-hashes" in rest
    ]
    assert "-r .ci/lock/runtime.txt" in install
    assert "--only-binary :all:" in install
    for _, rest in BUILD.steps + IMAGE.steps:  # nothing else is fetched
        if "pip " in rest and rest != install:
            assert "--no-index" in rest or "uninstall" in rest
        assert not re.search(r"\b(curl|wget|apt-get|git|sudo)\b", rest)
    assert IMAGE.user == "10001:10001"
    assert f"discreet:x:{IMAGE.user}:" in text
    assert IMAGE.volumes == [IMAGE.environment["DISCREET_STATE"]]
    assert IMAGE.environment.keys() & VARIABLES == {
        name for name in IMAGE.environment if name.startswith("DISCREET")
    }
    assert IMAGE.entrypoint == ["discreet"]
    assert parsed(IMAGE.command)["port"] in IMAGE.ports
    assert IMAGE.health[0] == "discreet"
    assert (
        parsed(IMAGE.health[1:])["url"]
        == f"http://127.0.0.1:{parsed(IMAGE.command)['port']}/readyz"
    )
    assert not re.search(r"^(ADD|MAINTAINER|SHELL|ONBUILD)\b", text, re.MULTILINE)
    assert ":latest" not in text
    with pytest.raises(ValueError, match="unknown instruction: ADD"):
        rehearsal.read_dockerfile("FROM x\nADD . .")


def test_compiled_code_is_newer_than_the_times_that_layers_keep() -> None:
    """Layers keep whole seconds, so what is compiled for a source's time before it is rounded is
    compiled again by each container that starts."""
    (last,) = [rest for name, rest in BUILD.steps if name == "RUN" and "compileall" in rest]
    assert BUILD.steps[-1] == ("RUN", last)
    places = [
        last.index(word)
        for word in ("touch --no-dereference --date=@", "compileall", "NUMBA_CACHE_DIR=")
    ]
    assert places == sorted(places)
    assert f"@{BUILD.environment['SOURCE_DATE_EPOCH']} " in last
    assert BUILD.environment["PIP_NO_COMPILE"] == "1"


def test_programs_of_the_build_find_what_they_import() -> None:
    """The programs themselves run only where an image is built."""
    found = set()
    for name, rest in BUILD.steps:
        for program in re.findall(r"python -c '([^']+)'", rest) if name == "RUN" else ():
            for statement in ast.walk(ast.parse(program)):
                if isinstance(statement, ast.ImportFrom):
                    assert statement.module is not None
                    for each in statement.names:
                        exec(f"from {statement.module} import {each.name}", {})  # noqa: S102
                        found.add(each.name)
    assert found == {"KERNELS", "reading", "solving"}


def test_context_has_what_is_tracked_and_needed_and_nothing_else() -> None:
    if (git := shutil.which("git")) is None:
        pytest.skip("git is not installed")
    listed = subprocess.run(
        [git, "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    tracked = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    taken = set(rehearsal.context_files(ROOT))
    places = ("service/", "clients/agent/", "clients/python/", "migrations/", "docs/")
    unseen = ("docs/deployment/", "docs/pictures/dashboard/", "docs/reference/")
    needed = {
        name for name in tracked if name.startswith(places) and not name.startswith(unseen)
    } | {
        "pyproject.toml",
        ".ci/lock/runtime.txt",
    }
    assert needed - taken == set()
    assert taken <= {*tracked, *(name for name in taken if name.startswith(places))}
    never = re.compile(r"\.pyc$|\.nb[ic]$|secrets|\.key$|\.env")
    assert not [
        name
        for name in taken
        if never.search(name.rpartition("/")[2]) and not name.endswith((".py", ".mako"))
    ]
    copied = {word for _, rest in BUILD.steps if _ == "COPY" for word in shlex.split(rest)[:-1]}
    assert all((ROOT / word).exists() for word in copied)
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    made_of = {Path(place).parts[0] for place in (*wheel["only-include"], *wheel["force-include"])}
    assert made_of == {"docs", "migrations", "service"} <= copied


@pytest.mark.parametrize("name", SERVICES)
def test_services_of_compose(name: str) -> None:
    service = SERVICES[name]
    options = parsed(service["command"])
    assert service["user"] == IMAGE.user
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert any(place.startswith("/tmp") for place in service["tmpfs"])
    assert [place.rpartition(":")[2] for place in service["volumes"]] == IMAGE.volumes
    assert set(service.get("environment", {})) <= VARIABLES
    assert set(service["secrets"]) <= set(COMPOSE["secrets"])
    assert set(service["depends_on"]) <= set(COMPOSE["services"])
    for value in service.get("environment", {}).values():
        if value.startswith("/run/secrets/"):
            assert value.removeprefix("/run/secrets/") in service["secrets"]
    for word in service["secrets"]:
        assert word.startswith(("rpc.", "secrets.json")) or word.upper() in VARIABLES
    assert ("discreet_migration_database_url" in service["secrets"]) == (name == "migrate")
    for published in service.get("ports", ()):
        assert int(published.rpartition(":")[2]) == options["port"]
        assert options["port"] in IMAGE.ports
    if name != "migrate":
        test = service.get("healthcheck", {}).get("test", ["CMD", *IMAGE.health])
        url = parsed(test[2:])["url"]
        probed = options["port" if name == "api" else "metrics_port"]
        assert url == f"http://127.0.0.1:{probed}/readyz"
        assert options["metrics_port"] in IMAGE.ports


def test_compose_has_the_shape_of_production() -> None:
    replicas = {
        name: service.get("deploy", {}).get("replicas", 1) for name, service in SERVICES.items()
    }
    assert replicas == {"migrate": 1, "api": 2, "rpc": 1, "worker": 2}
    assert {
        name: next(iter(s["depends_on"].values()))["condition"] for name, s in SERVICES.items()
    } == {
        "migrate": "service_healthy",
        **dict.fromkeys(("api", "rpc", "worker"), "service_completed_successfully"),
    }
    assert COMPOSE["services"]["postgres"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"]["internal"] is True
    assert "ports" not in SERVICES["worker"]
    assert set(COMPOSE["services"]["postgres"]["secrets"]) == {
        "superuser_password",
        "owner_password",
        "app_password",
    }
    script = (DEPLOYMENT / "prepare-secrets.sh").read_text()
    for one in COMPOSE["secrets"].values():
        assert Path(one["file"]).name in script


def test_each_postgresql_is_archived_alike() -> None:
    """What the rehearsal (tests/reliability/test_archive.py) does with archive.conf is what compose
    and CloudNativePG do."""
    own = re.findall(r"^(\w+) = (?:'([^']*)'|(\w+))", (ARCHIVE / "archive.conf").read_text(), re.M)
    settings = {name: quoted or plain for name, quoted, plain in own}
    assert set(settings) == {"archive_mode", "archive_timeout", "archive_command"}
    script = shlex.split(settings["archive_command"])[1]
    compose = rehearsal.read_compose((ARCHIVE / "compose.yaml").read_text())
    base, archived = COMPOSE["services"]["postgres"], compose["services"]["postgres"]
    assert archived["command"] == [
        *base["command"],
        *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
    ]
    (copier,) = set(compose["services"]) - {"postgres"}
    assert f"sh {script} base;" in compose["services"][copier]["command"][2]
    assert set(compose["services"][copier]["depends_on"]) <= set(COMPOSE["services"])
    for service in compose["services"].values():
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service["secrets"]) <= set(compose["secrets"])
        assert {place.partition(":")[0] for place in service["volumes"]} <= {
            *COMPOSE["volumes"],
            *compose["volumes"],
        }
    assert (
        (ROOT / archived["build"] / "Dockerfile")
        .read_text()
        .endswith(f"COPY archive.sh {script}\n")
    )
    assert (
        f"ExecStart=/bin/sh {script} base\n" in (ARCHIVE / "discreet-archive.service").read_text()
    )
    named = set(re.findall(r"\bARCHIVE_\w+", (ARCHIVE / "archive.sh").read_text()))
    assert set(re.findall(r"\bARCHIVE_\w+(?==)", (ARCHIVE / "archive.env").read_text())) == named

    store, cluster, daily = yaml.safe_load_all((ARCHIVE / "cloudnative-pg.yaml").read_text())
    (plugin,) = cluster["spec"]["plugins"]
    assert plugin["parameters"]["barmanObjectName"] == store["metadata"]["name"]
    assert plugin["isWALArchiver"] is True
    assert daily["spec"]["cluster"] == {"name": cluster["metadata"]["name"]}
    assert daily["spec"]["pluginConfiguration"]["name"] == plugin["name"]
    parameters = cluster["spec"]["postgresql"]["parameters"]
    told = dict(word.split("=", 1) for word in base["command"][2::2])
    assert {**told, "archive_timeout": f"{settings['archive_timeout']}s"} == parameters


def test_prepared_secrets_are_private_and_kept(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: prepare-secrets.sh makes gRPC's certificate with it")
    folder = tmp_path / "my secrets"
    command = [
        "/bin/sh",
        str(DEPLOYMENT / "prepare-secrets.sh"),
        str(folder),
        sys.executable,
        "-m",
        "discreet",
    ]
    subprocess.run(command, check=True, capture_output=True)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(first) == {Path(one["file"]).name for one in COMPOSE["secrets"].values()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert json.loads(first["secrets.json"])["version"] == 1
    assert first["app_password"] in first["discreet_database_url"]
    assert first["owner_password"] in first["discreet_migration_database_url"]
    assert len(set(first.values())) == len(first)
    subprocess.run(command, check=True, capture_output=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_of_systemd(unit: Path) -> None:
    lines = [
        line.partition("=")
        for line in unit.read_text().splitlines()
        if "=" in line and not line.startswith("#")
    ]
    values = {key: value for key, _, value in lines}
    program, *words = shlex.split(values["ExecStart"].replace("%i", "1"))
    assert program == "/opt/discreet/bin/discreet"
    parsed(words)
    assert values["ProtectSystem"] == "strict"
    assert values["NoNewPrivileges"] == "yes"
    assert values["User"] == "discreet"
    assert "MemoryDenyWriteExecute" not in values  # kernels are compiled at run time
    children = words[0] in ("worker", "rpc")
    assert (values["RestrictNamespaces"] == "yes") == (
        not children
    )  # a step's child lives in namespaces of its own
    for key, _, value in lines:
        if key == "LoadCredential":
            name = value.partition(":")[0]
            assert name.upper() in VARIABLES
            assert (name == "discreet_migration_database_url") <= (words[0] == "migrate")
        if key == "Environment":
            names = {word.partition("=")[0] for word in value.split()}
            assert names <= {*VARIABLES, "PYTHONDONTWRITEBYTECODE"}


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    names = []
    units = *(DEPLOYMENT / "systemd").iterdir(), *ARCHIVE.glob("discreet-archive.*")
    for path in units:
        for name in [path.name.replace("@.", f"@{number}.") for number in (1, 2)]:
            text = path.read_text().replace(
                "/opt/discreet/bin/discreet", "/bin/true"
            )  # not installed here
            (tmp_path / name).write_text(text)
            names.append(str(tmp_path / name))
    done = subprocess.run(
        ["/usr/bin/env", "systemd-analyze", "verify", "--man=no", *sorted(set(names))],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to setup working directory" in done.stderr:
        pytest.skip(
            "systemd-analyze needs a folder of its own in /run or /tmp, and may not write there"
        )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stderr


def test_settings_from_a_folder_of_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("DISCREET_")]:
        monkeypatch.delenv(name)
    (tmp_path / "discreet_database_url").write_text(
        "postgresql://discreet_app:secret@db/discreet\n"
    )
    (tmp_path / "discreet_migration_database_url").write_text(
        "postgresql://discreet_owner:more@db/discreet\n"
    )
    for variable in CREDENTIALS:
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(tmp_path))
            settings = Settings()
            assert settings.database_url == "postgresql://discreet_app:secret@db/discreet"
            patch.setenv("DISCREET_DATABASE_URL", "postgresql://other@db/discreet")
            assert Settings().database_url == "postgresql://other@db/discreet"
            assert Settings(database_url=None).database_url is None
            # The parts of `discreet up` are told what they may know, and no folder where more
            # stands.
            given = prepared.environment_of(
                settings.model_copy(update={"migration_database_url": None})
            )
            assert not [name for name in CREDENTIALS if name in given]
            assert "more" not in " ".join(given.values())
    monkeypatch.setenv("DISCREET_CREDENTIALS", str(tmp_path / "missing"))
    assert Settings().database_url is None
