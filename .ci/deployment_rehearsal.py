"""Build and run the image without a container engine: `.venv/bin/python
.ci/deployment_rehearsal.py`, as root.

There is one source: the lines that run are those of `Dockerfile`, `.dockerignore` and
`compose.yaml`, read from there.

1. The context is copied as `.dockerignore` lets it. The stage `build` runs line by line in a folder
   of its own, mounted where the Dockerfile says; the last stage gets what it copies from there, in
   a root of its own with this /usr.
2. `docs/deployment/prepare-secrets.sh` makes the secrets, PostgreSQL (the binaries of the package)
   is started apart as user `nobody`, and gets its roles from `docs/deployment/postgres/roles.sh`.
3. Every service of compose.yaml that uses the image runs in a mount namespace of its own, as user
   10001 without capabilities, with a read-only root, its state folder and /tmp; its health check is
   asked until it passes. All are in one network namespace, each with an address of loopback, which
   replaces 0.0.0.0 and 127.0.0.1 in its commands.
4. Migration, first keys, a dataset through one API, its job by a worker, the result from the other
   API, the ledger exported and verified; then SIGTERM, and everything must end in time with status
   0 or by the signal.

What it cannot show: the base image itself, PostgreSQL's image, an engine's seccomp profile,
published ports.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INSTRUCTION = re.compile(r"^([A-Z]+)\s+(.*)$", re.DOTALL)
WAIT_SECONDS = 300.0


class Failed(Exception):
    """A step of the rehearsal failed; the message is for people."""


# What the files say -------------------------------------------------------------------------------


@dataclass
class Stage:
    """One stage of a Dockerfile: its instructions in order, and what they add up to."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)


