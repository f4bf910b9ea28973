"""The transparency log, as anybody may watch and witness it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.files import read_json
from discreet.cli.options import JsonFlag, KeyOption, ServerOption, StateOption
from discreet.cli.servers import address_and_key, client_of, settings_of
from discreet.cli.showing import counted, tell
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.ledger.checkpoints import Checkpoint, Verifier

app = typer.Typer(no_args_is_help=True, help="The transparency log, which anybody may check.")
witnesses = typer.Typer(help="A witness of transparency logs.")

LogKeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--log-key", metavar="NAME+ID+KEY", help="A key of the log, as `discreet log key` prints it"
    ),
]


@app.command("key")
def log_key(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the log's name and key, as `log watch` and `witness` take them. Pass them on over a
    channel that you trust."""
    import base64  # noqa: PLC0415

    from discreet.ledger.checkpoints import Verifier  # noqa: PLC0415
    from discreet.witness.remote import RemoteLog  # noqa: PLC0415

    url, _ = address_and_key(state, server, key)
    with client_of(state, server, key) as client:
        public = base64.b64decode(client.ledger_head()["public_key"])
    text = Verifier(RemoteLog(url).checkpoint().origin, public).text
    tell({"key": text}, as_json, lambda: print(text))


@app.command("watch")
def watch_log(
    url: Annotated[str, typer.Argument(help="Address of the service; no key of it is needed")],
    kept: Annotated[
        Path,
        typer.Option(dir_okay=False, help="File of the last checkpoint, made on the first look"),
    ],
    seen: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            exists=True,
            dir_okay=False,
            help="A checkpoint, certificate or result that others have",
        ),
    ] = None,
    log_key: LogKeyOption = None,
    every: Annotated[
        float | None, typer.Option(min=1, help="Repeat the check after this many seconds, for ever")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that the log has only grown since you, or others, last saw it. Exits with 1 and both
    checkpoints when two contradict each other: then somebody was shown a different ledger, or
    entries were removed."""
    from discreet.witness.remote import RemoteLog  # noqa: PLC0415

    keys = _verifiers(log_key or [])
    others = [_checkpoint(one) for one in seen or []]
    while True:
        _look(RemoteLog(url), kept, others, keys, as_json)
        if every is None:
            return
        time.sleep(every)


def _look(
    log: Any, kept: Path, others: list[Checkpoint], keys: list[Verifier], as_json: bool
) -> None:
    from discreet.ledger.checkpoints import BadNote, signers  # noqa: PLC0415
    from discreet.private_files import write_private  # noqa: PLC0415
    from discreet.witness.watching import Forked, require_growth  # noqa: PLC0415

    known = [*([_checkpoint(kept)] if kept.exists() else []), *others]
    newest = log.checkpoint()
    try:
        for one in (newest, *known) if keys else ():
            if not signers(one, keys):
                raise InvalidInput(
                    f"the checkpoint of {one.size} entries is not signed by a key that was given"
                )
        require_growth(log, newest, known)
    except BadNote as error:
        raise InvalidInput(str(error)) from None
    except Forked as error:
        broken = {
            "holds": False,
            "why": str(error),
            "checkpoints": [error.one.note, error.other.note],
        }
        why = str(error)
        notes = f"{error.one.note}\n{error.other.note}"
        tell(broken, as_json, lambda: print(f"BROKEN {why}\n\n{notes}"))
        raise typer.Exit(1) from None
    write_private(kept, newest.note)
    answer = {"holds": True, "origin": newest.origin, "size": newest.size, "compared": len(known)}
    trust = "" if keys else " (give --log-key to check who signed it)"
    compared = (
        f"and goes on from {counted(len(known), 'checkpoint')}"
        if known
        else "seen for the first time"
    )
    tell(
        answer,
        as_json,
        lambda: print(f"holds: {newest.origin} has {newest.size} entries, {compared}{trust}"),
    )


@witnesses.command("witness")
def witness(
    name: Annotated[
        str, typer.Argument(help="The name of the witness: a domain of yours, without a scheme")
    ],
    log_key: LogKeyOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder of its key and of what it has seen; by default `witness` in the "
            "state folder",
        ),
    ] = None,
    state: StateOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port")] = 8090,
    show_key: Annotated[
        bool, typer.Option("--show-key", help="Only print the witness's key")
    ] = False,
) -> None:
    """Witness logs: cosign their checkpoints as long as the logs only grow. This needs no database
    and no key of any service."""
    from discreet.ledger.checkpoints import BadNote, Verifier  # noqa: PLC0415
    from discreet.witness.app import serve  # noqa: PLC0415
    from discreet.witness.signing import Witness  # noqa: PLC0415

    own = Witness(folder or settings_of(state).state / "witness", name, _verifiers(log_key or []))
    try:
        Verifier.read(own.verifier.text)
    except BadNote:
        raise InvalidInput("the name of a witness has no blank and no +") from None
    print(own.verifier.text, flush=True)
    if show_key:
        return
    if not log_key:
        raise InvalidInput(
            "a witness signs logs that it knows: give --log-key, as `discreet log key` says it"
        )
    serve(own, host=host, port=port)


def _verifiers(texts: list[str]) -> list[Verifier]:
    from discreet.ledger.checkpoints import BadNote, Verifier  # noqa: PLC0415

    try:
        return [Verifier.read(text) for text in texts]
    except BadNote as error:
        raise InvalidInput(f"--log-key: {error}") from None


def _checkpoint(file: Path) -> Checkpoint:
    """The checkpoint in a file: a note, or the one beside a certificate's proofs."""
    from discreet.ledger.checkpoints import BadNote, read_checkpoint  # noqa: PLC0415

    try:
        text = file.read_text(encoding="utf-8")
        if text.lstrip().startswith("{"):
            whole = read_json(file)
            text = whole.get("certificate", whole)["proofs"]["checkpoint"]
        return read_checkpoint(text)
    except (BadNote, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{file} has no proofs of a transparency log") from None
