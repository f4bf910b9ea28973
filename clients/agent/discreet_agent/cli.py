"""`discreet-agent`: an agent from a shell, or as a service.

Exit status: 0 done; 1 refused or failed for good (one line says why); 2 bad usage; 3 done, but the
sums had not settled: what is printed is no optimum; 4 the server did not answer: the same call goes
on where this one ended.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import grpc

from discreet_agent import kinds
from discreet_agent.agent import Agent, state_folder
from discreet_agent.connection import Tls
from discreet_agent.federation.errors import AgentError, Lost
from discreet_agent.federation.identity import Identity
from discreet_agent.ledger import Ledger

FAILED, NOT_SETTLED, UNREACHABLE = 1, 3, 4
COMMANDS = ("run", "status", "history", "receipt", "refuse")


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = _parsed(parser, sys.argv[1:] if arguments is None else arguments)
    try:
        if given.command == "run":
            return _run(parser, given)
        print(_told(parser, given))
    except (AgentError, OSError, grpc.RpcError) as error:
        print(f"discreet-agent: {type(error).__name__}: {error}", file=sys.stderr)
        return UNREACHABLE if isinstance(error, Lost | grpc.RpcError) else FAILED
    return 0


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Take part in the session until it ends, and print the kind's result as JSON."""
    token, problem = given.token, given.problem
    if given.token_file is not None:
        token = given.token_file.read_text().strip()
    if token is None:
        parser.error("--token is needed, or --token-file, or DISCREET_TOKEN")
    if not isinstance(problem, dict):
        try:
            problem = json.loads(problem.read_text()) if problem else {}
        except (OSError, ValueError) as error:
            parser.error(f"{given.problem}: {error}")
    kind = given.program or problem.get("kind")
    if not kind:
        parser.error("name a problem file with its `kind`, or a --program")
    if given.log:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    agent = Agent.from_token(
        token,
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
    print(json.dumps(answer))
    if answer.get("settled") is False:
        print(f"discreet-agent: {answer['why']}", file=sys.stderr)
        return NOT_SETTLED
    return 0


def _told(parser: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """What the other commands print."""
    from discreet_agent import accounts  # noqa: PLC0415 - of these commands alone

    if given.command in ("receipt", "refuse") and given.job is None:
        parser.error(f"name the job: discreet-agent {given.command} JOB")
    if not given.identity.exists():  # it would be made, and there is nothing that it has done
        raise AgentError(f"there is no key {given.identity}")
    identity = Identity.open(given.identity)
    ledger = Ledger(given.ledger or given.identity.with_suffix(".ledger"), identity)
    folder = state_folder(given.identity, given.state)
    if given.command == "refuse":
        accounts.refuse(folder, given.job)
        return (
            f"{given.job} is refused: this agent declines it when the owner's signature arrives, "
            "and starts no answer to it"
        )
    if given.command == "receipt":
        text = json.dumps(ledger.receipt(given.job), separators=(",", ":"))
        if given.out is None:
            return text
        given.out.write_text(text)
        return f"written to {given.out}"
    limits = (given.limit_epsilon, given.limit_delta)
    if given.command == "status":
        found = accounts.status(identity, ledger, folder, limits)
        return json.dumps(found) if given.json else accounts.status_text(found)
    past = accounts.history(ledger, folder, limits)
    return json.dumps(past) if given.json else accounts.history_text(past)


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError("a number is needed") from None
    if not number.is_finite() or number < 0:
        raise argparse.ArgumentTypeError("a number that is not negative is needed")
    return number


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The arguments; those that are not given are as the file of `--config` says."""
    if not arguments or arguments[0] not in COMMANDS:
        arguments = ["run", *arguments]
    first = parser.parse_args(arguments)
    if first.config is None:
        return first
    import tomllib  # noqa: PLC0415 - of services alone

    try:
        read = tomllib.loads(first.config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"{first.config}: {error}")
    known = vars(first).keys() - {"command", "job", "config", "out", "json"}
    if unknown := sorted(read.keys() - known):
        parser.error(f"{first.config}: unknown {', '.join(unknown)}; known: {', '.join(known)}")
    problem = read.pop("problem", None)
    log = read.pop("log", first.log)
    # As texts, so that argparse reads them as it reads those of the command line.
    parser.set_defaults(**{name: str(value) for name, value in read.items()}, log=log is True)
    if problem is not None:
        parser.set_defaults(problem=problem if isinstance(problem, dict) else str(problem))
    return parser.parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "discreet-agent",
        description="Take part in a federated job with your own data (`run`, which may be left "
        "out); `status` says what this agent is doing, `history` what it gave and what is left, "
        "`refuse JOB` that it takes no part in a job, `receipt JOB` exports what was charged, "
        "signed by this agent.",
        epilog="Exit status: 0 done, 1 refused or failed for good, 2 bad usage, 3 done but not "
        "settled, 4 the server did not answer.",
    )
    add: Any = parser.add_argument
    add("command", choices=COMMANDS, help=argparse.SUPPRESS)
    add("job", nargs="?", help="of `refuse` and `receipt`: the job; of `refuse` also the session")
    add("--config", type=Path, help="TOML file with these options (token = …), for a service")
    add(
        "--token",
        default=os.environ.get("DISCREET_TOKEN"),
        help="dsc://…; or DISCREET_TOKEN, which `ps` does not show",
    )
    add("--token-file", type=Path, help="file with the token, instead of --token")
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
    add("--log", action="store_true", help="a line on standard error for each round")
    add("--json", action="store_true", help="of `status` and `history`: for programs")
    add("--out", type=Path, help="of `receipt`: where to write it, instead of printing it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