def read_dockerfile(text: str) -> list[Stage]:
    """Its stages. ValueError for an instruction that this rehearsal does not know."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    stages: list[Stage] = []
    for part in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        match = INSTRUCTION.match(part)
        if match is None:
            raise ValueError(f"no instruction: {part}")
        name, rest = match.groups()
        if name == "ARG" and not stages:
            continue
        if name == "FROM":
            words = rest.split()
            stages.append(Stage(words[2] if words[1:2] == ["AS"] else str(len(stages))))
            continue
        stage = stages[-1]
        if name == "ENV":
            stage.environment |= dict(word.split("=", 1) for word in shlex.split(rest))
        elif name == "WORKDIR":
            stage.folder = rest
        elif name == "USER":
            stage.user = rest
        elif name == "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        elif name == "CMD":
            stage.command = json.loads(rest)
        elif name == "HEALTHCHECK":
            stage.health = json.loads(rest[rest.index("[") :])
        elif name == "VOLUME":
            stage.volumes += rest.split()
        elif name == "EXPOSE":
            stage.ports += [int(word) for word in rest.split()]
        elif name in ("RUN", "COPY"):
            stage.steps.append(
                (name, re.sub(r"^--mount=\S+\s+", "", rest) if name == "RUN" else rest)
            )
        elif name not in ("LABEL", "STOPSIGNAL"):
            raise ValueError(f"an unknown instruction: {name}")
        if name in ("WORKDIR",):
            stage.steps.append((name, rest))
    return stages


def context_files(root: Path) -> list[str]:
    """What `.dockerignore` lets into the context: the last line that matches a path or a folder
    above it counts."""
    rules = [
        line
        for line in (root / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]

    def taken(path: str) -> bool:
        parts = path.split("/")
        prefixes = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        answer = True
        for rule in rules:
            pattern = rule.removeprefix("!")
            names = parts if pattern.startswith("**/") else prefixes
            if any(fnmatch.fnmatchcase(name, pattern.removeprefix("**/")) for name in names):
                answer = rule.startswith("!")
        return answer

    found = [
        str(path.relative_to(root))
        for top in sorted(
            {rule.lstrip("!").split("/")[0] for rule in rules if rule.startswith("!")}
        )
        for path in ([root / top] if (root / top).is_file() else sorted((root / top).rglob("*")))
        if path.is_file()
    ]
    return [path for path in found if taken(path)]


def read_compose(text: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415  only where the services run

    return dict(yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)))


# The image ----------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(f"[rehearsal {time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


def run(command: list[str], **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)[:300]}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(stages: list[Stage], work: Path) -> Path:
    """The root of the last stage."""
    context = work / "context"
    for path in context_files(ROOT):
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, context / path)
    first, last = stages
    opt = work / "build" / "opt"
    opt.mkdir(parents=True)
    base = {
        name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_", "LANG"))
    }
    path = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    folder = "/"
    for name, rest in first.steps:
        if name == "WORKDIR":
            folder = rest
            (work / "build" / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            *sources, target = shlex.split(rest)
            for source in sources:
                copy(context / source, work / "build" / folder.lstrip("/") / target)
        else:
            say(f"build: {rest[:100]}")
            inner = (
                f"mount --bind {shlex.quote(str(opt))} /opt && cd {folder} && exec /bin/sh -ec "
                f"{shlex.quote(rest)}"
            )
            environment = {
                **base,
                **first.environment,
                "PATH": path,
                "HOME": os.environ.get("HOME", "/root"),
            }
            run(["unshare", "--mount", "/bin/sh", "-ec", inner], env=environment)
    root = make_root(work / "image")
    for name, rest in last.steps:
        if name == "COPY":
            source, target = rest.removeprefix(f"--from={first.name} ").split()
            run(
                [
                    "cp",
                    "-a",
                    str(work / "build" / source.lstrip("/")),
                    str(root / target.lstrip("/")),
                ]
            )
        elif name == "RUN":
            run(
                [
                    "unshare",
                    "--mount",
                    "/bin/sh",
                    "-ec",
                    f"{mounts(root)}\nexec chroot {root} /bin/sh -ec {shlex.quote(rest)}",
                ]
            )
    return root


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        place = target / source.name if target.is_dir() or str(target).endswith("/") else target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)


def make_root(root: Path) -> Path:
    """Stands in for the base image: empty, with a copy of some of /etc and places where `mounts`
    puts the rest."""
    for name in ("usr", "etc", "proc", "dev", "tmp", "run/secrets", "opt", "var/lib", "var/tmp"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(os.readlink(Path("/", name)))
    for name in (
        "passwd",
        "group",
        "shadow",
        "gshadow",
        "login.defs",
        "nsswitch.conf",
        "ld.so.cache",
        "localtime",
    ):
        if Path("/etc", name).exists():
            shutil.copy2(Path("/etc", name), root / "etc" / name)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n127.0.0.2 postgres\n")
    prefix = root / sys.base_prefix.lstrip("/")  # a Python that was built for its place
    if not sys.base_prefix.startswith("/usr"):
        prefix.mkdir(parents=True)
    return root


def mounts(root: Path) -> str:
    prefix = (
        ""
        if sys.base_prefix.startswith("/usr")
        else f"mount --bind -o ro {sys.base_prefix} {root}{sys.base_prefix}"
    )
    return (
        f"mount --bind -o ro /usr {root}/usr\n{prefix}\nmount -t proc proc {root}/proc\nmount "
        f"--rbind /dev {root}/dev"
    )


# Its containers -----------------------------------------------------------------------------------


@dataclass
class Container:
    """One replica of a service."""

    name: str
    address: str
    process: subprocess.Popen[bytes]
    log: Path
    service: dict[str, Any]


class Engine:
    """Runs services of compose.yaml from the root of an image, each with an address of loopback."""

    def __init__(
        self, image: Stage, root: Path, compose: dict[str, Any], work: Path, network: list[str]
    ) -> None:
        self.image, self.root, self.compose, self.work, self.network = (
            image,
            root,
            compose,
            work,
            network,
        )
        self.running: list[Container] = []
        self._addresses = iter(f"127.0.0.{number}" for number in range(10, 100))

    def command(
        self,
        service: dict[str, Any],
        state: Path,
        address: str,
        command: list[str],
        entrypoint: bool = True,
    ) -> list[str]:
        """What runs `command` as this service would."""
        assert service["read_only"] is True
        user, group = service["user"].split(":")
        environment = {**self.image.environment, **service.get("environment", {})}
        words = self.words(command, address, entrypoint)
        variables = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
        root = self.root
        secrets = ""
        for name in service.get("secrets", ()):
            source, target = (
                self.work / self.compose["secrets"][name]["file"],
                root / "run/secrets" / name,
            )
            secrets += f"touch {target} && mount --bind -o ro {source} {target}\n"
        script = f"""
            mount --bind {root} {root}
            {mounts(root)}
            mount -t tmpfs -o mode=1777 tmpfs {root}/tmp
            mount -t tmpfs -o mode=0755 tmpfs {root}/run/secrets
            {secrets}
            mount -o remount,ro {root}/run/secrets
            mount --bind {state} {root}{self.image.volumes[0]}
            mount -o remount,bind,ro {root}
            exec chroot {root} /usr/bin/env -i --chdir={self.image.folder} {variables} \\
              /usr/bin/setpriv --reuid {user} --regid {group} --clear-groups \\
              --bounding-set=-all --inh-caps=-all --no-new-privs {shlex.join(words)}
        """  # noqa: S108  the container's own /tmp
        return [*self.network, "unshare", "--mount", "/bin/sh", "-ec", script]

    def words(self, command: list[str], address: str, entrypoint: bool) -> list[str]:
        """The arguments of a container's first process, with the address that is its own."""
        words = [*(self.image.entrypoint if entrypoint else []), *command]
        return [re.sub(r"\b(0\.0\.0\.0|127\.0\.0\.1)\b", address, word) for word in words]

    def state(self, name: str) -> Path:
        """A volume: its owner and mode are those of the folder in the image."""
        place = self.work / "volumes" / name
        if not place.exists():
            place.mkdir(parents=True)
            found = (self.root / self.image.volumes[0].lstrip("/")).stat()
            os.chown(place, found.st_uid, found.st_gid)
            place.chmod(found.st_mode & 0o777)
        return place

    def once(self, name: str, command: list[str], entrypoint: bool = True) -> str:
        """`docker compose run --rm`: the output; Failed unless it exits with 0."""
        service = self.compose["services"][name]
        return run(
            self.command(service, self.state("keys"), next(self._addresses), command, entrypoint)
        )

    def up(self, name: str) -> None:
        service = self.compose["services"][name]
        for number in range(service.get("deploy", {}).get("replicas", 1)):
            address, label = next(self._addresses), f"{name}-{number + 1}"
            log = self.work / f"{label}.log"
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    self.command(service, self.state(label), address, service["command"]),
                    stdout=stream,
                    stderr=stream,
                )
            self.running.append(Container(label, address, process, log, service))

    def await_health(self) -> None:
        for one in self.running:
            words = one.service.get("healthcheck", {}).get("test", ["CMD", *self.image.health])[1:]
            probe = self.command(
                one.service, self.state(one.name), one.address, words, entrypoint=False
            )
            deadline = time.monotonic() + WAIT_SECONDS
            while (
                done := subprocess.run(probe, capture_output=True, text=True, check=False)
            ).returncode != 0:
                if one.process.poll() is not None or time.monotonic() > deadline:
                    raise Failed(
                        f"{one.name} is not healthy: {done.stderr}\n{one.log.read_text()[-3000:]}"
                    )
                time.sleep(1)
            say(f"{one.name} is healthy at {one.address}")

    def stop(self, *, check: bool) -> None:
        for one in self.running:
            one.process.send_signal(signal.SIGTERM)
        for one in self.running:
            grace = float(one.service["stop_grace_period"].rstrip("s"))
            try:
                status = one.process.wait(grace)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
                status = -9
            if check and status not in (0, -signal.SIGTERM):
                raise Failed(
                    f"{one.name} ended with status {status}\n{one.log.read_text()[-3000:]}"
                )
        self.running.clear()


