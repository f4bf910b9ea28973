"""Access: tenants, keys, people, caps, and links into the dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from discreet.cli.options import JsonFlag, KeyOption, ServerOption, StateOption, number
from discreet.cli.people import account_of
from discreet.cli.servers import client_of
from discreet.cli.showing import show_budgets, tell
from discreet.cli.showing_answers import as_said
from discreet.cli.texts import printable
from discreet.errors import DiscreetError

app = typer.Typer()
tenants = typer.Typer(no_args_is_help=True, help="Tenants.")
keys = typer.Typer(no_args_is_help=True, help="API keys.")
people = typer.Typer(no_args_is_help=True, help="People of the identity provider.")
caps = typer.Typer(no_args_is_help=True, help="Caps: on a dataset, on the tenant, on principals.")


@tenants.command("create")
def create_tenant(
    name: str,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a tenant (operators)."""
    with client_of(state, server, key, role="operator") as client:
        made = client.create_tenant(name)
    tell(made, as_json, lambda: print(made["id"]))


@app.command()
def login(
    role: Annotated[
        str, typer.Option(help="Which key of the state folder to use: owner or operator")
    ] = "owner",
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print a link that logs you in to the dashboard; it works once, within ten minutes."""
    with client_of(state, server, key, role=role) as client:
        made = client.login_link()
    tell(made, as_json, lambda: print(made["link"]))


@keys.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="operator, owner, analyst or auditor")],
    tenant: Annotated[
        str | None, typer.Option(help="Name or id of the tenant; operators only")
    ] = None,
    principal: Annotated[
        str | None, typer.Option(help="Who holds the key; the role by default")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            help="When it expires: after a number of days (`90d`) or hours (`8h`), or at "
            "a time in RFC 3339"
        ),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create an API key; it is printed only once."""
    expires_at = None if expires is None else _moment(expires)
    with client_of(state, server, key, role="operator" if tenant else "owner") as client:
        made = client.create_key(
            role=role, principal=principal or role, tenant=tenant, expires_at=expires_at
        )
    tell(made, as_json, lambda: print(made["key"]))


@keys.command("list")
def list_keys(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the tenant's keys, without their secrets."""
    with client_of(state, server, key) as client:
        keys = client.list_keys()
    tell(keys, as_json, lambda: show_keys(keys))


@keys.command("revoke")
def revoke_key(
    key_id: str,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Revoke a key."""
    with client_of(state, server, key) as client:
        client.revoke_key(key_id)
    tell({"revoked": key_id}, as_json, lambda: print(f"{key_id} opens nothing any more"))


Who = Annotated[
    str,
    typer.Argument(
        metavar="WHO",
        help="The provider's subject (`sub`) of the person, or the name that `people list` shows",
    ),
]
IssuerOption = Annotated[
    str | None, typer.Option(help="The provider; by default the configured one")
]
KeepersOption = Annotated[
    str,
    typer.Option(
        help="Which key of the state folder to use: owner (for the tenant) or "
        "operator (for all tenants)"
    ),
]


@people.command("list")
def list_people(
    role: KeepersOption = "owner",
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the people who signed in by the identity provider, the latest first; operators see all
    tenants."""
    with client_of(state, server, key, role=role) as client:
        found = client.people()
    tell(found, as_json, lambda: show_people(found))


@people.command("remove")
def remove_person(
    who: Who,
    issuer: IssuerOption = None,
    keep_keys: Annotated[
        bool, typer.Option("--keep-keys", help="Keep the API keys that the person has made")
    ] = False,
    role: KeepersOption = "owner",
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove a person, whether or not they ever signed in: end their sessions and access tokens,
    and revoke the keys that they made and the keys made with those."""
    with client_of(state, server, key, role=role) as client:
        issuer, subject = _person(client, who, issuer)
        done = client.remove_person(subject, issuer=issuer, keep_keys=keep_keys)
    lines = [
        f"{subject} is out",
        *(f"{one} opens nothing any more" for one in done["revoked_keys"]),
    ]
    lines += [f"{one} goes on: `discreet key revoke {one}` ends it" for one in done["kept_keys"]]
    tell(done, as_json, lambda: print("\n".join(map(printable, lines))))


@people.command("restore")
def restore_person(
    who: Who,
    issuer: IssuerOption = None,
    role: KeepersOption = "owner",
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a removed person in again; keys that were revoked with them stay revoked."""
    with client_of(state, server, key, role=role) as client:
        issuer, subject = _person(client, who, issuer)
        done = client.restore_person(subject, issuer=issuer)
    tell(done, as_json, lambda: print(printable(f"{subject} may come in again")))


def _person(client: Any, who: str, issuer: str | None) -> tuple[str | None, str]:
    """Issuer and subject of a person by what they are called here: id, `issuer#subject`, or the
    subject alone."""
    if who.startswith("per_"):
        found = next((one for one in client.people() if one["id"] == who), None)
        if found is None:
            raise DiscreetError(f"there is nobody {who}")
        return found["issuer"], found["subject"]
    before, mark, after = who.partition("#")
    if issuer is None and mark and before.startswith(("https://", "http://")):
        return before, after
    return issuer, who


def _moment(text: str) -> str:
    """A moment from now (`90d`, `8h`), or as it stands, in RFC 3339."""
    units = {"d": "days", "h": "hours"}
    number, unit = text[:-1], text[-1:]
    try:
        if unit in units and number.isascii() and number.isdigit():
            moment = datetime.now(UTC) + timedelta(**{units[unit]: int(number)})
        else:
            moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            "`90d`, `8h`, or a time in RFC 3339", param_hint="--expires"
        ) from None
    return moment.isoformat()


@caps.command("grant")
def grant(
    given: Annotated[
        str, typer.Argument(metavar="ACCOUNT", help="Id of a budget, or a dataset's id or name")
    ],
    epsilon: Annotated[str, typer.Option(help="Epsilon of the new cap in total, not the increase")],
    reason: Annotated[str, typer.Option(help="Stays in the ledger")],
    delta: Annotated[
        str | None, typer.Option(help="Delta of the new cap; unchanged when left out")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Set another cap on what may be learnt in total about the people in a dataset (owners)."""
    with client_of(state, server, key) as client:
        found = given if given.startswith("acc_") else account_of(client.budgets(), given)
        kept = (
            Decimal(str(client.budget(found)["cap"]["delta"]))
            if delta is None
            else number(delta, "--delta")
        )
        made = client.grant(found, epsilon=number(epsilon, "--epsilon"), delta=kept, reason=reason)
    tell(made, as_json, lambda: show_budgets([made]))


@caps.command("set")
def set_cap(
    epsilon: Annotated[str, typer.Option(help="Epsilon of the cap")],
    reason: Annotated[str, typer.Option(help="Stays in the ledger")],
    delta: Annotated[str, typer.Option(help="Delta of the cap")] = "0",
    principal: Annotated[
        str | None,
        typer.Option(help="The principal whose cap it is; the whole tenant when left out"),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Cap what the tenant or one principal may spend over all data, from now on."""
    figures = {"epsilon": number(epsilon, "--epsilon"), "delta": number(delta, "--delta")}
    scope = "tenant" if principal is None else "principal"
    with client_of(state, server, key) as client:
        made = client.set_cap(scope=scope, principal=principal, reason=reason, **figures)
    tell(made, as_json, lambda: show_budgets([made]))


@caps.command("show")
def show_caps(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the caps on the tenant and on its principals."""
    with client_of(state, server, key) as client:
        found = client.caps()
    tell(found, as_json, lambda: show_budgets(found))


# Access tables ------------------------------------------------------------------------------------
# Tables of those who have access: API keys, and people of the identity provider.


def show_keys(keys: Sequence[Mapping[str, Any]]) -> None:
    table = Table(
        Column("key", no_wrap=True), "principal", "role", "made", "expires", "last used", "state"
    )
    now = datetime.now(UTC).isoformat()
    for one in keys:
        state = (
            "revoked"
            if one["revoked_at"]
            else "expired"
            if (one["expires_at"] or "9") < now
            else "good"
        )
        times = [
            (one[name] or "")[:16].replace("T", " ")
            for name in ("created_at", "expires_at", "last_used_at")
        ]
        table.add_row(one["id"], as_said(one["principal"]), one["role"], *times, state)
    Console().print(table)


def show_people(people: Sequence[Mapping[str, Any]]) -> None:
    table = Table(
        Column("id", no_wrap=True), Column("who", overflow="fold"), "role", "last used", "state"
    )
    for one in people:
        removed = (
            f"removed{' everywhere' if one['everywhere'] else ''}" if one["removed_at"] else "good"
        )
        last = (one["last_used_at"] or "")[:16].replace("T", " ")
        who = one["subject"] if one["name"] is None else f"{one['name']}\n{one['subject']}"
        table.add_row(
            one["id"], as_said(who), as_said(f"{one['role']}\nof {one['tenant']}"), last, removed
        )
    Console().print(table)
