"""The clients' wheels, and environments that hold nothing but what these declare."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
AGENT, SDK = ROOT / "clients" / "agent", ROOT / "clients" / "python"
FOLDERS = {"discreet_agent": AGENT, "discreet_client": SDK}
NEEDED = {
    "discreet_agent": ["cryptography", "grpcio", "numpy", "phe", "protobuf"],
    "discreet_client": ["discreet-agent==0.1.0", "httpx", "numpy", "platformdirs", "tzdata"],
}
EXTRAS = {
    "discreet_agent": ["fast", "mpc"],
    "discreet_client": ["arrow", "excel", "omx", "pandas", "plot", "progress"],
}


def wheel(package: str, out: Path) -> Path:
    """Built without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=FOLDERS[package], capture_output=True, check=True)
    (made,) = out.glob("*.whl")
    return made


def needed(names: list[str], found: set[str] | None = None) -> set[str]:
    """The distributions that these need, and those in turn, without extras."""
    found = set() if found is None else found
    for need in names:
        name = re.split(r"[\[<>=!~ ;(]", need)[0].lower().replace("_", "-")
        if "extra ==" in need or name in found or name == "discreet-agent":
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of another platform or version
        found.add(name)
        needed(needs, found)
    return found


class Environment:
    """One interpreter, with these wheels and of this environment's packages those alone that they
    declare."""

    def __init__(self, folder: Path, packages: list[str], wheels: list[Path]) -> None:
        command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(command, check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        self.third = needed([need for name in packages for need in NEEDED[name]])
        here = Path(sysconfig.get_path("purelib"))
        for name in self.third:
            for file in metadata.files(name) or []:
                if ".." not in file.parts and (here / file).exists():
                    (self.site / file).parent.mkdir(parents=True, exist_ok=True)
                    (self.site / file).symlink_to(here / file)
        install = ["pip", "install", "--quiet", "--offline", "--python", str(self.python)]
        subprocess.run(
            [sys.executable, "-m", "uv", *install, "--no-deps", *map(str, wheels)], check=True
        )

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it elsewhere, without this repository in its path."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "DISCREET"))
        }
        return subprocess.run(
            [str(self.python), *arguments],
            cwd="/",
            env={**kept, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def megabytes(self) -> float:
        """What is installed beside NumPy and the compiled copies of Python's files."""
        files = (path for path in self.site.rglob("*") if path.is_file())
        numpy = ("numpy", "numpy.libs")
        kept = (
            path
            for path in files
            if path.suffix != ".pyc" and path.relative_to(self.site).parts[0] not in numpy
        )
        return sum(path.stat().st_size for path in kept) / 1e6
