"""`make sdk`: the TypeScript types of the committed contract, the axes of its arrays, and the types
of the messages of agents.

    python clients/typescript/generate.py     write src/schema.d.ts, src/axes.ts and
                                              src/agent/federation_pb.ts
        --check                               exit 1 when it is not what is committed, or types do
                                              not hold
        --install                             only install node_modules, from package-lock.json

Without Node 20 and npm, or without a registry to install from, nothing is done and the exit code is
0 with a loud line (4 with --install); where CI is set it is 1.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
PROTOS = HERE.parents[1] / "protos" / "discreet" / "v1"
CONTRACT = HERE.parents[1] / "openapi" / "openapi.json"
MESSAGES = HERE / "src" / "agent" / "federation_pb.ts"
AXES = HERE / "src" / "axes.ts"
AXES_HEAD = """/** The names of the axes of each array in a result, by kind and field. */
// Made from openapi/openapi.json by `make sdk`.

"""
NODE = 20
INSTALL_SECONDS = 300
MISSING = 4


class Missing(Exception):
    """No Node here, or nothing to install from."""


def install() -> None:
    """node_modules of exactly package-lock.json; Missing when it cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing("node and npm are not installed")
    version = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < NODE:
        raise Missing(f"node {NODE} or newer is needed, this is {version}")
    modules = HERE / "node_modules"
    modules.mkdir(exist_ok=True)
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    with (HERE / ".install.lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = modules / ".discreet-lock"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        try:
            done = subprocess.run(
                [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"],
                cwd=HERE,
                capture_output=True,
                text=True,
                check=False,
                timeout=INSTALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Missing("npm ci took too long") from None
        if done.returncode != 0:
            raise Missing(f"npm ci failed: {done.stderr.strip().splitlines()[-1:]}")
        stamp.write_text(wanted)


def messages() -> str:
    """The types of protos/discreet/v1/federation.proto, by protoc (grpcio-tools) and
    protoc-gen-es."""
    from grpc_tools import protoc  # noqa: PLC0415  # `--install` is run where it need not be

    with TemporaryDirectory() as folder:
        arguments = [
            "protoc",
            f"-I{PROTOS}",
            f"-I{resources.files('grpc_tools') / '_proto'}",
            f"--plugin={HERE / 'node_modules' / '.bin' / 'protoc-gen-es'}",
            f"--es_out={folder}",
            "--es_opt=target=ts",
            "federation.proto",
        ]
        if protoc.main(arguments) != 0:
            raise RuntimeError("protoc failed")
        return (Path(folder) / MESSAGES.name).read_text()


def axes() -> str:
    """The module of the axes of arrays, which openapi-typescript leaves out: of each field of
    numbers the columns of its table without the last, which is the number."""
    schemas = json.loads(CONTRACT.read_text())["components"]["schemas"]
    lines = []
    for kind, reference in schemas["Results"]["properties"].items():
        lines.append(f"  {kind}: {{")
        for field, said in schemas[reference["$ref"].rpartition("/")[2]]["properties"].items():
            inner = said
            while inner.get("type") == "array":
                inner = inner["items"]
            if "x-table" in said and "$ref" not in inner:
                lines.append(f"    {field}: {json.dumps(said['x-table'][:-1])},")
        lines.append("  },")
    return AXES_HEAD + "\n".join(["export const AXES = {", *lines, "} as const;", ""])


def npm(script: str) -> int:
    return subprocess.run(["npm", "run", "--silent", script], cwd=HERE, check=False).returncode  # noqa: S607


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--install", action="store_true")
    chosen = parser.parse_args()
    try:
        install()
    except Missing as missing:
        print(
            f"[discreet] SKIPPED, the TypeScript SDK was not looked at: {missing}", file=sys.stderr
        )
        return 1 if os.environ.get("CI") else MISSING if chosen.install else 0
    if chosen.install:
        return 0
    if not chosen.check:
        MESSAGES.write_text(messages())
        AXES.write_text(axes())
        return npm("generate")
    if MESSAGES.read_text() != messages():
        print(f"{MESSAGES.name} is not that of federation.proto: run `make sdk`", file=sys.stderr)
        return 1
    if AXES.read_text() != axes():
        print(f"{AXES.name} is not that of openapi.json: run `make sdk`", file=sys.stderr)
        return 1
    if npm("drift") != 0:
        print(
            "clients/typescript/src/schema.d.ts is not that of openapi.json: run `make sdk`",
            file=sys.stderr,
        )
        return 1
    return npm("types")


if __name__ == "__main__":
    sys.exit(main())
