"""What `make image` says of an image: what must not be in it, what is in it, and who signed it.

The image itself is built and run by root on a Debian (`make image`), which takes minutes; here its
parts meet small roots and archives of the tests' own.
"""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ROOT = Path(__file__).parents[2]
CONFIG = {
    "config": {
        "User": "10001:10001",
        "Volumes": {"/var/lib/discreet": {}},
        "Env": ["PATH=/usr/bin"],
    }
}


@pytest.fixture(scope="module")
def image() -> ModuleType:
    sys.path.insert(0, str(ROOT / ".ci"))
    try:
        import image  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    module: ModuleType = image
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of an image in which everything is as it must be."""
    root = tmp_path / "root"
    for folder in (
        "etc",
        "usr/bin",
        "tmp",
        "var/lib/dpkg",
        "var/lib/discreet",
        "opt/discreet/lib/python3.11/site-packages",
    ):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "var/lib/discreet").chmod(0o777)  # a volume: it is what the engine mounts
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / "usr/bin/tool").write_bytes(b"\x7fELF")
    about = root / "opt/discreet/lib/python3.11/site-packages/Some_Thing-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: Some_Thing\nVersion: 1.2\nLicense: MIT\n\nSee pypi.org.\n"
    )
    status = [
        ("libc6", "2.36-9+deb12u1", "amd64", "install ok installed", "glibc"),
        ("gone", "1", "all", "deinstall ok config-files", "gone"),
        ("libstdc++6", "1:12.2", "amd64", "install ok installed", "gcc-12 (12.2)"),
    ]
    (root / "var/lib/dpkg/status").write_text(
        "\n\n".join(
            f"Package: {name}\nStatus: {state}\nVersion: {number}\nArchitecture: {machine}\n"
            f"Source: {source}\n"
            "Description: short\n  longer"
            for name, number, machine, state, source in status
        )
        + "\n"
    )
    return root


def test_an_image_that_is_as_it_must_be(image: ModuleType, root: Path) -> None:
    assert image.wrong(root, CONFIG, {"packages.example.org", "pypi.org"}, os.geteuid()) == []


def plant(name: str, content: str, mode: int = 0o644) -> Callable[[Path], None]:
    def planted(root: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)

    return planted


FAULTS = {
    "/usr/bin/su gives its user the rights of another": plant("usr/bin/su", "", 0o4755),
    "/etc/group gives its user the rights of another": plant("etc/group", "", 0o2644),
    "/etc/hosts can be changed by others than root": plant("etc/hosts", "", 0o666),
    "/usr/bin/pip is there": plant("usr/bin/pip", ""),
    "/etc/pip.conf names a registry's host": plant(
        "etc/pip.conf", "index-url = https://pypi.org/simple"
    ),
    "/etc/apt/sources.list names a registry's host": plant(
        "etc/apt/sources.list", "deb http://deb.debian.org/debian x main"
    ),
    "/opt/discreet/lib/python3.11/site-packages/direct_url.json names a registry's host": plant(
        "opt/discreet/lib/python3.11/site-packages/direct_url.json",
        '{"url": "https://packages.example.org/x.whl"}',
    ),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_what_must_not_be_in_an_image_is_named(
    image: ModuleType, root: Path, sentence: str
) -> None:
    FAULTS[sentence](root)
    assert image.wrong(root, CONFIG, {"packages.example.org"}, os.geteuid()) == [sentence]


def test_whom_an_image_runs_as_and_what_its_configuration_tells(
    image: ModuleType, root: Path
) -> None:
    told = {
        "config": {**CONFIG["config"], "User": ""},
        "history": [{"created_by": "pip --index https://packages.example.org"}],
    }
    assert image.wrong(root, told, {"packages.example.org"}, os.geteuid()) == [
        "it runs as root",
        "its configuration names a registry's host",
    ]
    others = image.wrong(root, CONFIG, set(), os.geteuid() + 1)
    assert "/usr/bin/tool can be changed by others than root" in others


def test_what_is_missing_on_a_machine_is_named_at_once(image: ModuleType, tmp_path: Path) -> None:
    code = "import image; image.os.geteuid = lambda: 0; image.check_machine()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / ".ci")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "apt-get install " + " ".join(sorted(set(image.TOOLS.values()))) in done.stderr


def archive_of(place: Path, digest: str = "sha256:" + "ab" * 32) -> Path:
    """As much of an OCI archive as its name needs."""
    text = json.dumps({"manifests": [{"digest": digest}]}).encode()
    with tarfile.open(place, "w") as packed:
        entry = tarfile.TarInfo("index.json")
        entry.size = len(text)
        packed.addfile(entry, io.BytesIO(text))
    return place


def test_the_bill_of_materials_has_what_is_installed(
    image: ModuleType, root: Path, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path / "discreet.oci.tar")
    document = image.bill(root, archive)
    assert [one["purl"] for one in document["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64&distro=debian-12",
        "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2?arch=amd64&distro=debian-12",
        "pkg:pypi/some-thing@1.2",
    ]
    assert document["components"][1]["properties"] == [
        {"name": "debian:source", "value": "gcc-12 12.2"}
    ]
    assert document["components"][2]["licenses"] == [{"expression": "MIT"}]
    assert document["metadata"]["component"]["version"] == "sha256:" + "ab" * 32
    assert image.bill(root, archive) == document
    assert (
        image.bill(root, archive_of(archive, "sha256:" + "cd" * 32))["serialNumber"]
        != document["serialNumber"]
    )


@pytest.fixture
def signed(image: ModuleType, root: Path, tmp_path: Path) -> tuple[Path, Path, dict[str, Path]]:
    """An archive, the public key, and its envelopes by what they say."""
    archive = archive_of(tmp_path / "discreet.oci.tar")
    key = Ed25519PrivateKey.generate()
    public = tmp_path / "image.pub"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    about = {"_type": image.dsse.STATEMENT, "subject": image.subjects(archive)}
    files = {}
    for kind in ("https://slsa.dev/provenance/v1", "https://cyclonedx.org/bom"):
        path = files[kind] = tmp_path / f"{len(files)}.dsse.json"
        statement = {**about, "predicateType": kind, "predicate": image.bill(root, archive)}
        path.write_text(json.dumps(image.envelopes.signed(statement, key)))
    return archive, public, files


def test_signatures_hold_for_their_archive_alone(
    image: ModuleType, signed: Any, tmp_path: Path
) -> None:
    archive, public, files = signed
    lines = image.verify(archive, public, files.values())
    assert lines == [f"{kind}: signed, of discreet.oci.tar" for kind in files]
    with archive.open("ab") as more:
        more.write(b"\0" * 512)
    with pytest.raises(image.Failed, match=r"is of another image than discreet\.oci\.tar"):
        image.verify(archive, public, files.values())


def altered(envelope: dict[str, Any], **changes: Any) -> dict[str, Any]:
    statement = json.loads(base64.b64decode(envelope["payload"]))
    payload = base64.b64encode(json.dumps({**statement, **changes}).encode()).decode()
    return {**envelope, "payload": payload}


FORGERIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "another bill": lambda envelope: altered(envelope, predicate={}),
    "another subject": lambda envelope: altered(envelope, subject=[]),
    "another type": lambda envelope: {**envelope, "payloadType": "text/plain"},
    "no signature": lambda envelope: {**envelope, "signatures": []},
    "a signature that is none": lambda envelope: {**envelope, "signatures": [{"sig": "AAAA"}]},
    "two signatures": lambda envelope: {**envelope, "signatures": envelope["signatures"] * 2},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_envelopes_are_refused(image: ModuleType, signed: Any, forgery: str) -> None:
    archive, public, files = signed
    path = next(iter(files.values()))
    path.write_text(json.dumps(FORGERIES[forgery](json.loads(path.read_text()))))
    with pytest.raises(image.Failed, match="is not signed by this key"):
        image.verify(archive, public, [path])


def test_another_key_has_not_signed(image: ModuleType, signed: Any, tmp_path: Path) -> None:
    archive, public, files = signed
    other = Ed25519PrivateKey.generate().public_key()
    public.write_bytes(
        other.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    with pytest.raises(image.Failed, match="is not signed by this key"):
        image.verify(archive, public, files.values())
