"""`make mutants`: plant every fault of table.toml in a copy of the code, and see some test fail.

    python -m tests.mutants [--only TEXT] [--jobs 2] [--write] [--table FILE]

Each mutant runs in a process of its own, forked from one that has loaded the libraries and nothing
of the service. A mutant whose tests pass has survived: the run fails. So it does where a patch does
not fit, or breaks the import, which proves nothing, and where the tests fail without any patch.
`--write` makes the page docs/mutants.md of a whole run.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("table.toml")
PAGE = ROOT / "docs" / "mutants.md"
CODE = Path("service/discreet")
COPIED = (
    "service",
    "clients/python",
    "clients/verifier",
    "tests",
    "benchmarks",
    "migrations",
    "docs",
    "openapi",
    "pyproject.toml",
)
OURS = ("discreet", "discreet_client", "tests", "benchmarks")
LIBRARIES = (
    *(
        "numpy",
        "scipy.stats",
        "scipy.optimize",
        "scipy.fft",
        "numba",
        "pyarrow",
        "pydantic",
        "pydantic_settings",
    ),
    *(
        "pytest",
        "schemathesis.pytest",
        "hypothesis",
        "dp_accounting.pld",
        "mpmath",
        "randomgen",
        "yaml",
        "httpx",
    ),
    *(
        "sqlalchemy.ext.asyncio",
        "alembic.context",
        "psycopg",
        "cryptography.hazmat.primitives.asymmetric.ed25519",
    ),
)
SECONDS = 300
IGNORED = "ignore::pytest.PytestAssertRewriteWarning"
FAILED, PASSED = 1, 0
"""What pytest says where tests fail, and where all pass; anything else is no verdict."""


@dataclass(frozen=True)
class Mutant:
    """`old`, which stands once in `file` (below `service/discreet`), becomes `new`; `says` what is
    wrong then. `tests`: node ids below `tests/`, any of which must fail; behind a `@` stand words
    that the id of the case holds."""

    file: str
    says: str
    tests: tuple[str, ...]
    old: str
    new: str


def read(table: Path = TABLE) -> list[Mutant]:
    """The mutants of a table."""
    rows = tomllib.loads(table.read_text())["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


class Misfit(Exception):
    """A patch that is no mutant."""


def patched(mutant: Mutant, root: Path = ROOT) -> str:
    """The file's text with the fault in it. Misfit: the old text does not stand there once, or
    nothing changes."""
    text = (root / CODE / mutant.file).read_text()
    if (found := text.count(mutant.old)) != 1:
        raise Misfit(f"{mutant.file}: found {found} times, not once: {mutant.old!r}")
    changed = text.replace(mutant.old, mutant.new)
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError as error:
        raise Misfit(f"{mutant.file}: {error}: {mutant.new!r}") from None
    if same:
        raise Misfit(f"{mutant.file}: nothing changes: {mutant.new!r}")
    return changed


@contextlib.contextmanager
def planted(mutant: Mutant | None, copy: Path) -> Iterator[None]:
    """The copy with the fault in it; afterwards as it was, with what is compiled."""
    if mutant is None:
        yield
        return
    path = copy / CODE / mutant.file
    before, text = path.stat(), path.read_bytes()
    cache, kept = path.parent / "__pycache__", path.parent / "__kept__"
    if cache.exists():
        shutil.copytree(cache, kept)
    path.write_text(patched(mutant, copy))
    try:
        yield
    finally:
        path.write_bytes(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        shutil.rmtree(cache, ignore_errors=True)
        if kept.exists():
            kept.rename(cache)


def copied(folder: Path) -> Path:
    """A copy of the tree with the times of its files, so that kernels compiled for it are those of
    the copy too."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, ignore=shutil.ignore_patterns("*.pyc", "node_modules")
            )
        else:
            shutil.copy2(source, folder / name)
    return folder


