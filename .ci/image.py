"""The image without a registry of images: `python .ci/image.py PART`, or `make image` for all.

    build    a base of Debian's packages (mmdebstrap), the Dockerfile on it (buildah, in an
             empty network), an OCI archive, and whether what is in that may be there
    run      the archive unpacked (umoci), and its services run as compose.yaml says (crun):
             `image_run.py`
    sbom     what is in the archive, packages of Debian and of Python: CycloneDX 1.6
    sign     two in-toto statements of the archive in DSSE envelopes: where it came from, and its
             bill of materials
    verify   whether the envelopes are of this archive, and signed by this key

What it makes lies in build/image. Packages come from where this machine's apt and pip have them;
neither their addresses nor their keys reach the image.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.ledger import envelopes
from discreet_agent import dsse

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))

import supply  # noqa: E402  beside this file

PLACE = ROOT / "build" / "image"
ARCHIVE = PLACE / "discreet.oci.tar"
SBOM = PLACE / "sbom.json"
PROVENANCE, BILL = PLACE / "provenance.dsse.json", PLACE / "sbom.dsse.json"
NAME = "discreet"
SUITE = "bookworm"
BASE = ("python3.11", "ca-certificates", "libstdc++6", "tzdata", "usr-is-merged")
"""What the image has of Debian, with what these depend on and what Debian calls essential."""
BUILD = ("python3.11-venv",)
"""And what the stage `build` has beyond that."""
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "buildah": "buildah",
    "crun": "crun",
    "umoci": "umoci",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "openssl": "openssl",
}
"""Programs that are needed, and the packages of Debian that have them."""
PUBLIC = (
    "pypi.org",
    "files.pythonhosted.org",
    "deb.debian.org",
    "security.debian.org",
    "ftp.debian.org",
)
"""Hosts that descriptions of packages name: looked for where settings stand, others everywhere."""
SETTINGS = ("etc", "root", "home", "var", "run", "opt/discreet/etc", "usr/local")


class Failed(Exception):
    """A step failed; the message is for people."""


def say(text: str) -> None:
    print(f"[image {time.monotonic() - BEGAN:4.0f} s] {text}", flush=True)


def run(command: list[str], **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)[:300]}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def check_machine() -> None:
    """Failed where this cannot run, with everything that is missing at once."""
    if os.geteuid() != 0:
        raise Failed(
            "an image is built by root: it unpacks files of other users and mounts folders"
        )
    missing = sorted(
        {package for program, package in TOOLS.items() if shutil.which(program) is None}
    )
    if missing:
        raise Failed(
            f"not installed: {', '.join(missing)} (Debian: apt-get install {' '.join(missing)})"
        )


# Build --------------------------------------------------------------------------------------------


def sources() -> list[str]:
    """Where this machine's apt has Debian's packages of `SUITE`, security updates included."""
    form = "$(ORIGIN)|deb $(REPO_URI) $(CODENAME) $(COMPONENT)"
    said = run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).splitlines()
    lines = {line.partition("|")[2] for line in said if line.startswith("Debian|")}
    found = sorted(
        line for line in lines if re.search(rf" {SUITE}(-security|-updates)? main$", line)
    )
    if not found:
        raise Failed(
            f"apt has no packages of Debian {SUITE} here: apt-get update, on a Debian {SUITE}"
        )
    return found


def make_base(work: Path) -> tuple[Path, Path]:
    """Archives of two roots, that of the stage `build` and that of the image."""
    whole, base, hook = work / "whole.tar", work / "base.tar", work / "hook.sh"
    listed = work / "sources.list"
    listed.write_text("\n".join(sources()) + "\n")
    # Nothing is installed into the image any more, and nobody in it becomes another user.
    # apt runs on this machine and only tells what to remove; dpkg does it, in the new root.
    left_out = (
        "apt",
        "debconf/*-old",
        "resolv.conf",
        "hostname",
        "passwd-",
        "group-",
        "shadow-",
        "gshadow-",
        "*-old",
    )
    places = [
        f"./{folder}/{name}"
        for folder in ("etc", "var/lib", "var/cache", "var/lib/dpkg")
        for name in left_out
    ]
    excluded = " ".join(
        f"--exclude '{place}'" for place in (*places, "./dev/*", "./var/log/*", "./tmp/*")
    )
    same = f"--sort=name --numeric-owner --clamp-mtime --mtime=@{supply.EPOCH}"
    pack = f"tar --create --one-file-system {same} {excluded}"
    simulated = f"{work}/simulated"
    hook.write_text(
        f"""set -eu
