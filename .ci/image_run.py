"""Runs the built image as an engine would: `python .ci/image.py run`, as root.

Each container is an OCI bundle run by crun: user 10001 without any capability, no new privileges, a
read-only root, its own processes, mounts, System V objects and host name, proc masked as engines
mask it, /tmp and the state folder to write to. System calls are filtered by the profile of engines
of containers/common (Podman, Buildah, CRI-O), less what Docker and containerd keep for
CAP_SYS_ADMIN: namespaces and mounts.

1. The walls that a child builds inside, under three profiles, and what of the list in
   `isolation/sandbox.py` it reached.
2. The scenario of `deployment_rehearsal.py`: PostgreSQL apart, every service of compose.yaml, a
   job, its certificate, the ledger.
3. How long an API and a worker take from nothing to ready, each alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import deployment_rehearsal as rehearsal
from deployment_rehearsal import Failed, Stage, run, say

PROFILE = Path("/usr/share/containers/seccomp.json")
"""Of the package golang-github-containers-common, which comes with buildah."""
NAMESPACES = (
    "unshare",
    "setns",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "pivot_root",
    "umount",
    "umount2",
    "keyctl",
    "request_key",
    "add_key",
)
"""What that profile allows anybody, and Docker's only with CAP_SYS_ADMIN, or never."""
CLONE_FLAGS = 0x7E020000
"""Flags of clone that make namespaces."""
NO_SYSTEM_CALL = 38
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
WALLS = """
import asyncio, dataclasses, json, os
from pathlib import Path
from discreet.private_files import kernel_cache

os.environ.update(kernel_cache(Path(os.environ["DISCREET_STATE"])))

from discreet.isolation.children import Zygote

async def main():
    zygote = Zygote()
    await zygote.start()
    print(json.dumps(dataclasses.asdict(zygote.isolation)))
    await zygote.stop()

asyncio.run(main())
"""


def profile(kind: str) -> dict[str, Any] | None:
    """A filter of system calls as the runtime takes it, for a container without capabilities.

    `none`: no filter; `engine`: that of containers/common; `strict`: as Docker does."""
    if kind == "none":
        return None
    said = json.loads(PROFILE.read_text())
    calls = []
    for rule in said["syscalls"]:
        needed = rule.get("includes") or {}
        if needed.get("caps") or "amd64" not in needed.get("arches", ["amd64"]):
            continue
        if "amd64" in (rule.get("excludes") or {}).get("arches", []):
            continue
        names = list(rule["names"])
        if kind == "strict":
            names = [name for name in names if name not in (*NAMESPACES, "clone", "clone3")]
        one = {"names": names, "action": rule["action"], "args": rule.get("args") or []}
        if "errnoRet" in rule and rule["action"] == "SCMP_ACT_ERRNO":
            one["errnoRet"] = rule["errnoRet"]
        if names:
            calls.append(one)
    if kind == "strict":
        no_flags = {"index": 0, "value": CLONE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
        calls.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_flags]})
        calls.append(
            {
                "names": ["clone3"],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": NO_SYSTEM_CALL,
                "args": [],
            }
        )
    return {
        "defaultAction": said["defaultAction"],
        "defaultErrnoRet": said.get("defaultErrnoRet", 1),
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": calls,
    }


def memory(place: str, *options: str) -> dict[str, Any]:
    """A mount that lies in memory."""
    return {
        "destination": place,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", *options],
    }


def bound(place: str, source: Path, mode: str) -> dict[str, Any]:
    """A file or folder of this machine."""
    return {"destination": place, "source": str(source), "options": ["rbind", mode]}


