"""Sessions of federated jobs: invitations, enrolled agents, and the owner's signature."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.files import read_body, read_json
from discreet.cli.ledger import certificate_in, tell_checks, write_envelope
from discreet.cli.options import JsonFlag, KeyOption, PublicKeyOption, ServerOption, StateOption
from discreet.cli.servers import client_of
from discreet.cli.showing import show_session, tell
from discreet.cli.texts import printable
from discreet.errors import DiscreetError, InvalidInput

if TYPE_CHECKING:
    from discreet_agent.federation.identity import Identity

OwnerIdentityOption = Annotated[
    Path | None,
    typer.Option(
        "--owner-identity", help="Your key file (in your user folder by default), never sent"
    ),
]

app = typer.Typer(no_args_is_help=True, help="Sessions of federated jobs.")


@app.command("tokens")
def session_tokens(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    count: Annotated[int, typer.Option(help="How many agents to invite")] = 1,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            help="Instead of --count: a link that only the agent of this name can use; "
            "may be repeated",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Invite a standing group instead: no tokens")
    ] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print links for agents, each for one agent; they are shown only once."""
    owner = _owner_identity(owner_identity)
    with client_of(state, server, key) as client:
        made = client.session_tokens(
            job_id, owner=owner.fingerprint, count=count, names=name, group=group
        )
    lines = made["links"] or [str(made["link"])]
    if name:
        lines = [f"{printable(of)}: {link}" for of, link in zip(name, lines, strict=True)]
    tell(made, as_json, lambda: print("\n".join(lines)))