find "$1" -xdev -type f -perm /6000 -exec chmod ug-s {{}} +
ln -s /usr/bin/python3.11 "$1"/usr/local/bin/python3
{pack} --file {whole} --directory "$1" .
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
apt-get --simulate purge --autoremove {" ".join(BUILD)} > {simulated}
chroot "$1" dpkg --purge $(sed -n 's/^Purg \\([^ ]*\\) .*/\\1/p' {simulated})
{pack} --file {base} --directory "$1" .
"""
    )
    unread = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*")
    run(
        [
            *("mmdebstrap", "--quiet", "--mode=root", "--variant=essential"),
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            f"--include={','.join((*BASE, *BUILD))}",
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in unread),
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",  # licences
            *(f"--aptopt={line}" for line in apt_options()),
            f'--customize-hook=sh {hook} "$1"',
            *("--format=null", SUITE, "/dev/null", str(listed)),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": supply.EPOCH},
    )
    return whole, base


def apt_options() -> list[str]:
    """This machine's settings of how packages are fetched, where it has any."""
    said = run(["apt-config", "dump", "--format", '%f "%v";%n']).splitlines()
    return [
        line
        for line in said
        if re.match(r'Acquire::(https?::Proxy|Check-Valid-Until|Check-Date) "[^"]', line)
    ]


def fetch_wheels(place: Path) -> None:
    """The wheels of the runtime lock, by their hashes; what is there is not fetched again."""
    place.mkdir(parents=True, exist_ok=True)
    chosen = [
        "--only-binary",
        ":all:",
        "--no-deps",
        "--require-hashes",
        "-r",
        str(ROOT / ".ci/lock/runtime.txt"),
    ]
    run([sys.executable, "-m", "pip", "download", "--quiet", *chosen, "--dest", str(place)])