def run_tests(copy: Path, tests: Sequence[str], log: Path) -> int:
    """Fork; in the child run the tests of the copy. The child's process id."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
            del sys.modules[name]
        sys.path[:0] = [str(copy / part) for part in ("service", "clients/python", ".")]
        sys.dont_write_bytecode = True
        ids, chosen = [], []
        for test in tests:
            name, _, words = test.partition("@")
            ids.append(f"tests/{name}")
            chosen += ["-k", " and ".join(words.replace(",", " ").split())] if words else []
        import pytest

        status = int(
            pytest.main(
                [
                    "-q",
                    "-x",
                    "-p",
                    "no:cacheprovider",
                    "-W",
                    IGNORED,
                    "-o",
                    f"timeout={SECONDS}",
                    *chosen,
                    *ids,
                ]
            )
        )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


@dataclass
class Slot:
    """A copy of the tree, and what runs on it."""

    copy: Path
    log: Path
    mutant: Mutant | None = None
    child: int = 0
    started: float = 0.0
    stack: contextlib.ExitStack | None = None

    def start(self, mutant: Mutant | None, tests: Sequence[str]) -> None:
        self.mutant, self.started, self.stack = mutant, time.monotonic(), contextlib.ExitStack()
        self.stack.enter_context(planted(mutant, self.copy))
        self.child = run_tests(self.copy, tests, self.log)

    def end(self, status: int) -> tuple[int, float, str]:
        assert self.stack is not None
        self.stack.close()
        self.child = 0
        return (
            os.waitstatus_to_exitcode(status),
            time.monotonic() - self.started,
            self.log.read_text(),
        )


def run(mutants: Sequence[Mutant], jobs: int) -> list[str]:
    """One line for each mutant that was not caught, and for tests that fail without any."""
    for mutant in mutants:
        patched(mutant)  # all of them first: what does not fit fails before anything runs
    for name in LIBRARIES:
        importlib.import_module(name)
    wrong: list[str] = []
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    plain = [test for test in tests if "@" not in test]
    work: list[tuple[Mutant | None, Sequence[str]]] = [(None, plain)] if plain else []
    work += [(None, [test]) for test in tests if "@" in test]
    work += [(mutant, mutant.tests) for mutant in mutants]
    with tempfile.TemporaryDirectory(prefix="mutants ") as folder:
        slots = []
        for number in range(min(jobs, len(work))):
            place = Path(folder) / str(number)
            place.mkdir()
            slots.append(Slot(copied(place), Path(folder) / f"{number}.log"))
        waiting = list(reversed(work))
        while waiting or any(slot.child for slot in slots):
            for slot in slots:
                if waiting and not slot.child:
                    slot.start(*waiting.pop())
            child, status = os.wait()
            (slot,) = [slot for slot in slots if slot.child == child]
            running = slot.mutant
            code, seconds, log = slot.end(status)
            expected = PASSED if running is None else FAILED
            verdict = {FAILED: "caught", PASSED: "SURVIVED"}.get(code, f"BROKEN (exit {code})")
            if running is None:
                verdict = "passes" if code == PASSED else "FAILS WITHOUT A FAULT"
            name = "no fault" if running is None else f"{running.file}: {running.says}"
            print(f"{verdict:10} {seconds:5.0f} s  {name}", flush=True)
            if code != expected:
                wrong.append(f"{verdict}: {name}")
                print("\n".join(log.splitlines()[-30:]), flush=True)
    return wrong


PREFACE = """# Mutants

Tests that pass prove little; tests that fail when the code is wrong prove that they check it. A
mutant is a fault that is planted in a copy of the code: less noise than is charged, a wrong
sensitivity, relation, count, clip, floor, filter or rounding, or draws that are not random.

`make mutants` plants all {count}, one at a time, runs the narrowest tests that detect each, and
writes this page. It fails for every fault that survives, for a patch whose text is no longer found,
and for tests that fail without any fault. Each fault, its patch and its tests stand in
`tests/mutants/table.toml`; a new mechanism or kind brings its own.

| code | faults |
|---|---|
"""


def page(mutants: Sequence[Mutant]) -> str:
    """docs/mutants.md."""
    faults = Counter(mutant.file for mutant in mutants)
    lines = [f"| `{file}` | {count} |" for file, count in sorted(faults.items())]
    return PREFACE.format(count=len(mutants)) + "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="mutants whose file or sentence holds this text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--write", action="store_true", help="write docs/mutants.md when all are caught"
    )
    parser.add_argument("--table", type=Path, default=TABLE, help="other mutants")
    asked = parser.parse_args(arguments)
    table = read(asked.table)
    mutants = [mutant for mutant in table if asked.only in f"{mutant.file}: {mutant.says}"]
    started = time.monotonic()
    try:
        wrong = run(mutants, asked.jobs)
    except Misfit as misfit:
        wrong = [str(misfit)]
    print(
        "\n".join(
            [
                *wrong,
                f"{len(mutants)} mutants in {time.monotonic() - started:.0f} s, {len(wrong)} wrong",
            ]
        )
    )
    if asked.write and mutants == read() and not wrong:
        PAGE.write_text(page(mutants))
    return 1 if wrong or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