class Runtime(rehearsal.Engine):
    """Runs services of compose.yaml from an unpacked image, each with an address of loopback."""

    kind = "strict"

    def __init__(self, *arguments: Any, namespace: str) -> None:
        super().__init__(*arguments)
        self.namespace = namespace
        self._numbers = itertools.count()

    def command(
        self,
        service: dict[str, Any],
        state: Path,
        address: str,
        command: list[str],
        entrypoint: bool = True,
    ) -> list[str]:
        words = self.words(command, address, entrypoint)
        environment = {**self.image.environment, **service.get("environment", {})}
        binds = {self.image.volumes[0]: (state, "rw")}
        for name in service.get("secrets", ()):
            binds[f"/run/secrets/{name}"] = (
                self.work / self.compose["secrets"][name]["file"],
                "ro",
            )
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            memory("/dev", "mode=755"),
            memory("/dev/shm", "nodev", "mode=1777", "size=64m"),  # noqa: S108
            memory("/tmp", "nodev", "mode=1777"),  # noqa: S108
            memory("/run", "nodev", "mode=755"),
            bound("/etc/hosts", self.work / "hosts", "ro"),
            *(bound(place, source, mode) for place, (source, mode) in binds.items()),
        ]
        user, group = map(int, service["user"].split(":"))
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        specification = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user, "gid": group},
                "args": words,
                "env": [f"{name}={value}" for name, value in environment.items()],
                "cwd": self.image.folder,
                "capabilities": {},
                "noNewPrivileges": True,
            },
            "root": {"path": str(self.root), "readonly": True},
            "hostname": "discreet",
            "mounts": mounts,
            "linux": {
                "namespaces": [
                    *({"type": name} for name in ("pid", "mount", "ipc", "uts")),
                    {"type": "network", "path": self.namespace},
                ],
                "maskedPaths": list(MASKED),
                "readonlyPaths": list(READ_ONLY),
                **({"seccomp": filtered} if (filtered := profile(self.kind)) else {}),
            },
        }
        name = f"discreet-{os.getpid()}-{next(self._numbers)}"
        bundle = self.work / "bundles" / name
        bundle.mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(specification))
        place = ["--root", str(self.work / "crun"), "--cgroup-manager", "disabled"]
        # No cgroup is made; crun looks for them all the same, and refuses both versions at once.
        hidden = 'mount -t tmpfs tmpfs /sys/fs/cgroup; exec "$@"'
        return [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            hidden,
            "sh",
            "crun",
            *place,
            "run",
            "--bundle",
            str(bundle),
            name,
        ]

    def walls(self, kind: str) -> dict[str, Any]:
        """What a child builds under this profile, and what it reached from behind it."""
        self.kind = kind
        try:
            said = self.once("worker", ["python", "-c", WALLS], entrypoint=False)
        finally:
            self.kind = Runtime.kind
        return dict(json.loads(said.splitlines()[-1]))

    def seconds_to_ready(self, name: str, port: int) -> float:
        """From nothing to the first 200 of /readyz; the service is alone, its state folder new."""
        service = self.compose["services"][name]
        address = next(self._addresses)
        began = time.monotonic()
        with (self.work / f"alone-{name}.log").open("wb") as log:
            command = self.command(
                service, self.state(f"alone-{name}"), address, service["command"]
            )
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            run(
                [
                    *self.network,
                    sys.executable,
                    __file__,
                    "--await",
                    f"http://{address}:{port}/readyz",
                ]
            )
            return time.monotonic() - began
        finally:
            process.terminate()
            process.wait(60)


def wait_for(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + rehearsal.WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            with opener.open(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise SystemExit(f"{url} does not become ready")


def image_of(config: dict[str, Any]) -> Stage:
    """What the rehearsal reads from a Dockerfile, from the configuration of the image itself."""
    return Stage(
        name="image",
        environment=dict(word.split("=", 1) for word in config["Env"]),
        folder=config["WorkingDir"],
        user=config["User"],
        entrypoint=config["Entrypoint"],
        command=config["Cmd"],
        volumes=list(config["Volumes"]),
    )


def main(root: Path, config: dict[str, Any]) -> None:
    """Failed unless everything runs, and a child inside reaches nothing under any profile."""
    compose = rehearsal.read_compose((rehearsal.ROOT / "compose.yaml").read_text())
    with (
        tempfile.TemporaryDirectory(prefix="discreet-run-") as temporary,
        rehearsal.lonely_network() as network,
    ):
        work = Path(temporary)
        work.chmod(0o755)
        (work / "hosts").write_text("127.0.0.1 localhost\n127.0.0.2 postgres\n")
        prepare = str(rehearsal.ROOT / "docs/deployment/prepare-secrets.sh")
        run(["/bin/sh", prepare, str(work / "secrets"), sys.executable, "-m", "discreet"])
        namespace = network[1].partition("=")[2]
        engine = Runtime(image_of(config), root, compose, work, network, namespace=namespace)
        for kind in ("none", "engine", "strict"):
            found = engine.walls(kind)
            say(
                f"walls, profile {kind}: {found['level']}; {', '.join(found['walls'])}; "
                f"reached {found['reached'] or 'nothing'}"
            )
            if found["reached"]:
                raise Failed(f"a child reached {found['reached']} under the profile {kind}")
        with rehearsal.postgres(compose, work, Path(sys.executable), network):
            try:
                rehearsal.scenario(engine, network)
                engine.stop(check=True)
                for name, port in (("api", 8080), ("worker", 9090)):
                    say(f"{name}: ready after {engine.seconds_to_ready(name, port):.1f} s")
            finally:
                engine.stop(check=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--await", dest="url", required=True)
    wait_for(parser.parse_args().url)