class Store:
    """Images of buildah, in a folder of their own."""

    def __init__(self, work: Path) -> None:
        self.work = work

    def __call__(self, *words: str, network: bool = True) -> str:
        place = ["--root", str(self.work / "store"), "--runroot", str(self.work / "run")]
        alone = [] if network else ["unshare", "--net"]
        return run([*alone, "buildah", *place, *words]).strip()

    def add(self, name: str, root: Path) -> None:
        container = self("from", "scratch")
        self("add", "--quiet", container, str(root), "/")
        self("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        self("commit", "--quiet", "--timestamp", supply.EPOCH, "--rm", container, name)


def build() -> None:
    """Make the archive. Failed where something is in it that must not be."""
    check_machine()
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="discreet-image-") as temporary:
        work = Path(temporary)
        work.chmod(0o755)
        whole, base = make_base(work)
        say(f"base: {base.stat().st_size >> 20} MB of Debian {SUITE}")
        fetch_wheels(PLACE / "wheels")
        say(f"wheels: {sum(1 for _ in (PLACE / 'wheels').iterdir())} of the lock, by their hashes")
        store = Store(work)
        store.add("localhost/base", base)
        store.add("localhost/build", whole)
        (work / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /mnt\n")
        arguments = [
            *("--build-arg", "BASE=localhost/base"),
            *("--build-arg", "BUILD_BASE=localhost/build"),
        ]
        given = [
            "--volume",
            f"{PLACE / 'wheels'}:/mnt:ro",
            "--secret",
            f"id=pip,src={work / 'pip.conf'}",
        ]
        kept = ["--layers=false", "--timestamp", supply.EPOCH, "--tag", f"localhost/{NAME}"]
        store(
            "bud",
            "--quiet",
            "--isolation",
            "chroot",
            *arguments,
            *given,
            *kept,
            str(ROOT),
            network=False,
        )
        ARCHIVE.unlink(missing_ok=True)
        store("push", "--quiet", f"localhost/{NAME}", f"oci-archive:{ARCHIVE}:{NAME}")
        with unpacked(ARCHIVE) as (root, config):
            problems = wrong(root, config, hosts())
            size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    if problems:
        ARCHIVE.unlink()
        raise Failed("\n  ".join(["the image has what it must not have:", *problems]))
    digest = digest_of(ARCHIVE)
    say(
        f"{ARCHIVE.relative_to(ROOT)}: {ARCHIVE.stat().st_size >> 20} MB packed, {size >> 20} MB "
        "unpacked"
    )
    say(f"sha256 {digest}, manifest {manifest_digest(ARCHIVE)}")


# What is in it ------------------------------------------------------------------------------------


def blob(layout: Path, digest: str) -> bytes:
    return layout.joinpath("blobs", *digest.split(":")).read_bytes()


@contextmanager
def unpacked(archive: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The root of an image in an OCI archive, and its configuration, while the block runs."""
    with tempfile.TemporaryDirectory(prefix="discreet-unpacked-") as temporary:
        layout, bundle = Path(temporary) / "layout", Path(temporary) / "bundle"
        Path(temporary).chmod(0o755)
        with tarfile.open(archive) as packed:
            packed.extractall(layout, filter="data")
        run(["umoci", "unpack", "--image", f"{layout}:{NAME}", str(bundle)])
        manifest = json.loads(blob(layout, manifest_digest(archive)))
        yield bundle / "rootfs", json.loads(blob(layout, manifest["config"]["digest"]))


def manifest_digest(archive: Path) -> str:
    """What registries call the image once it is there."""
    with tarfile.open(archive) as packed:
        index = packed.extractfile("index.json")
        assert index is not None
        (manifest,) = json.load(index)["manifests"]
    return str(manifest["digest"])


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hosts() -> set[str]:
    """Where this machine's pip, apt and npm have packages from, as far as their settings say."""
    said = run([sys.executable, "-m", "pip", "config", "list"])
    said += run(["apt-get", "indextargets", "--format", "$(REPO_URI)"])
    if shutil.which("npm"):
        said += run(["npm", "config", "get", "registry"], cwd="/")
    found = {urlsplit(address).hostname for address in re.findall(r"https?://[^\s'\"]+", said)}
    return {host for host in found if host}


def wrong(root: Path, config: dict[str, Any], searched: set[str], owner: int = 0) -> list[str]:
    """What is in an image that must not be there, a sentence each: programs of other users' rights,
    files that anybody may change, tools that install, and hosts of registries."""
    problems = []
    if (user := config["config"].get("User")) != "10001:10001":
        problems.append(f"it runs as {user or 'root'}")
    anywhere = [host.encode() for host in searched if host not in PUBLIC]
    settings = [host.encode() for host in (*searched, *PUBLIC)]
    if any(host in json.dumps(config).encode() for host in settings):
        problems.append("its configuration names a registry's host")
    volumes = {Path(volume).relative_to("/") for volume in config["config"].get("Volumes", {})}
    for path in root.rglob("*"):
        name, mode = path.relative_to(root), path.lstat()
        if stat.S_ISREG(mode.st_mode) and mode.st_mode & (stat.S_ISUID | stat.S_ISGID):
            problems.append(f"/{name} gives its user the rights of another")
        if name in volumes or stat.S_ISLNK(mode.st_mode):
            continue
        if mode.st_uid != owner or (
            mode.st_mode & stat.S_IWOTH and not mode.st_mode & stat.S_ISVTX
        ):
            problems.append(f"/{name} can be changed by others than root")
        if (
            name.name in ("apt-get", "pip", "pip3", "gcc", "curl", "wget")
            and name.parent.name == "bin"
        ):
            problems.append(f"/{name} is there")
        if stat.S_ISREG(mode.st_mode):
            text = path.read_bytes()
            if any(host in text for host in (settings if name.parts[0] in SETTINGS else anywhere)):
                problems.append(f"/{name} names a registry's host")
    return problems


# Bill of materials --------------------------------------------------------------------------------


def debian_packages(root: Path) -> list[dict[str, Any]]:
    """Components of a bill of materials: what dpkg knows to be installed below this root."""
    found = []
    for paragraph in (
        (root / "var/lib/dpkg/status").read_text(encoding="utf-8").strip().split("\n\n")
    ):
        fields = Parser().parsestr(paragraph)
        if fields["Status"] != "install ok installed":
            continue
        name, number, machine = fields["Package"], fields["Version"], fields["Architecture"]
        reference = f"pkg:deb/debian/{quote(name)}@{quote(number)}?arch={machine}&distro=debian-12"
        source = re.sub(r"[()]", "", fields["Source"] or name)
        properties = [{"name": "debian:source", "value": source}]
        component = {
            "type": "library",
            "name": name,
            "version": number,
            "purl": reference,
            "bom-ref": reference,
        }
        found.append({**component, "properties": properties})
    return sorted(found, key=lambda one: str(one["bom-ref"]))


def python_packages(root: Path) -> list[dict[str, Any]]:
    """Components of a bill of materials: distributions in /opt/discreet, and their licences."""
    found = []
    for folder in (root / "opt/discreet/lib").glob("python3*/site-packages/*.dist-info"):
        about = metadata.Distribution.at(folder).metadata
        name = re.sub(r"[-_.]+", "-", about["Name"]).lower()
        reference = f"pkg:pypi/{quote(name)}@{quote(about['Version'])}"
        component = {
            "type": "library",
            "name": name,
            "version": about["Version"],
            "purl": reference,
        }
        licence = supply.licence_in(about)
        found.append({**component, "bom-ref": reference, "licenses": [{"expression": licence}]})
    return sorted(found, key=lambda one: str(one["bom-ref"]))


def bill(root: Path, archive: Path) -> dict[str, Any]:
    """The bill of materials of an image, CycloneDX 1.6; the same for the same archive."""
    manifest = manifest_digest(archive)
    reference = f"pkg:oci/{NAME}@{quote(manifest)}"
    image: dict[str, Any] = {
        "type": "container",
        "name": NAME,
        "version": manifest,
        "purl": reference,
        "bom-ref": reference,
    }
    image["hashes"] = [{"alg": "SHA-256", "content": manifest.removeprefix("sha256:")}]
    made = datetime.fromtimestamp(int(supply.EPOCH), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, manifest)}",
        "metadata": {"timestamp": made, "component": image},
        "components": [*debian_packages(root), *python_packages(root)],
    }


