"""`python -m discreet.api.contract`: the OpenAPI document, as it is committed in
`openapi/openapi.json`.

--check FOLDER     exit 1 if FOLDER/openapi.json differs from what is served, or breaks
                   FOLDER/released.json
--release FOLDER   what is served becomes the released contract; a release does this, nothing else
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from discreet.api.app import create_app
from discreet.api.compatibility import breaks
from discreet.settings import Settings

COMMITTED, RELEASED = "openapi.json", "released.json"


@cache
def contract() -> str:
    """The document as text, identical for identical code."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, sort_keys=True) + "\n"


def faults(folder: Path) -> list[str]:
    """What is wrong with the committed contract; empty when nothing is."""
    served = contract()
    found = []
    if (folder / COMMITTED).read_text(encoding="utf-8") != served:
        found.append(
            f"{folder / COMMITTED} differs from what is served: run `make openapi` and review the "
            "changes"
        )
    released = json.loads((folder / RELEASED).read_text(encoding="utf-8"))
    found += [
        f"breaks the released contract: {one}" for one in breaks(released, json.loads(served))
    ]
    return found


def _without_examples(value: Any) -> Any:
    """The document without its examples, which may change at any time."""
    if isinstance(value, dict):
        return {
            name: _without_examples(child) for name, child in value.items() if name != "examples"
        }
    return [_without_examples(child) for child in value] if isinstance(value, list) else value


def main(arguments: list[str]) -> int:
    match arguments:
        case []:
            print(contract(), end="")
        case ["--check", folder]:
            found = faults(Path(folder))
            print("\n".join(found), file=sys.stderr, end="\n" if found else "")
            return 1 if found else 0
        case ["--release", folder]:
            promised = _without_examples(json.loads(contract()))
            text = json.dumps(promised, indent=1, sort_keys=True) + "\n"
            (Path(folder) / RELEASED).write_text(text, encoding="utf-8")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
