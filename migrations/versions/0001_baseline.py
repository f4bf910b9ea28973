"""The schema of 1.0.

`discreet migrate` makes a new database from `migrations/current` and notes the newest revision; a
revision's `upgrade` is for databases of earlier ones, and before this there were none.
"""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    raise NotImplementedError("a new database is made from migrations/current")