def sbom() -> None:
    with unpacked(ARCHIVE) as (root, _):
        document = bill(root, ARCHIVE)
    SBOM.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    kinds = Counter(str(one["purl"]).split("/")[0] for one in document["components"])
    say(
        f"{SBOM.relative_to(ROOT)}: {kinds['pkg:deb']} packages of Debian, {kinds['pkg:pypi']} of "
        "Python"
    )


# Signatures ---------------------------------------------------------------------------------------


def subjects(archive: Path) -> list[dict[str, Any]]:
    """What the statements are of: the archive, and the image as registries name it."""
    manifest = manifest_digest(archive).removeprefix("sha256:")
    return [
        {"name": archive.name, "digest": {"sha256": digest_of(archive)}},
        {"name": NAME, "digest": {"sha256": manifest}},
    ]


def statements(archive: Path, document: dict[str, Any]) -> dict[Path, dict[str, Any]]:
    """The two in-toto statements of an archive and its bill of materials, by their files."""
    about = {"_type": dsse.STATEMENT, "subject": subjects(archive)}
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    commit = run([*git, "rev-parse", "HEAD"]).strip()
    changed = run([*git, "status", "--porcelain"]).strip() != ""
    provenance = {
        "buildDefinition": {
            "buildType": "urn:discreet:make-image:v1",
            "externalParameters": {"suite": SUITE, "uncommitted_changes": changed},
            "resolvedDependencies": [
                {"name": "source", "digest": {"gitCommit": commit}},
                {"name": "runtime.txt", "digest": {"sha256": digest_of(supply.LOCK)}},
            ],
        },
        "runDetails": {"builder": {"id": "urn:discreet:make-image"}},
    }
    return {
        PROVENANCE: {
            **about,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": provenance,
        },
        BILL: {**about, "predicateType": "https://cyclonedx.org/bom", "predicate": document},
    }


