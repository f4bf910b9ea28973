"""Sessions of federated jobs: who is invited, who is there, and the owner's signature."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import platformdirs
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
    tell(made, as_json, lambda: print("\n".join(made["links"] or [made["link"]])))


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
        typer.Option("--agent", help="Fingerprints to approve (their beginnings); all by default"),
    ] = None,
    save_as: Annotated[str | None, typer.Option(help="Keep these agents as a standing group of this name")] = None,
    owner_identity: OwnerIdentityOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Sign the roster with your own key: nobody else can take part. The price is reserved, and the session begins."""
    from discreet_client.federation import rosters, signing  # noqa: PLC0415 - with the library of cryptography

    owner = _owner_identity(owner_identity)
    with client_of(state, server, key) as client:
        found = client.session(job_id)
        chosen = [
            one
            for one in found["agents"]
            if agent is None or any(one["fingerprint"].startswith(beginning) for beginning in agent)
        ]
        for one in chosen:  # what the server says is not believed: the key must be the one of that name
            if signing.fingerprint(base64.b64decode(one["key"])) != one["fingerprint"]:
                raise DiscreetError(f"the server shows another key under the fingerprint {one['fingerprint']}")
        document = rosters.roster_document(found["id"], found["job"], found["kind"], chosen, found["parameters"])
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
    from discreet_client.federation.identity import Identity  # noqa: PLC0415 - with the library of cryptography

    return Identity.open(path or platformdirs.user_data_path("discreet") / "session-owner.pem")