@app.command("show")
def session_show(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Who is there."""
    with client_of(state, server, key) as client:
        found = client.session(job_id)
    tell(found, as_json, lambda: show_session(found))


@app.command("again")
def session_again(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job that has failed")],
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            help="Fingerprints to leave out (16 digits or more); by default those that the error "
            "names",
        ),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Start a failed session again without the agents that it could not go on without. Prints the
    one link with which all others come back; then compare and sign as always.

    Sums that were opened before stay opened: together with those of the new job they tell what
    whoever is left out has contributed.
    """
    with client_of(state, server, key) as client:
        leave = None
        if without:
            leave = [
                one["fingerprint"] for one in _chosen(client.session(job_id)["agents"], without)
            ]
        made = client.start_session_again(job_id, without=leave)
    lines = f"job {made['job']}, {len(made['agents'])} agents\n{made['link']}"
    tell(made, as_json, lambda: print(lines))


@app.command("get")
def session_get(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    out: Annotated[Path, typer.Option(dir_okay=False, help="Where to write it; JSON")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the head of a session as an in-toto statement in a signed envelope (DSSE): the owner's
    roster, the agents' receipts, and the transcript so far."""
    with client_of(state, server, key) as client:
        write_envelope(client.session_statement(job_id), out, as_json)


@app.command("verify")
def session_verify(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="What `session get` or `discreet-agent receipt` wrote"
        ),
    ],
    public_key: PublicKeyOption = None,
    owner: Annotated[
        str | None, typer.Option(help="Fingerprint of the owner who must have signed")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="For a receipt: fingerprint of the agent that must have signed it"),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A certificate, or a result with one, of the same session",
        ),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A receipt from an agent; may be repeated",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check the head of a session, or an agent's receipt, without a server: who has signed what."""
    from discreet.ledger import session_heads  # noqa: PLC0415
    from discreet_agent.dsse import BadEnvelope  # noqa: PLC0415

    beside = session_heads.Beside(
        public_keys=public_key or (),
        owner=owner,
        agent=agent,
        certificate=None if certificate is None else certificate_in(certificate)[1],
        receipts=[read_json(one) for one in receipt or []],
    )
    try:
        checks = session_heads.check(read_json(file), beside)
    except BadEnvelope as error:
        raise InvalidInput(f"{file}: {error}") from None
    tell_checks(checks, as_json, compared="" if public_key else "envelope")


@app.command("remove")
def session_remove(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    agent: Annotated[
        list[str], typer.Argument(help="Fingerprints of the agents to remove (16 digits or more)")
    ],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove enrolled agents before you sign. Their tokens cannot be used again."""
    with client_of(state, server, key) as client:
        for one in _chosen(client.session(job_id)["agents"], agent):
            client.remove_agent(job_id, one["fingerprint"])
        found = client.session(job_id)
    tell(found, as_json, lambda: show_session(found))


@app.command("approve")
def session_approve(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Fingerprints to approve (16 digits or more); all by default"),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(
            "--job",
            help="The job file that you submitted: what you sign is computed from it here, again",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before signing")] = False,
    save_as: Annotated[
        str | None, typer.Option(help="Keep these agents as a standing group with this name")
    ] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Sign the roster with your own key: nobody else can take part. The price is reserved, and the
    session begins.

    With --job the server is not trusted: problem, price and parameters must be what your own file
    gives. Sessions with masks need it: what is signed there follows from who takes part.
    """
    from discreet_agent.federation import rosters, signing  # noqa: PLC0415 - with the library of cryptography

    owner = _owner_identity(owner_identity)
    with client_of(state, server, key) as client:
        found = client.session(job_id)
        chosen = _chosen(found["agents"], agent)
        if job is not None:
            found["parameters"] = compare(job, client.job(job_id), found["parameters"], chosen)
        else:
            require_fixed_parameters(client.job(job_id)["problem"], found["parameters"])
        if not as_json:
            # Agents believe the owner alone, and the owner sees here what the server would have it
            # sign.
            print(
                "\n".join(["You sign:", *rosters.told(chosen, found["parameters"])]),
                file=sys.stderr,
            )
            if sys.stdin.isatty() and not yes:
                typer.confirm("Sign it?", abort=True, err=True)
        document = rosters.roster_document(
            found["id"], job_id, found["kind"], chosen, found["parameters"]
        )
        done = client.approve_session(
            job_id,
            roster=document.decode(),
            signature=base64.b64encode(owner.sign(signing.roster(document))).decode(),
            owner_key=base64.b64encode(owner.public_key).decode(),
            save_as=save_as,
        )
    tell(done, as_json, lambda: show_session(done))


def _chosen(
    agents: Sequence[Mapping[str, Any]], beginnings: Sequence[str] | None
) -> list[Mapping[str, Any]]:
    """As `rosters.chosen`, with an error for the command line."""
    from discreet_agent.federation import rosters  # noqa: PLC0415 - with the library of cryptography
    from discreet_agent.federation.errors import NotTrusted  # noqa: PLC0415

    try:
        return rosters.chosen(agents, beginnings)
    except NotTrusted as error:
        raise DiscreetError(str(error)) from None


def require_fixed_parameters(told: Any, parameters: Any) -> None:
    """DiscreetError if what would be signed follows from who is on the roster: a server that
    computes it alone could sign away whom the masks protect from."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - with all kinds of problems

    from discreet.problems import AnyProblem  # noqa: PLC0415

    try:
        problem: Any = TypeAdapter(AnyProblem).validate_python(told)
        fixed = problem.signs_parameters and not problem.parameters_of_roster
    except (ValidationError, AttributeError):
        fixed = False
    if parameters and not fixed:
        raise DiscreetError(
            "what you would sign follows from the agents on the roster, and the server has "
            "computed it: say --job FILE, the job that you submitted, and it is computed here. "
            "Nothing was signed"
        )


def compare(
    file: Path, job: Mapping[str, Any], parameters: Any, agents: Sequence[Mapping[str, Any]]
) -> Any:
    """The parameters to sign. DiscreetError where the server has another problem, price or
    parameters than the job file gives with these agents; where parameters follow from who is on the
    roster, those of the file are signed whatever the server shows."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - with all kinds of problems

    from discreet.problems.federation import FederatedProblem, Member  # noqa: PLC0415
    from discreet.usecases.jobs import price_view  # noqa: PLC0415
    from discreet.usecases.requests import JobRequest  # noqa: PLC0415
    from discreet.web.bodies import validate  # noqa: PLC0415

    asked = validate(TypeAdapter(JobRequest), read_body(file))
    problem = asked.problem
    if not isinstance(problem, FederatedProblem) or problem.terms is None:
        raise DiscreetError(
            f"{file} is no federated job: its `protocol` is not `federated`. Nothing was signed"
        )
    budget = problem.budget(asked.privacy)
    plan = problem.plan_federation(
        [
            Member(
                one["fingerprint"], one["name"], base64.b64decode(one["key"]), one["announcement"]
            )
            for one in sorted(agents, key=lambda one: str(one["fingerprint"]))  # as on the roster
        ],
        budget,
    )
    signed = plan.model_dump(mode="json")["parameters"] if problem.signs_parameters else None
    pairs = {
        "problem": (json.loads(problem.model_dump_json()), job["problem"]),
        "price": (price_view(problem.plan_federation((), budget).total), job["price"]),
        "parameters": (signed, signed if problem.parameters_of_roster else parameters),
    }
    for name, (own, theirs) in pairs.items():
        if (place := first_difference(own, theirs)) is not None:
            says = f"the server's {name} is not what {file} gives, at /{'/'.join([name, *place])}"
            raise DiscreetError(f"{says}. Nothing was signed: do not sign what you did not ask for")
    return signed


def first_difference(own: Any, theirs: Any) -> list[str] | None:
    """Where two JSON values differ first, as keys and positions from the top; None where they are
    equal."""
    if isinstance(own, dict) and isinstance(theirs, dict):
        for key in [*own, *theirs]:
            if key not in own or key not in theirs:
                return [key]
            if (below := first_difference(own[key], theirs[key])) is not None:
                return [key, *below]
        return None
    if isinstance(own, list) and isinstance(theirs, list) and len(own) == len(theirs):
        found = (
            (place, first_difference(*pair))
            for place, pair in enumerate(zip(own, theirs, strict=True))
        )
        return next(([str(place), *below] for place, below in found if below is not None), None)
    return None if own == theirs and isinstance(own, bool) == isinstance(theirs, bool) else []


def _owner_identity(path: Path | None) -> Identity:
    """The owner's Ed25519 key, made on first use. The server never gets it: it signs who may take
    part."""
    import platformdirs  # noqa: PLC0415

    from discreet_agent.federation.identity import Identity  # noqa: PLC0415 - with the library of cryptography

    return Identity.open(path or platformdirs.user_data_path("discreet") / "session-owner.pem")
