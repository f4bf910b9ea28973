"""The ledger and its certificates; both can be verified with no server."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.files import read_json
from discreet.cli.options import JsonFlag, KeyOption, PublicKeyOption, ServerOption, StateOption
from discreet.cli.people import account_of
from discreet.cli.servers import client_of
from discreet.cli.showing import counted, show_budgets, show_entries, tell
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.ledger.certificates import Check
    from discreet.ledger.checkpoints import Verifier

app = typer.Typer(no_args_is_help=True, help="The privacy ledger.")
certificates = typer.Typer(no_args_is_help=True, help="Certificates.")


@app.command("show")
def show_ledger(
    account: Annotated[
        str | None,
        typer.Argument(help="A dataset's name or id, or the id of a budget; all when left out"),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the budgets, or the entries of one."""
    with client_of(state, server, key) as client:
        if account is None:
            budgets = client.budgets()
            tell(budgets, as_json, lambda: show_budgets(budgets))
        else:
            budgets = client.budgets()
            known = account in {one["id"] for one in budgets}
            entries = list(client.entries(account if known else account_of(budgets, account)))
            tell(entries, as_json, lambda: show_entries(entries))


@app.command("head")
def ledger_head(
    out: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write it to this file, in a signed envelope (DSSE)"),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the signed head of the ledger; keep it (--json or --out) where the service cannot reach
    it."""
    with client_of(state, server, key) as client:
        if out is not None:
            write_envelope(client.ledger_head_statement(), out, as_json)
            return
        head = client.ledger_head()
    entries = counted(head["seq"], "entry", "entries")
    tell(head, as_json, lambda: print(f"{entries}, head {head['hash']}, key {head['public_key']}"))


@app.command("export")
def export_ledger(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="Where to write; JSON Lines")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Export the whole ledger with its signed head, for `discreet ledger verify`."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with client_of(state, server, key) as client, draft.open("wb") as out:
            client.export_ledger(out)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    tell({"written": str(file)}, as_json, lambda: print(f"written to {file}"))


@app.command("verify")
def verify_ledger(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export")],
    public_key: PublicKeyOption = None,
    head: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A head that was kept elsewhere (JSON, or an envelope with it)",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check an export without a server: hashes, sums, rules, signature. Exits with 1 and names the
    first broken entry if one does not hold."""
    from discreet.ledger import envelopes  # noqa: PLC0415
    from discreet.ledger.entries import Broken  # noqa: PLC0415
    from discreet.ledger.verification import verify  # noqa: PLC0415

    kept = None if head is None else read_json(head)
    if kept is not None and envelopes.is_envelope(kept):
        try:
            kept = envelopes.opened_head(kept, public_key or ())
        except envelopes.BadEnvelope as error:
            raise InvalidInput(f"{head}: {error}") from None
    try:
        with file.open("rb") as lines:
            found = verify(lines, public_key=public_key, head=kept)
    except Broken as broken:
        answer: dict[str, Any] = {
            "valid": False,
            "account": broken.account,
            "seq": broken.seq,
            "what": broken.what,
        }
        line = f"broken: {broken}"
        tell(answer, as_json, lambda: print(line))
        raise typer.Exit(1) from None
    tell(
        {"valid": True, **asdict(found)},
        as_json,
        lambda: print(
            f"holds: {counted(found.entries, 'entry', 'entries')} of "
            f"{counted(found.accounts, 'account')} of {found.tenant}, head {found.hash}, signed by "
            f"{found.public_key}"
            + ("" if public_key else " (compare this key with one that you know)")
        ),
    )


@certificates.command("verify")
def verify_certificate(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="A certificate, an envelope, or a result with one"
        ),
    ],
    ledger: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="An export that must hold its entries"),
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The result (JSON) that it must bind, unless FILE has it",
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="A Parquet file that it must bind; may be repeated"),
    ] = None,
    first: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            exists=True,
            dir_okay=False,
            help="For an answer that was asked again: the first job's certificate; may be repeated",
        ),
    ] = None,
    public_key: PublicKeyOption = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME+ID+KEY", help="A witness that must have signed the log; may be repeated"
        ),
    ] = None,
    witnesses_needed: Annotated[
        int | None,
        typer.Option(min=1, help="How many of these witnesses must have signed; all by default"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a certificate without a server: its signature, its price from the events, its
    guarantee, the result that it binds, and its place in an export and in the transparency log."""
    from discreet.ledger import envelopes, offline  # noqa: PLC0415

    whole, body = certificate_in(file)
    envelope = whole if envelopes.is_envelope(whole) else None
    beside = offline.Beside(
        answer=_answer(whole if envelope is None else body, body, result),
        envelope=envelope,
        tables=_digests(table or []),
        firsts=[certificate_in(one)[1] for one in first or []],
        public_keys=public_key or (),
        witnesses=_witnesses(witness or []),
        witnesses_needed=witnesses_needed,
    )
    with nullcontext() if ledger is None else ledger.open("rb") as lines:
        checks = offline.check_all(body, beside, lines)
    tell_checks(checks, as_json, compared="" if public_key else "signature")


@certificates.command("get")
def get_certificate(
    job: Annotated[str, typer.Argument(help="Id of a job")],
    out: Annotated[Path, typer.Option(dir_okay=False, help="Where to write it; JSON")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the certificate as an in-toto statement in a signed envelope (DSSE), which `verify` and
    other tools read."""
    with client_of(state, server, key) as client:
        write_envelope(client.certificate(job), out, as_json)


@certificates.command("export")
def export_certificate(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A certificate, or a result with one"),
    ],
    registry: Annotated[
        Path,
        typer.Option(
            dir_okay=False,
            help="Write an entry for the Differential Privacy Deployments Registry (YAML)",
        ),
    ],
    name: Annotated[str, typer.Option(help="What is published, by name")] = "",
    curator: Annotated[
        list[str] | None, typer.Option(help="Who publishes it; may be repeated")
    ] = None,
    author: Annotated[
        list[str] | None, typer.Option(help="Who fills in the entry; may be repeated")
    ] = None,
    intended_use: Annotated[str, typer.Option(help="What it is for")] = "",
    region: Annotated[str, typer.Option(help="Where the data are from")] = "",
) -> None:
    """Write the content of a certificate in another format. The certificate is not checked:
    `verify` does that."""
    from discreet.ledger import certificates as entries  # noqa: PLC0415

    whole, body = certificate_in(file)
    said = whole["job"] if isinstance(whole.get("job"), dict) and whole is not body else {}
    publisher = entries.Publisher(
        name or str(said.get("name") or ""), curator or (), author or (), intended_use, region
    )
    headline, finished = (str(said.get(one) or "") for one in ("headline", "finished_at"))
    try:
        text = entries.entry(body, publisher, headline=headline, published=finished[:10])
    except ValueError as error:
        raise InvalidInput(f"{file}: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{file}: this is no whole certificate") from None
    registry.write_text(text, encoding="utf-8")
    left = text.count(entries.EMPTY)
    print(
        f"{registry} is written"
        + (f"; {counted(left, 'field')} only you can fill in" if left else "")
    )


def write_envelope(envelope: Mapping[str, Any], out: Path, as_json: bool) -> None:
    """Into a file, and say so."""
    out.write_text(json.dumps(envelope, separators=(",", ":")))
    tell({"written": str(out)}, as_json, lambda: print(f"written to {out}"))


def tell_checks(checks: Sequence[Check], as_json: bool, *, compared: str) -> None:
    """Say of each thing that was looked at whether it holds, and Exit 1 where one does not.
    `compared`: the check whose key nobody has given, so that who reads it must know it."""
    from discreet.ledger.certificates import verdict  # noqa: PLC0415

    answer = verdict(checks)
    marks = {True: "holds ", False: "BROKEN", None: "open  "}
    compare = " (compare this key with one that you know)"
    tell(
        answer,
        as_json,
        lambda: [
            print(
                f"{marks[one.holds]} {one.name}: "
                f"{one.detail}{compare * (one.name == compared and bool(one.holds))}"
            )
            for one in checks
        ],
    )
    if not answer["valid"]:
        raise typer.Exit(1)


def certificate_in(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the file holds, and the certificate in it."""
    from discreet.ledger import envelopes  # noqa: PLC0415

    whole = read_json(file)
    if envelopes.is_envelope(whole):
        try:
            return whole, envelopes.opened(whole)
        except envelopes.BadEnvelope as error:
            raise InvalidInput(f"{file}: {error}") from None
    body = whole.get("certificate", whole)
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: its certificate is no JSON object")
    return whole, body


def _witnesses(texts: list[str]) -> list[Verifier]:
    from discreet.ledger.checkpoints import BadNote, Verifier  # noqa: PLC0415

    try:
        found = [Verifier.read(text) for text in texts]
    except BadNote as error:
        raise InvalidInput(f"--witness: {error}") from None
    if not all(one.witness for one in found):
        raise InvalidInput("--witness: this is the key of a log, not of a witness")
    return found


def _answer(
    whole: dict[str, Any], certificate: dict[str, Any], result: Path | None
) -> dict[str, Any]:
    """What stands beside the certificate, or in a file of its own."""
    given = whole if whole is not certificate else {}
    if result is None:
        return given
    other = read_json(result)  # the result alone, or again what `--out` wrote
    return other if "result" in other and "certificate" in other else {**given, "result": other}


def _digests(tables: list[str]) -> dict[str, str]:
    """SHA-256 of each NAME=FILE."""
    found = {}
    for one in tables:
        name, _, place = one.partition("=")
        try:
            with open(place, "rb") as parquet:
                found[name] = hashlib.file_digest(parquet, "sha256").hexdigest()
        except OSError as error:
            raise InvalidInput(
                f"--table {one}: NAME=FILE is needed, and the file cannot be read"
            ) from error
    return found
