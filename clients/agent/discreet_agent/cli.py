"""`discreet-agent`: an agent from a shell. Exit status: 0 done, 1 refused or failed (one line
says why), 2 bad usage, 3 done, but the sums had not settled: what is printed is no optimum."""

from __future__ import annotations

import argparse
import json
import os
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import grpc

from discreet_agent import kinds
from discreet_agent.agent import Agent
from discreet_agent.connection import Tls
from discreet_agent.federation.errors import AgentError
from discreet_agent.federation.identity import Identity
from discreet_agent.ledger import Ledger

NOT_SETTLED = 3


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["receipt"]:
        return _receipt(arguments[1:])
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        problem = json.loads(given.problem.read_text()) if given.problem else {}
    except (OSError, ValueError) as error:
        parser.error(f"{given.problem}: {error}")
    kind = given.program or problem.get("kind")
    if not kind:
        parser.error("name a problem file with its `kind`, or a --program")
    try:
        agent = Agent.from_token(
            given.token,
            given.identity,
            ledger=given.ledger,
            state=given.state,
            name=given.name or problem.get("name"),
            unit=given.unit or problem.get("unit", "trajectory"),
            limit_epsilon=given.limit_epsilon,
            limit_delta=given.limit_delta,
            announcement=problem.get("announcement"),
            tls=Tls(given.ca, given.certificate, given.certificate_key),
            patience_seconds=given.patience,
            answer_seconds=given.answer_seconds,
        )
        print(
            f"discreet-agent: this agent's fingerprint, for the owner to compare before signing: "
            f"{agent.identity.fingerprint}",
            file=sys.stderr,
            flush=True,
        )
        answer = kinds.solver(kind)(agent, problem)
    except (AgentError, OSError, grpc.RpcError) as error:
        print(f"discreet-agent: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(answer))
    if answer.get("settled") is False:
        print(f"discreet-agent: {answer['why']}", file=sys.stderr)
        return NOT_SETTLED
    return 0


def _receipt(arguments: list[str]) -> int:
    """`discreet-agent receipt JOB`: what this agent agreed to be charged, in an envelope (DSSE)
    that it signs."""
    parser = argparse.ArgumentParser("discreet-agent receipt", description=_receipt.__doc__)
    parser.add_argument("job", help="id of the job")
    parser.add_argument(
        "--identity", type=Path, default=Path("agent.key"), help="the agent's key file (agent.key)"
    )
    parser.add_argument("--ledger", type=Path, help="the agent's own ledger (beside the key)")
    parser.add_argument("--out", type=Path, help="where to write it, instead of printing it")
    given = parser.parse_args(arguments)
    try:
        if (
            not given.identity.exists()
        ):  # it would be made, and there is nothing that it could have signed
            raise AgentError(f"there is no key {given.identity}")
        ledger = Ledger(
            given.ledger or given.identity.with_suffix(".ledger"), Identity.open(given.identity)
        )
        text = json.dumps(ledger.receipt(given.job), separators=(",", ":"))
        if given.out is not None:
            given.out.write_text(text)
    except (AgentError, OSError) as error:
        print(f"discreet-agent: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(text if given.out is None else f"written to {given.out}")
    return 0


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError("a number is needed") from None
    if not number.is_finite() or number < 0:
        raise argparse.ArgumentTypeError("a number that is not negative is needed")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "discreet-agent",
        description="Take part in a federated job with your own data.",
        epilog="`discreet-agent receipt JOB` exports what was charged, signed by this agent.",
    )
    token = os.environ.get("DISCREET_TOKEN")
    add: Any = parser.add_argument
    add(
        "--token",
        default=token,
        required=token is None,
        help="dsc://…; or DISCREET_TOKEN, which `ps` does not show",
    )
    add("--problem", type=Path, help="JSON file: `kind` and this agent's own part; stays here")
    add("--program", help="module:function to run instead of a kind's own")
    add(
        "--identity",
        type=Path,
        default=Path("agent.key"),
        help="key file, made on first use (agent.key)",
    )
    add("--ledger", type=Path, help="the agent's own ledger (beside the key)")
    add("--state", type=Path, help="folder of what must survive this process (beside the key)")
    add("--name", help="what the owner sees (the key file's name)")
    add("--unit", help="privacy unit of this agent's account (trajectory)")
    add(
        "--limit-epsilon",
        type=_decimal,
        default=Decimal(1),
        help="refuse to spend more epsilon in total (1)",
    )
    add(
        "--limit-delta",
        type=_decimal,
        default=Decimal(0),
        help="refuse to spend more delta in total (0)",
    )
    add("--patience", type=float, default=600.0, help="seconds to wait for a silent server (600)")
    add(
        "--answer-seconds",
        type=float,
        default=0.0,
        help="send no answer sooner than so many seconds after its round has come, so that the "
        "server does not see how long it took to compute (0)",
    )
    add("--ca", type=Path, help="authorities (PEM) to trust instead of the pinned certificate")
    add("--certificate", type=Path, help="this agent's certificate (PEM), for mutual TLS")
    add("--certificate-key", type=Path, help="its key (PEM)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