def start_postgres(
    compose: dict[str, Any], work: Path, python: Path, network: list[str]
) -> subprocess.Popen[bytes]:
    """A server of its own, not embedded, as its image would start it: on TCP, with the roles script
    run once."""
    find = f"""
from pathlib import Path
from discreet.installation.binaries import Binaries
found = Binaries.find()
print(found.folder, found.copied_to(Path({str(work / "programs")!r})).folder, sep="\\n")
"""
    # The server's user cannot be expected to enter the folder of this checkout.
    programs, own_programs = (
        Path(line) / "bin" for line in run([str(python), "-c", find]).splitlines()
    )
    data = work / "postgres"
    data.mkdir()
    shutil.chown(data, "nobody", "nogroup")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    password = work / "secrets" / "superuser_password"
    own = work / "password"
    shutil.copy(password, own)
    shutil.chown(own, "nobody", "nogroup")
    initdb = [
        f"{own_programs}/initdb",
        "--pgdata",
        str(data),
        "--username",
        "postgres",
        "--pwfile",
        str(own),
    ]
    run([*nobody, *initdb, "--auth", "scram-sha-256"])
    own.unlink()
    settings = compose["services"]["postgres"]["command"][1:]
    server = subprocess.Popen(
        [
            *network,
            *nobody,
            str(own_programs / "postgres"),
            "-D",
            str(data),
            "-k",
            str(data),
            "-h",
            "127.0.0.2",
            *settings,
        ],
        stdout=(work / "postgres.log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PGHOST": "127.0.0.2",
        "PGPASSWORD": password.read_text(),
        "OWNER_PASSWORD_FILE": str(work / "secrets" / "owner_password"),
        "APP_PASSWORD_FILE": str(work / "secrets" / "app_password"),
    }
    ready = [*network, str(programs / "pg_isready"), "--quiet", "--host", "127.0.0.2"]
    deadline = time.monotonic() + 60
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise Failed((work / "postgres.log").read_text())
        time.sleep(0.2)
    run([*network, "/bin/sh", str(ROOT / "docs/deployment/postgres/roles.sh")], env=environment)
    return server


# The rehearsal ------------------------------------------------------------------------------------


def ask(
    network: list[str], url: str, key: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One request from inside of the network."""
    request = {"url": url, "key": key, "body": body, "idempotency": str(uuid.uuid4())}
    answer = run([*network, sys.executable, __file__, "--ask"], input=json.dumps(request))
    return dict(json.loads(answer))


def asked() -> None:
    request = json.load(sys.stdin)
    headers = {
        "Authorization": f"Bearer {request['key']}",
        "Idempotency-Key": request["idempotency"],
    }
    body = None if request["body"] is None else json.dumps(request["body"]).encode()
    if body is not None:
        headers["Content-Type"] = "application/json"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(request["url"], body, headers), timeout=60) as answer:  # noqa: S310
        sys.stdout.write(answer.read().decode())


def scenario(engine: Engine, network: list[str]) -> None:
    say("migrate")
    print("   ", engine.once("migrate", engine.compose["services"]["migrate"]["command"]).strip())
    place = f"{engine.image.volumes[0]}/owner.key"
    engine.once("migrate", ["bootstrap", "--owner-key", place])
    key = engine.once("migrate", ["cat", place], entrypoint=False).strip()
    for name in ("api", "rpc", "worker"):
        engine.up(name)
    engine.await_health()
    first, second = (
        f"http://{one.address}:8080" for one in engine.running if one.name.startswith("api")
    )
    network_ = {
        "nodes": 3,
        "links": [
            {"tail": a, "head": b, "free_flow_time": 1, "capacity": 50}
            for a in (1, 2, 3)
            for b in (1, 2, 3)
            if a != b
        ],
    }
    trips = [
        {"period": 0, "origin": a, "destination": b, "count": 20}
        for a in (1, 2, 3)
        for b in (1, 2, 3)
        if a != b
    ]
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
    dataset = {
        "name": "rehearsal",
        "kind": "routing",
        "public": public,
        "content": {"trips": trips},
        "cap": {"epsilon": 1, "delta": 0},
    }
    made = ask(network, f"{first}/v1/datasets", key, dataset)
    problem = {
        "kind": "routing",
        "dataset": made["id"],
        "network": network_,
        "objective": "system_optimum",
        "method": "counts",
    }
    job = ask(network, f"{first}/v1/jobs", key, {"problem": problem, "privacy": {"epsilon": 0.5}})
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := ask(network, f"{second}/v1/jobs/{job['id']}", key))["state"] not in (
        "succeeded",
        "failed",
    ):
        if time.monotonic() > deadline:
            raise Failed(f"the job does not end: {found}")
        time.sleep(0.5)
    result = ask(network, f"{second}/v1/jobs/{job['id']}/result", key)
    say(f"job {found['state']}; certificate: {result['certificate']['guarantee']}")
    if found["state"] != "succeeded":
        raise Failed(str(found))
    asked_of = ["--server", f"http://{engine.running[0].address}:8080", "--key", key]
    certificate = f"{engine.image.volumes[0]}/certificate.json"
    engine.once("migrate", ["certificate", "get", job["id"], "--out", certificate, *asked_of])
    say(engine.once("migrate", ["certificate", "verify", certificate]).strip())
    export = f"{engine.image.volumes[0]}/ledger.jsonl"
    engine.once("migrate", ["ledger", "export", export, *asked_of])
    say(engine.once("migrate", ["ledger", "verify", export]).strip())


BEGAN = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--keep",
        type=Path,
        help="A folder that keeps the image for the next rehearsal, and its logs",
    )
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        asked()
        return 0
    if os.geteuid() != 0:
        print(
            "the rehearsal needs root: it mounts folders and becomes other users", file=sys.stderr
        )
        return 1
    stages = read_dockerfile((ROOT / "Dockerfile").read_text())
    with tempfile.TemporaryDirectory(prefix="discreet-rehearsal-") as temporary:
        work = arguments.keep or Path(temporary)
        work.mkdir(exist_ok=True)
        work.chmod(0o755)
        try:
            return rehearse(stages, work)
        except Failed as failed:
            print(f"[rehearsal] failed: {failed}", file=sys.stderr)
            return 1


def rehearse(stages: list[Stage], work: Path) -> int:
    root = work / "image"
    if not (work / "built").exists():
        build(stages, work)
        (work / "built").touch()
    size = int(run(["du", "-sm", str(root / "opt")]).split()[0])
    say(f"the image is built: {size} MB above its base")
    missing = run(["/bin/sh", "-c", f"find {root}/opt -user +0 -o -perm -o+w ! -type l | head -3"])
    if missing:
        raise Failed(f"the installation can be changed by others: {missing}")
    for name in ("volumes", "postgres", "programs", "secrets"):
        shutil.rmtree(work / name, ignore_errors=True)
    run(
        [
            "/bin/sh",
            str(ROOT / "docs/deployment/prepare-secrets.sh"),
            str(work / "secrets"),
            str(root / "opt/discreet/bin/python"),
            "-m",
            "discreet",
        ]
    )
    compose = read_compose((ROOT / "compose.yaml").read_text())
    with lonely_network() as network, postgres(compose, work, Path(sys.executable), network):
        engine = Engine(stages[-1], root, compose, work, network)
        try:
            scenario(engine, network)
            engine.stop(check=True)
            say("everything ended when it was told to")
        finally:
            engine.stop(check=False)
    return 0


@contextmanager
def lonely_network() -> Iterator[list[str]]:
    """What enters a network of its own, while the block runs: fixed ports are free there, and
    nothing but loopback can be reached."""
    lonely = "ip link set lo up; echo up; exec sleep 86400"
    holder = subprocess.Popen(
        ["/usr/bin/unshare", "--net", "/bin/sh", "-ec", lonely], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "--"]
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def postgres(
    compose: dict[str, Any], work: Path, python: Path, network: list[str]
) -> Iterator[None]:
    """A PostgreSQL with discreet's roles at 127.0.0.2 while the block runs."""
    server = start_postgres(compose, work, python, network)
    try:
        yield
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


if __name__ == "__main__":
    raise SystemExit(main())
