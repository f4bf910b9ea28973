"""`make protos`: the stubs of `protos/discreet/v1` (needs grpcio-tools, which users of the client
do not).

The `.proto` is given a path inside this package, because the stubs import each other by it: as
`discreet.v1` they would be looked for in the service's package.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

PACKAGE = "discreet_agent/stubs"


def generate(protos: Path, out: Path) -> None:
    """Write the stubs below `out`; RuntimeError when protoc refuses."""
    from grpc_tools import protoc  # noqa: PLC0415

    wellknown = resources.files("grpc_tools") / "_proto"
    arguments = [
        "protoc",
        f"-I{PACKAGE}={protos / 'discreet' / 'v1'}",
        f"-I{wellknown}",
        f"--python_out={out}",
        f"--pyi_out={out}",
        f"--grpc_python_out={out}",
        f"{PACKAGE}/federation.proto",
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed")
    stub = out / PACKAGE / "federation_pb2_grpc.py"
    unimplemented = "raise NotImplementedError('Method not implemented!')"  # of protoc
    # Why it may stand is added to each.
    reason = "  # generated: the base of the service in discreet.rpc, which overrides it"
    stub.write_text(stub.read_text().replace(unimplemented, unimplemented + reason))


if __name__ == "__main__":
    generate(Path(sys.argv[1]), Path(sys.argv[2]))
