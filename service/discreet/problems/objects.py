"""Public objects that are stored once and named by jobs: a road network of a hundred thousand
links, for one.

An object never changes, and its id is made of its content: whatever names the id, a sealed job or a
signed certificate, names these very figures. Nothing in it is private.
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from discreet.errors import FieldIssue
from discreet.problems.numbers import Frozen
from discreet_client import canonical


class PublicObject(Frozen):
    """Something public that a field of a problem may hold as a whole, or name by the id that it is
    stored under."""

    type: ClassVar[str]
    """What it is, in a word."""
    prefix: ClassVar[str]
    """Ids begin with it and an underscore."""

    def own_issues(self) -> list[FieldIssue]:
        """What is wrong with it, independent of any job."""
        return []

    def sizes(self) -> dict[str, Any]:
        """Figures of it that lists show."""
        return {}

    def content(self) -> bytes:
        """Its canonical JSON (RFC 8785). Fields that have their default are left out, so that a
        later version, which has more of them, makes the same."""
        return canonical.dumps(
            TypeAdapter(type(self)).dump_python(self, mode="json", exclude_defaults=True)
        )

    def digest(self) -> bytes:
        """SHA-256 of its content."""
        return hashlib.sha256(self.content()).digest()

    @classmethod
    def of_content(cls, content: bytes) -> Self:
        """The inverse of `content`."""
        return cls.model_validate_json(content)
