"""`make sdk`: what in the Python SDK is made from something else (needs openapi-python-client and ruff).

`discreet_client/rest` is made from the committed contract, `discreet_client/aio.py` from `client.py`: the same calls
with `await`. mypy finds an await that a new rule would have had to put.

    python clients/python/generate.py            write it again
    python clients/python/generate.py --check    exit 1 when what is committed is not what would be written
"""

from __future__ import annotations

import argparse
import filecmp
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONTRACT = HERE.parents[1] / "openapi" / "openapi.json"
PACKAGE = HERE / "discreet_client"

CONFIG = {
    "literal_enums": True,
    "content_type_overrides": {
        "application/jsonl": "application/octet-stream",
        "application/vnd.apache.parquet": "application/octet-stream",
        "text/event-stream": "text/plain",
        "application/problem+json": "application/json",
    },
    "post_hooks": [],
}


RUFF = ("--isolated", "--quiet", "--target-version", "py311", "--line-length", "120", "--no-cache")


def readable(schema: Any) -> Any:
    """The document without what the generator refuses: defaults and examples that are objects.

    Both only tell what the server does with a field that is left out; the server goes on doing it.
    """
    if isinstance(schema, dict):
        return {
            # Below `properties` stand names of fields, which may be any word.
            name: {field: readable(one) for field, one in value.items()} if name == "properties" else readable(value)
            for name, value in schema.items()
            if not (name in ("default", "example", "examples") and isinstance(value, dict | list))
        }
    return [readable(value) for value in schema] if isinstance(schema, list) else schema


def generate(contract: Path, out: Path) -> None:
    """Write the package to `out`, which is replaced; RuntimeError when any part of the contract was not understood."""
    with tempfile.TemporaryDirectory() as folder:
        document, config = Path(folder, "openapi.json"), Path(folder, "config.json")
        document.write_text(json.dumps(readable(json.loads(contract.read_text()))))
        config.write_text(json.dumps(CONFIG))
        made = Path(folder, "rest")
        _run(
            "openapi_python_client",
            "generate",
            *("--path", str(document), "--config", str(config), "--meta", "none", "--output-path", str(made)),
            "--fail-on-warning",
        )
        for path in made.glob(
            "api/*/*.py"
        ):  # it forgets an import where a body may be left out; ruff drops it elsewhere
            path.write_text(path.read_text().replace("import Response, UNSET\n", "import Response, UNSET, Unset\n"))
        _run("ruff", "check", *RUFF, "--select", "I,F401,F811,UP", "--fix", "--exit-zero", str(made))
        _run("ruff", "format", *RUFF, str(made))
        if out.exists():
            shutil.rmtree(out)
        shutil.copytree(made, out)


HEADER = "# Made from client.py by `make sdk`; edit that.\n"
ASYNCHRONOUS = (
    (r"^# ruff: noqa.*\n", ""),  # client.py's exception from UP028; the made file has no need of it
    (r'"""A client of the HTTP API', r'"""The client of the HTTP API for asyncio'),
    (r"`aio.AsyncClient` is\nmade of this file by `make sdk`.", r"`client.Client` is\nthe same without await."),
    (r"\bwith Client\(", r"async with AsyncClient("),
    (r"= client\.solve\(", r"= await client.solve("),
    (r"^class Client:", r"class AsyncClient:"),
    (r'"Client"', r'"AsyncClient"'),
    (r"\bhttpx\.(Client|BaseTransport)\b", r"httpx.Async\1"),
    (r"^    def (?!__init__)", r"    async def "),
    (r"__(enter|exit)__", r"__a\1__"),
    (r"\bIterator\b", r"AsyncIterator"),
    (r"\bimport time\b", r"import asyncio"),
    (r"\btime\.sleep\(", r"await asyncio.sleep("),
    (r"\bself\.(_run|_drive|wait|job|close)\(", r"await self.\1("),
    (r"\bself\._http\.request\(", r"await self._http.request("),
    (r"\bself\._http\.close\(", r"await self._http.aclose("),
    (r"\bwith self\._http\.stream\(", r"async with self._http.stream("),
    (r"\bfor (.*) in self\.(_pages|events)\(", r"async for \1 in self.\2("),
    (r"\bfor (.*) in response\.iter_", r"async for \1 in response.aiter_"),
    (r"\bresponse\.read\(\)", r"await response.aread()"),
)


def asynchronous(text: str) -> str:
    """The module `aio` from the text of the module `client`."""
    for pattern, replacement in ASYNCHRONOUS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "aio.py")
        made.write_text(HEADER + text)
        first_party = ("--config", "lint.isort.known-first-party=['discreet_client']")
        _run("ruff", "check", *RUFF, *first_party, "--select", "I", "--fix", str(made))
        _run("ruff", "format", *RUFF, str(made))
        return made.read_text()


def _run(module: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{module}: {done.stdout}{done.stderr}")


def differences(left: Path, right: Path) -> list[str]:
    """Files that only one folder has, or that differ."""
    names = {
        path.relative_to(root).as_posix() for root in (left, right) for path in root.rglob("*.py") if path.is_file()
    }
    return sorted(
        name
        for name in names
        if not ((left / name).exists() and (right / name).exists())
        or not filecmp.cmp(left / name, right / name, shallow=False)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    aio = asynchronous((PACKAGE / "client.py").read_text())
    if not check:
        generate(CONTRACT, PACKAGE / "rest")
        (PACKAGE / "aio.py").write_text(aio)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "rest")
        generate(CONTRACT, fresh)
        changed = [f"rest/{name}" for name in differences(PACKAGE / "rest", fresh)]
    if aio != (PACKAGE / "aio.py").read_text():
        changed.append("aio.py")
    if changed:
        print(f"not what `make sdk` writes, in clients/python/discreet_client: {', '.join(changed)}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
