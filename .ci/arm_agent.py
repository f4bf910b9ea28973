"""An agent on 64-bit ARM without gmpy2 in a session with agents of this machine: `make arm`, as
root, on Debian with qemu-user-static, binfmt-support and mmdebstrap.

Debian for arm64 is unpacked into a folder, with wheels of what an agent needs, and its programs run
under an emulation of the processor: what is tried are the wheels, the arithmetic without GMP and
the numbers of another processor, not the speed of one. Four vehicles of `examples/ev_charging.py`
solve a problem by `auto`, one of them there. It fails unless all end with the same multipliers, to
the last bit: prices follow from opened sums by operations in a fixed order.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VEHICLES = 4
NEEDED = ("cryptography", "grpcio", "numpy", "phe", "protobuf")
AGENT = """
import json, platform, resource, runpy, sys
from importlib.util import find_spec
assert find_spec("gmpy2") is None
sys.argv = ["discreet-agent", *sys.argv[1:]]
try:
    runpy.run_module("discreet_agent.cli", run_name="__main__")
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    said = {"machine": platform.machine(), "seconds": used.ru_utime + used.ru_stime}
    print(json.dumps(said), file=sys.stderr)
"""


def run(*command: str | Path, **named: Any) -> str:
    words = [str(one) for one in command]
    return str(subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **named).stdout)


def make_root(place: Path) -> None:
    """Debian for arm64 with a Python that has what an agent imports, but gmpy2."""
    packages = "python3,python3-venv,ca-certificates"
    suite = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    assert suite is not None
    run("mmdebstrap", "--quiet", "--arch=arm64", "--variant=minbase", f"--include={packages}",
        suite[1], place)  # fmt: skip
    shutil.copy("/etc/resolv.conf", place / "etc")
    bundle = place / "etc/ssl/certs/ca-certificates.crt"
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", bundle)
    run("chroot", place, "python3", "-m", "venv", "/env")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    run("chroot", place, "/env/bin/pip", "install", "--quiet", "--only-binary", ":all:", *NEEDED,
        env=own)  # fmt: skip


def files(folder: Path) -> None:
    """The job, and what each vehicle keeps to itself."""
    made = json.loads(run(sys.executable, ROOT / "examples/ev_charging.py", str(VEHICLES)))
    problem = made["problem"]
    agents = problem.pop("agents")
    del problem["steps"]
    rows = len(problem["operator"]["c"])
    problem |= {
        "mode": "private",
        "protocol": "federated",
        "exposure": "accepted",
        "agents": {"count": VEHICLES, "coupled": rows, "constraints": rows},
        "federation": {"agents": VEHICLES, "round_seconds": 300},
    }
    (folder / "job.json").write_text(json.dumps({"problem": problem}))
    for place, agent in enumerate(agents):
        own = {"kind": "coupled_qp", **agent, "demands": {"exposure": "accepted", "agents": 2}}
        (folder / f"agent{place}.json").write_text(json.dumps(own))


def started(state: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "discreet", "up", "--port", str(port), "--state", str(state)]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    for line in service.stdout:
        if "stop" in line:
            return service
    raise SystemExit("the service did not start")


def session(folder: Path, place: Path, port: int) -> list[dict[str, Any]]:
    """What each agent was told, the one on ARM first."""
    key = (folder / "state/owner.key").read_text().strip()
    told = os.environ | {
        "DISCREET_URL": f"http://127.0.0.1:{port}",
        "DISCREET_KEY": key,
        "COLUMNS": "2000",
        "XDG_DATA_HOME": str(folder / "data"),
    }

    def discreet(*words: str) -> str:
        return run(sys.executable, "-m", "discreet", *words, env=told, cwd=folder)

    job = discreet("submit", "job.json").split()[-1]
    text = discreet("session", "tokens", job, "--count", str(VEHICLES))
    tokens = sorted(set(re.findall(r"dsc://\S+", text)))
    shutil.copytree(ROOT / "clients/agent", place / "client", dirs_exist_ok=True)
    files_there = place / "agent"
    shutil.rmtree(files_there, ignore_errors=True)
    files_there.mkdir()
    shutil.copy(folder / "agent0.json", files_there / "agent.json")
    (files_there / "agent.py").write_text(AGENT)
    there = ["chroot", str(place), "/usr/bin/env", "PYTHONPATH=/client", "/env/bin/python"]
    there += ["/agent/agent.py", "--problem", "/agent/agent.json", "--identity", "/agent/key"]
    agents = []
    for number, token in enumerate(tokens):
        own = ["--problem", f"agent{number}.json", "--identity", f"{number}.key"]
        here = [sys.executable, "-m", "discreet_agent.cli", *own]
        command = [*(here if number else there), "--token", token]
        agents.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder))
    while len(json.loads(discreet("session", "show", job, "--json"))["agents"]) < VEHICLES:
        time.sleep(1)
    discreet("session", "approve", job, "--yes")
    return [json.loads(agent.communicate(timeout=1200)[0].splitlines()[-1]) for agent in agents]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", type=Path, help="a folder to keep Debian for arm64 in")
    parser.add_argument("--port", type=int, default=9340)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="discreet arm ") as name:
        folder = Path(name)
        place = given.root or folder / "root"
        if not place.exists():
            make_root(place)
        files(folder)
        service = started(folder / "state", given.port)
        try:
            answers = session(folder, place, given.port)
        finally:
            service.terminate()
            service.wait()
    first = answers[0]
    if any(one["multipliers"] != first["multipliers"] for one in answers):
        raise SystemExit("the agents' multipliers differ")
    print(f"{VEHICLES} agents, the first on arm64: {first['rounds']} rounds, converged: "
          f"{first['settled']}, the same multipliers to the last bit")  # fmt: skip


if __name__ == "__main__":
    main()
