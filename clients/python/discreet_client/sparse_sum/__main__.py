"""Sums over a sparse graph of masks between real processes, without a discreet server.

    python -m discreet_client.sparse_sum key FOLDER                           # each agent: its key
    python -m discreet_client.sparse_sum sign --run NAME --keys keys.txt …    # the owner: roster
    python -m discreet_client.sparse_sum serve roster.json --listen 127.0.0.1:7070
    python -m discreet_client.sparse_sum join roster.json --server 127.0.0.1:7070 --folder FOLDER …

The server prints a JSON object a line: a sum with the places of those in it, or what was lost.
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

from discreet_client.exposure import ACCEPTED
from discreet_client.federation.errors import AgentError
from discreet_client.federation.files import write_private
from discreet_client.federation.identity import Identity
from discreet_client.federation.links import is_loopback
from discreet_client.packing import Integers
from discreet_client.secure_sum.errors import Refused, SecureSumError
from discreet_client.sparse_sum.conversation import Conductor, Values
from discreet_client.sparse_sum.durable import DurableAgent
from discreet_client.sparse_sum.joining import LONGEST_BYTES, take_part
from discreet_client.sparse_sum.plan import Plan
from discreet_client.sparse_sum.roster import Demands, Roster
from discreet_client.sparse_sum.serving import Relay, print_line, serve


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
    """The roster, with its plan; prints the owner's key, which agents must know by another way."""
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
    # What the owner has signed is for agents to check; a server that lies here is told nothing.
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
    """A line for each round, a JSON list of integers of 64 bits. A round without a line, or with
    another, is refused."""
    lines = path.read_text().splitlines()

    def values(number: int) -> Integers:
        try:
            told = json.loads(lines[number])
            if not all(type(one) is int for one in told):  # else 1.9 would be added as 1
                raise ValueError("something else is among them")
            found = np.array(told, dtype=np.int64)
        except (LookupError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise Refused(f"line {number + 1} of {path} is no list of integers: {error}") from None
        if found.shape != (plan.dimension,):
            raise Refused(f"line {number + 1} of {path} has not {plan.dimension} integers")
        return found

    return values


def channel(address: str, authority: Path | None) -> Any:
    """To the server; encrypted but for a loopback address without `authority`, a file (PEM)."""
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
    parser = argparse.ArgumentParser(prog="python -m discreet_client.sparse_sum")
    commands = parser.add_subparsers(required=True)

    key = commands.add_parser("key", help="print this agent's public key; made on first use")
    key.add_argument("folder", type=Path)
    key.set_defaults(command=_key)

    sign = commands.add_parser("sign", help="plan and sign a run; prints the owner's key")
    sign.add_argument("--owner", type=Path, required=True, help="the owner's key file")
    sign.add_argument("--run", required=True, help="a name that is used once")
    sign.add_argument("--keys", type=Path, required=True, help="a file: an agent's key a line")
    sign.add_argument("--dimension", type=int, required=True)
    sign.add_argument("--dropping", type=float, default=0.05, help="share of all, in a round")
    sign.add_argument("--out", type=Path, required=True)
    _figures(sign)
    sign.set_defaults(command=_sign)

    server = commands.add_parser("serve", help="run the rounds and print the sums")
    _signed(server)
    server.add_argument("--listen", default="127.0.0.1:0", help="host:port")
    server.add_argument("--seconds", type=float, default=30.0, help="that a step waits for agents")
    server.add_argument("--from-round", type=int, default=0, help="a server that begins again")
    server.add_argument("--certificate", type=Path, help="PEM")
    server.add_argument("--key", type=Path, help="PEM")
    server.set_defaults(command=_serve)

    join = commands.add_parser("join", help="take part")
    _signed(join)
    join.add_argument("--server", required=True, help="host:port")
    join.add_argument("--authority", type=Path, help="PEM: who vouches for the server's name")
    join.add_argument("--folder", type=Path, required=True, help="key and claims; no backups of it")
    join.add_argument("--values", type=Path, required=True, help="a JSON list of integers a line")
    join.add_argument("--crowd", type=int, default=2, help="honest survivors, at least")
    join.add_argument("--exposure", choices=[ACCEPTED], help="sums without noise are accepted")
    join.add_argument("--patience", type=float, default=60.0, help="seconds of a server's silence")
    _figures(join)
    join.set_defaults(command=_join)
    return parser


def _signed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("roster", type=Path)
    parser.add_argument("--owner", required=True, help="the owner's public key, in hexadecimal")


def _figures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, required=True, help="the most")
    parser.add_argument("--corrupt", type=float, required=True, help="of all, a share")
    parser.add_argument("--sigma", type=float, required=True, help="of the noise in a sum; 0: none")


if __name__ == "__main__":
    sys.exit(main())
