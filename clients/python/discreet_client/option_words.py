"""How a sentence about a file names the options of whoever reads it: on the command line, in Python
or as fields of a page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

A_NUMBER = "N"


class Words(ABC):
    """Names of options."""

    @abstractmethod
    def option(self, name: str, value: str = "") -> str:
        """An option with a value that it may have, as it is said."""

    @abstractmethod
    def name(self, name: str) -> str:
        """An option by itself, as the subject of a sentence."""

    @abstractmethod
    def columns(self, *roles: str, **called: str) -> str:
        """How columns are said: those of these roles, of any name, and those that are called so."""


class CommandLine(Words):
    """`--units km,kph`."""

    def option(self, name: str, value: str = "") -> str:
        return f"--{name.replace('_', '-')}{value and f' {value}'}"

    def name(self, name: str) -> str:
        return self.option(name)

    def columns(self, *roles: str, **called: str) -> str:
        named = {**dict.fromkeys(roles, "…"), **called}
        return f"--columns {','.join(f'{role}={name}' for role, name in named.items())}"


class Python(Words):
    """`units='km,kph'`."""

    def option(self, name: str, value: str = "") -> str:
        return f"{name}={value if value == A_NUMBER else repr(value)}" if value else name

    def name(self, name: str) -> str:
        return name

    def columns(self, *roles: str, **called: str) -> str:
        named = [*(f"{role!r}: …" for role in roles), *(f"{k!r}: {v!r}" for k, v in called.items())]
        return f"columns={{{', '.join(named)}}}"


class Either(CommandLine):
    """For sentences that come to both: `--encoding cp1252 (encoding in Python)`."""

    def option(self, name: str, value: str = "") -> str:
        return f"{super().option(name, value)} ({name} in Python)"

    def columns(self, *roles: str, **called: str) -> str:
        python = Python().columns(*roles, **called)
        return f"{super().columns(*roles, **called)} ({python} in Python)"


@dataclass(frozen=True)
class Labels(Words):
    """Fields of a page by their labels, and the words of their choices."""

    labels: Mapping[str, str]
    choices: Mapping[str, Mapping[str, str]]

    def option(self, name: str, value: str = "") -> str:
        known = self.choices.get(name, {})
        return f"“{self.labels[name]}: {known[value]}”" if value in known else self.name(name)

    def name(self, name: str) -> str:
        return f"“{self.labels[name]}”" if name in self.labels else name

    def columns(self, *roles: str, **called: str) -> str:
        named = [*roles, *(f"{role} ({name})" for role, name in called.items())]
        return f"which column is {' and '.join(named)}"


COMMAND_LINE, PYTHON, EITHER = CommandLine(), Python(), Either()
