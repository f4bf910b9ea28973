"""Where an embedded server answers: a URL that names the folder of its socket."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

from discreet.errors import Unavailable
from discreet.installation.database_roles import DATABASE
from discreet.installation.temporary_folder import NOTE, PORT


def address(role: str, password: str, database: str, sockets: Path) -> str:
    """A `postgresql://` URL for psycopg, procrastinate and (as `postgresql+psycopg://`)
    SQLAlchemy."""
    host = quote(os.fsencode(sockets), safe="/")
    return f"postgresql://{role}:{password}@/{database}?host={host}&port={PORT}"


def running_url(state: Path, role: str, database: str = DATABASE) -> str:
    """The URL of the server that another process runs in a state folder; Unavailable if none is
    found."""
    try:
        password = json.loads((state / "postgres.json").read_text(encoding="utf-8"))[role]
        note = state / NOTE
        places = [
            state / "run",
            *([Path(note.read_text(encoding="utf-8")) / "run"] if note.exists() else []),
        ]
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(f"{state} holds no database") from error
    for place in places:
        if (place / f".s.PGSQL.{PORT}").exists():
            return address(role, password, database, place)
    raise Unavailable(f"the database in {state} does not run yet; try again")
