"""The zygote with the tests' kind, and of the others only coupled_qp is warmed up."""

from __future__ import annotations

import sys

from discreet.isolation import solving, zygote
from discreet.problems.coupled_qp import CoupledQp
from tests.rpc import kinds


def warm_up() -> None:
    """What this kind needs, and its result's encoding."""
    import pyarrow.parquet  # noqa: F401

    from discreet_client import canonical  # noqa: F401

    kinds.NoisySum.rehearse_session()
    CoupledQp.rehearse_session()


if __name__ == "__main__":
    kinds.register()
    solving.warm_up = warm_up
    zygote.main(sys.argv[1:])
