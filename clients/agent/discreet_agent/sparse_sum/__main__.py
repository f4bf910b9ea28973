"""Secure aggregation over a sparse graph between real processes, without a discreet server.

    python -m discreet_agent.sparse_sum key FOLDER                           # each agent: its key
    python -m discreet_agent.sparse_sum sign --run NAME --keys keys.txt …    # the owner: roster
    python -m discreet_agent.sparse_sum serve roster.json --listen 127.0.0.1:7070
    python -m discreet_agent.sparse_sum join roster.json --server 127.0.0.1:7070 --folder FOLDER …

The server prints one JSON object per line: a sum with the places of its agents, or the loss of a
round or setup.
Exit status: 0 done, 1 refused or failed (one line says why), 2 bad usage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from discreet_agent.exposure import ACCEPTED
from discreet_agent.federation.errors import AgentError
from discreet_agent.federation.files import write_private
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.links import is_loopback
from discreet_agent.packing import Integers
from discreet_agent.secure_sum.errors import Refused, SecureSumError
from discreet_agent.sparse_sum.conversation import Conductor, Values
from discreet_agent.sparse_sum.durable import DurableAgent
from discreet_agent.sparse_sum.joining import LONGEST_BYTES, take_part
from discreet_agent.sparse_sum.plan import Plan
from discreet_agent.sparse_sum.roster import Demands, Roster
from discreet_agent.sparse_sum.serving import Relay, print_line, serve


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        given.command(given)
    except (SecureSumError, AgentError, OSError, ValueError, ArithmeticError) as error:
        print(f"sparse_sum: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _key(given: argparse.Namespace) -> None:
    print(Identity.open(given.folder / "agent.key").public_key.hex())


def _sign(given: argparse.Namespace) -> None:
    """Write the signed roster with its plan, and print the owner's key, which agents must learn
    independently of the server."""
    keys = tuple(bytes.fromhex(line) for line in given.keys.read_text().split())
    plan = Plan.choose(
        len(keys),
        given.dimension,
        given.rounds,
        gamma=given.corrupt,
        delta=given.dropping,
        sigma=given.sigma,
    )
    roster, owner = Roster(given.run, plan, keys), Identity.open(given.owner)
    signature = roster.signed_by(owner.private_key)
    signed = {"roster": roster.content.decode(), "signature": signature.hex()}
    write_private(given.out, json.dumps(signed).encode())
    print(owner.public_key.hex())


def _serve(given: argparse.Namespace) -> None:
    # Agents check the owner's signature themselves; the server gains nothing by a wrong key here.
    roster = _signed_roster(given)
    if not 0 <= given.from_round <= roster.plan.rounds:
        raise ValueError(f"rounds are 0 to {roster.plan.rounds - 1}, not {given.from_round}")
    if not 0 < given.seconds < math.inf:
        raise ValueError(f"--seconds is a number above 0, not {given.seconds}")
    host, _, _ = given.listen.rpartition(":")
    if given.certificate is None and not is_loopback(host.strip("[]")):
        raise ValueError(f"{host} is not a loopback address: --certificate and --key are needed")
    if (given.certificate is None) != (given.key is None):
        raise ValueError("--certificate and --key go together")
    pair = None
    if given.certificate is not None:
        pair = (given.key.read_bytes(), given.certificate.read_bytes())
    asyncio.run(
        serve(
            Relay(Conductor(roster, given.from_round), given.seconds, print_line),
            given.listen,
            certificate=pair,
            ready=lambda port: print_line({"port": port}),
        )
    )


def _join(given: argparse.Namespace) -> None:
    roster = _signed_roster(given)
    demands = Demands(given.corrupt, given.sigma, given.rounds, given.crowd, given.exposure)
    identity = Identity.open(given.folder / "agent.key")
    values = values_of(given.values, roster.plan)
    durable = DurableAgent(identity.private_key, given.folder / "state", roster, demands)
    try:
        take_part(
            durable,
            values,
            lambda: channel(given.server, given.authority),
            log=lambda line: print(line, file=sys.stderr, flush=True),
            patience_seconds=given.patience,
        )
    finally:
        durable.close()


def _signed_roster(given: argparse.Namespace) -> Roster:
    try:
        read = json.loads(given.roster.read_text())
        content, signature = read["roster"].encode(), bytes.fromhex(read["signature"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{given.roster} holds no signed roster: {error!r}") from None
    return Roster.read(content, signature, bytes.fromhex(given.owner))


def values_of(path: Path, plan: Plan) -> Values:
    """The values of a file with one line per round, a JSON list of 64-bit integers. Raises Refused
    for a round whose line is missing or has another form."""
    lines = path.read_text().splitlines()

    def values(number: int) -> Integers:
        try:
            told = json.loads(lines[number])
            if not all(type(one) is int for one in told):  # else 1.9 would be added as 1
                raise ValueError("something else is among them")
            found = np.array(told, dtype=np.int64)
        except (LookupError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise Refused(f"line {number + 1} of {path}: not a list of integers: {error}") from None
        if found.shape != (plan.dimension,):
            raise Refused(f"line {number + 1} of {path} does not hold {plan.dimension} integers")
        return found

    return values


def channel(address: str, authority: Path | None) -> Any:
    """A channel to the server: TLS with the certificate authority in the file `authority` (PEM);
    without it not encrypted, which is allowed for a loopback address only."""
    options = [
        ("grpc.max_receive_message_length", LONGEST_BYTES),
        ("grpc.enable_http_proxy", 0),
    ]
    if authority is not None:
        credentials = grpc.ssl_channel_credentials(authority.read_bytes())
        return grpc.secure_channel(address, credentials, options=options)
    host, _, _ = address.rpartition(":")
    if not is_loopback(host.strip("[]")):
        raise ValueError(f"{host} is not a loopback address: --authority is needed")
    return grpc.insecure_channel(address, options=options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m discreet_agent.sparse_sum")
    commands = parser.add_subparsers(required=True)

    key = commands.add_parser("key", help="print this agent's public key, generated on first use")
    key.add_argument("folder", type=Path)
    key.set_defaults(command=_key)

    sign = commands.add_parser("sign", help="plan and sign a run; prints the owner's key")
    sign.add_argument("--owner", type=Path, required=True, help="the owner's key file")
    sign.add_argument("--run", required=True, help="name of the run, to be used only once")
    sign.add_argument("--keys", type=Path, required=True, help="file with one agent's key per line")
    sign.add_argument("--dimension", type=int, required=True, help="entries of a vector")
    sign.add_argument(
        "--dropping", type=float, default=0.05, help="fraction of agents that may drop in a round"
    )
    sign.add_argument("--out", type=Path, required=True, help="file for the signed roster")
    _figures(sign)
    sign.set_defaults(command=_sign)

    server = commands.add_parser("serve", help="run the rounds and print the sums")
    _signed(server)
    server.add_argument("--listen", default="127.0.0.1:0", help="host:port")
    server.add_argument(
        "--seconds", type=float, default=30.0, help="how long a step waits for agents"
    )
    server.add_argument(
        "--from-round", type=int, default=0, help="first round, for a server that is restarted"
    )
    server.add_argument("--certificate", type=Path, help="the server's certificate (PEM)")
    server.add_argument("--key", type=Path, help="the certificate's private key (PEM)")
    server.set_defaults(command=_serve)

    join = commands.add_parser("join", help="take part")
    _signed(join)
    join.add_argument("--server", required=True, help="host:port")
    join.add_argument(
        "--authority", type=Path, help="authority that signed the server's certificate (PEM)"
    )
    join.add_argument(
        "--folder", type=Path, required=True, help="folder of key and journal; never back it up"
    )
    join.add_argument(
        "--values", type=Path, required=True, help="file with one JSON list of integers per round"
    )
    join.add_argument("--crowd", type=int, default=2, help="fewest honest survivors in a sum")
    join.add_argument("--exposure", choices=[ACCEPTED], help="accept sums without noise")
    join.add_argument(
        "--patience", type=float, default=60.0, help="seconds to wait for a silent server"
    )
    _figures(join)
    join.set_defaults(command=_join)
    return parser


def _signed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("roster", type=Path, help="file of the signed roster")
    parser.add_argument("--owner", required=True, help="the owner's public key, in hexadecimal")


def _figures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, required=True, help="largest number of rounds")
    parser.add_argument(
        "--corrupt", type=float, required=True, help="fraction of agents that may be corrupt"
    )
    parser.add_argument(
        "--sigma", type=float, required=True, help="standard deviation of the noise in a sum, or 0"
    )


if __name__ == "__main__":
    sys.exit(main())