def sign(key_file: Path) -> None:
    """Write the envelopes. The key: Ed25519, PEM (`openssl genpkey -algorithm ed25519`)."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise Failed(f"{key_file} is no Ed25519 key")
    for path, statement in statements(ARCHIVE, json.loads(SBOM.read_text())).items():
        path.write_text(json.dumps(envelopes.signed(statement, key)) + "\n", encoding="utf-8")
        say(f"{path.relative_to(ROOT)}: signed")


def verify(archive: Path, key_file: Path, files: Iterable[Path] = (PROVENANCE, BILL)) -> list[str]:
    """What the envelopes say of this archive, a line each. Failed where one is of another
    archive or of another key."""
    key = serialization.load_pem_public_key(key_file.read_bytes())
    if not isinstance(key, Ed25519PublicKey):
        raise Failed(f"{key_file} is no public key of Ed25519")
    expected, lines = subjects(archive), []
    for path in files:
        envelope = json.loads(path.read_text())
        payload = base64.b64decode(envelope["payload"], validate=True)
        try:
            (signature,) = envelope["signatures"]
            signed = dsse.encoding(envelope["payloadType"], payload)
            key.verify(base64.b64decode(signature["sig"], validate=True), signed)
        except (InvalidSignature, ValueError, KeyError):
            raise Failed(f"{path.name} is not signed by this key") from None
        statement = json.loads(payload)
        if envelope["payloadType"] != dsse.PAYLOAD or statement["_type"] != dsse.STATEMENT:
            raise Failed(f"{path.name} is no in-toto statement")
        if statement["subject"] != expected:
            raise Failed(f"{path.name} is of another image than {archive.name}")
        lines.append(f"{statement['predicateType']}: signed, of {archive.name}")
    return lines


BEGAN = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["build", "run", "sbom", "sign", "verify", "all"])
    parser.add_argument(
        "--key", type=Path, help="Ed25519 key (PEM) that signs; without it `all` leaves signing out"
    )
    parser.add_argument("--public-key", type=Path, help="its public key (PEM), for `verify`")
    parser.add_argument("--archive", type=Path, default=ARCHIVE, help="the archive to verify")
    chosen = parser.parse_args()
    try:
        if chosen.part in ("build", "all"):
            build()
        if chosen.part in ("sbom", "all"):
            sbom()
        if chosen.part in ("run", "all"):
            import image_run  # noqa: PLC0415  it needs what only the tests need

            check_machine()
            with unpacked(ARCHIVE) as (root, config):
                image_run.main(root, config["config"])
        if chosen.part == "sign" or (chosen.part == "all" and chosen.key):
            if chosen.key is None:
                raise Failed("--key names the key that signs")
            sign(chosen.key)
        if chosen.part == "verify":
            if chosen.public_key is None:
                raise Failed("--public-key names the key that must have signed")
            for line in verify(chosen.archive, chosen.public_key):
                say(line)
    except (Failed, OSError) as failed:
        print(f"[image] {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
