"""Files and folders that only this user can read; files are written whole or not at all."""

from __future__ import annotations

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


def kernel_cache(state: Path) -> dict[str, str]:
    """Where compiled kernels go, as environment: numba keeps them beside their source or in the
    home folder, and a service user may be able to write neither. To be set before numba is
    imported.

    A new cache begins with the kernels that the installation brings; numba compiles again what is
    not for this processor."""
    if os.access(Path(__file__).parent, os.W_OK):
        return {}
    cache = state / "cache"
    if KERNELS.is_dir() and not cache.exists():
        draft = private_folder(state) / f"cache.{os.getpid()}"
        try:
            shutil.copytree(KERNELS, draft, copy_function=shutil.copyfile)
            draft.rename(cache)
        except (
            OSError
        ):  # another process was faster, or there is no room: kernels are compiled then
            shutil.rmtree(draft, ignore_errors=True)
    return {"NUMBA_CACHE_DIR": str(cache)}
