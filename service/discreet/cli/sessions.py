"""Sessions of federated jobs: who is invited, who is there, and the owner's signature."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import JsonFlag, KeyOption, ServerOption, StateOption
from discreet.cli.servers import client_of
from discreet.cli.showing import show_session, tell
from discreet.errors import DiscreetError

if TYPE_CHECKING:
    from discreet_client.federation.identity import Identity

OwnerIdentityOption = Annotated[
    Path | None, typer.Option("--owner-identity", help="Your key file (in your user folder by default), never sent")
]

app = typer.Typer(no_args_is_help=True, help="Sessions of federated jobs.")


@app.command("tokens")
def session_tokens(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    count: Annotated[int, typer.Option(help="How many agents to invite")] = 1,
    group: Annotated[str | None, typer.Option(help="Invite a standing group instead: no tokens")] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Links for agents, each good for one; printed this once."""
    owner = _owner_identity(owner_identity)
    with client_of(state, server, key) as client:
        made = client.session_tokens(job_id, owner=owner.fingerprint, count=count, group=group)
    tell(made, as_json, lambda: print("\n".join(made["links"] or [str(made["link"])])))


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


@app.command("approve")
def session_approve(
    job_id: Annotated[str, typer.Argument(help="Id of a federated job")],
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Fingerprints to approve (16 digits or more); all by default"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before signing")] = False,
    save_as: Annotated[str | None, typer.Option(help="Keep these agents as a standing group of this name")] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Sign the roster with your own key: nobody else can take part. The price is reserved, and the session begins."""
    from discreet_client.federation import rosters, signing  # noqa: PLC0415 - with the library of cryptography
    from discreet_client.federation.errors import NotTrusted  # noqa: PLC0415

    owner = _owner_identity(owner_identity)
    with client_of(state, server, key) as client:
        found = client.session(job_id)
        try:
            chosen = rosters.chosen(found["agents"], agent)
        except NotTrusted as error:
            raise DiscreetError(str(error)) from None
        if not as_json:
            # Agents believe the owner alone, and the owner sees here what the server would have it sign.
            print("\n".join(["You sign:", *rosters.told(chosen, found["parameters"])]), file=sys.stderr)
            if sys.stdin.isatty() and not yes:
                typer.confirm("Sign it?", abort=True, err=True)
        document = rosters.roster_document(found["id"], job_id, found["kind"], chosen, found["parameters"])
        done = client.approve_session(
            job_id,
            roster=document.decode(),
            signature=base64.b64encode(owner.sign(signing.roster(document))).decode(),
            owner_key=base64.b64encode(owner.public_key).decode(),
            save_as=save_as,
        )
    tell(done, as_json, lambda: show_session(done))


def _owner_identity(path: Path | None) -> Identity:
    """The owner's Ed25519 key, made on first use. The server never gets it: it signs who may take part."""
    import platformdirs  # noqa: PLC0415

    from discreet_client.federation.identity import Identity  # noqa: PLC0415 - with the library of cryptography

    return Identity.open(path or platformdirs.user_data_path("discreet") / "session-owner.pem")
