"""Options that many commands take."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON")]
StateOption = Annotated[
    Path | None,
    typer.Option("--state", help="State folder; by default `discreet` in the user's data folder"),
]
ServerOption = Annotated[
    str | None, typer.Option("--server", envvar="DISCREET_URL", help="Address of a server")
]
KeyOption = Annotated[str | None, typer.Option("--key", envvar="DISCREET_KEY", help="API key")]
PublicKeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--public-key",
        help="The key that must have signed (base64); after a rotation, repeat it for each key",
    ),
]
EpsilonOption = Annotated[
    str | None, typer.Option("--epsilon", help="Epsilon, instead of the one in FILE")
]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="Instead of epsilon: strict (0.1), usual (1) or loose (4)"),
]
AnewFlag = Annotated[
    bool,
    typer.Option(
        "--anew",
        help="Release and pay even if an earlier job has released the same; without a terminal "
        "that is refused otherwise",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        help="Encoding of CSV files if it is not UTF-8, such as cp1252 for files saved by Excel"
    ),
]
DecimalOption = Annotated[
    str | None,
    typer.Option(
        help="Decimal mark of CSV files, . or , where no comma lies between columns and 1.234 may "
        "be either"
    ),
]
LocalFlag = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Read the file on this machine and send what the reader makes of it, not the file: "
        "names stay here. The dataset is the same",
    ),
]
AcceptDoubtsFlag = Annotated[
    bool,
    typer.Option(
        "--accept-doubts",
        help="Register the content although a check finds that it cannot be right, such as "
        "behaviour probabilities whose weights have a mean far from 1",
    ),
]
StaysFlag = Annotated[
    bool,
    typer.Option(
        "--stays",
        help="Leave the content at its address: only its fingerprint is stored, and each job reads "
        "it there again and fails, uncharged, if it has changed",
    ),
]
QueryOption = Annotated[
    str | None,
    typer.Option(
        help="One SELECT, beside the address of a PostgreSQL database that the service reads "
        "(postgresql://host/database): its rows are the content"
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="A name for the job, shown in lists and on its page")
]
FileArgument = Annotated[
    Path,
    typer.Argument(
        exists=True,
        dir_okay=False,
        help="A job: JSON as POST /v1/jobs takes it, or TOML as `discreet init` writes it",
    ),
]


def number(text: str, option: str) -> Decimal:
    """The number that was given to an option; bad usage names the option."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite():
        raise typer.BadParameter(f"a number is needed, not {text}", param_hint=option)
    return found


def require_address(address: str | None, stays: bool) -> None:
    """BadParameter if a content is to stay that is not at an address which the service reads."""
    if stays and address is None:
        says = "needs the address of a content that the service reads: file:///…, https://…, s3://…"
        raise typer.BadParameter(says, param_hint="--stays")


def asked_of(address: str | None, query: str | None) -> str | None:
    """The address with the query that is asked there. BadParameter if it is no database."""
    if query is None:
        return address
    from discreet_client.contents import rows_of  # noqa: PLC0415 - loads NumPy

    try:
        return rows_of(address or "", query)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--query") from None
