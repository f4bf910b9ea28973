"""Files and folders that only this user can read; files are written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

from discreet.errors import DiscreetError


def private_folder(path: Path) -> Path:
    """`path` as an absolute path; it is made if missing, owned by this user and closed to all
    others."""
    path = Path(os.path.abspath(path))
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DiscreetError(f"cannot make the folder {path}: {error.strerror}") from error
    path = path.resolve()
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise DiscreetError(
            f"the folder {path} belongs to user {found.st_uid}, not to user {os.geteuid()}"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)
    return path


def write_private(path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Write a file of mode 0600, whole or not at all, also across a power cut; `owner` (uid, gid):
    for another user."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        if owner is not None:
            os.fchown(file, *owner)
        os.fsync(file)
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames inside a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


KERNELS = Path(__file__).parent / "_kernels"
"""Kernels that were compiled when an image was built (`NUMBA_CACHE_DIR=…/_kernels`), for this very
place."""
SOURCES = Path("__pycache__", "kernels.sha256")
"""Below a folder of kernels: the digest of the sources that they were compiled from."""


def kernel_cache(state: Path) -> dict[str, str]:
    """Where compiled kernels go, as environment: numba keeps them beside their source or in the
    home folder, and a service user may be able to write neither. To be set before numba is
    imported.

    A new cache begins with the kernels that the installation brings; numba compiles again what is
    not for this processor. Kernels of other sources are forgotten."""
    if os.access(Path(__file__).parent, os.W_OK):
        forget_other_kernels(Path(__file__).parent)
        return {}
    cache = private_folder(state) / "cache"
    if KERNELS.is_dir() and not (cache.exists() and _are_of(_sources(), cache)):
        draft = cache.with_name(f"cache.{os.getpid()}")
        try:
            if cache.exists():
                cache.rename(draft)
                shutil.rmtree(draft)
            shutil.copytree(KERNELS, draft, copy_function=shutil.copyfile)
            _note(draft, _sources())
            draft.rename(cache)
        except (
            OSError
        ):  # another process was faster, or there is no room: kernels are compiled then
            shutil.rmtree(draft, ignore_errors=True)
    forget_other_kernels(cache)
    return {"NUMBA_CACHE_DIR": str(cache)}


def forget_other_kernels(folder: Path, package: Path = Path(__file__).parent) -> None:
    """Drop the kernels below a folder that were compiled before the package's sources became what
    they are. Numba itself compiles a kernel again when its own file has another text, and not when
    that of a kernel has which it calls: after an upgrade it would compute as before."""
    sources = _sources(package)
    if not _are_of(sources, folder):
        for index in folder.rglob("*.nbi"):
            index.unlink(missing_ok=True)  # another process may be as far
        _note(folder, sources)


def _sources(package: Path = Path(__file__).parent) -> str:
    """The digest of a package's files that have kernels."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"numba" in text:  # a change of others is no reason to compile for minutes
            digest.update(text)
    return digest.hexdigest()


def _are_of(sources: str, folder: Path) -> bool:
    """Whether the kernels below a folder were compiled from sources of this digest."""
    try:
        return (folder / SOURCES).read_text() == sources
    except FileNotFoundError:
        return False


def _note(folder: Path, sources: str) -> None:
    (folder / SOURCES).parent.mkdir(parents=True, exist_ok=True)
    (folder / SOURCES).write_text(sources)
