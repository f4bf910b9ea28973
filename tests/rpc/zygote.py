"""The zygote with the tests' kind; of the others those with sessions are warmed up, and only
these."""

from __future__ import annotations

import sys

from discreet.isolation import solving, zygote
from discreet.problems import KINDS
from discreet.problems.federation import FederatedProblem
from tests.rpc import kinds


def warm_up() -> None:
    """What sessions need, and the encoding and headlines of their results: children can open no
    file any more."""
    import pyarrow.parquet  # noqa: F401

    from discreet.problems import answers  # noqa: F401
    from discreet_agent import canonical  # noqa: F401

    for kind in KINDS.values():
        if issubclass(kind, FederatedProblem):
            kind.rehearse_session()


if __name__ == "__main__":
    kinds.register()
    solving.warm_up = warm_up
    zygote.main(sys.argv[1:])
