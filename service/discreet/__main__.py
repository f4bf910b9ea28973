"""`python -m discreet` and the program `discreet`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Exit status: 0 done, 1 refused or failed (one line says why), 2 bad
    usage."""
    from discreet.cli import run  # noqa: PLC0415 - typer and rich are not loaded by who only imports the package
    from discreet.isolation.processes import keep_memory_private  # noqa: PLC0415

    keep_memory_private()  # keys, and in workers data
    sys.exit(run())


if __name__ == "__main__":
    main()
