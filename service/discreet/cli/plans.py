"""What commands print of plans: the price, what to expect, and what need not be paid for again."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from discreet.cli.showing import console
from discreet.cli.texts import printable
from discreet.errors import DiscreetError

THREE_LISTS = {"assumptions": "holds if", "not_covered": "not covered", "model": "model"}
"""What a guarantee rests on, what it says nothing of, and what the answer alone rests on."""


def offered(planned: Mapping[str, Any], mode: str, *, anew: bool) -> None:
    """Tell of jobs that have released what is asked, before it is paid for again. Unless that is
    wanted (`anew`) or costs nothing (a dataset of mode `simulation`): at a terminal ask whether to,
    and refuse where nobody can answer."""
    reusable = planned["reusable"]
    if not reusable:
        return
    anew = anew or mode == "simulation"
    says = (
        f"{reusable[0]} released this{_warning(planned)}. Free: discreet ask {reusable[0]} --set "
        "@FILE, with the other fields of this job."
    )
    at_terminal = sys.stdin.isatty() and console.is_terminal
    if not (anew or at_terminal):
        raise DiscreetError(f"Not submitted: {says} Pay again: --anew")
    console.print(says, highlight=False, soft_wrap=True)
    if not anew:
        typer.confirm("Release again and pay again?", abort=True, err=True)


def _warning(planned: Mapping[str, Any]) -> str:
    """What is to be known of the first job that a plan offers to ask again."""
    noisy = planned["reusable"][0] in planned.get("reusable_noise", ())
    return " (its answer is mostly noise; other answers from it may be too)" if noisy else ""


def show_plan(answer: Mapping[str, Any], *, simulation: bool = False) -> None:
    """`simulation`: the data are declared public, so that the price is of private data that there
    are not."""
    if reusable := answer.get("reusable"):
        Console().print(
            f"Already released by {reusable[0]}{_warning(answer)}. Reuse free: discreet ask "
            f'{reusable[0]}, or "release": "{reusable[0]}" instead of the dataset',
            highlight=False,
        )
    table = Table("quantity", "noise", "standard deviation", title="Noise")
    for noise in answer["plan"]["noise"]:
        table.add_row(
            noise["quantity"], noise["distribution"], f"{noise['standard_deviation']:.4g}"
        )
    out = Console()
    out.print(table)
    if privacy := answer.get("privacy"):
        out.print(
            f"privacy: epsilon {privacy['epsilon']}, delta {privacy['delta']}, to be sent with a "
            "job"
        )
    price = f"epsilon {answer['price']['epsilon']}, delta {answer['price']['delta']}"
    if simulation:
        says = (
            "price: nothing, as this is a simulation on public data; epsilon only sets how much "
            "noise is added"
        )
        out.print(
            f"{says}; of private data {price}, with neighbouring datasets: "
            f"{answer['plan']['neighbours']}",
            highlight=False,
        )
    else:
        out.print(
            f"price: {price}. Free to check; submitting reserves it whole before data are read",
            highlight=False,
        )
        out.print(f"neighbouring datasets: {answer['plan']['neighbours']}")
    for field, title in THREE_LISTS.items():
        if said := answer["plan"].get(field):
            out.print(f"{title}:")
        for sentence in said or ():
            out.print(f"- {printable(sentence)}", markup=False, highlight=False)
    if exposure := answer["plan"].get("exposure"):
        out.print(f"exposure: {exposure['sentence']}")
    if advice := answer["plan"]["advice"]:
        out.print("expected, from public figures:")
    for sentence in advice:
        out.print(f"- {sentence}")
    if (others := answer.get("asked_again")) is not None:
        out.print(asked_again(others))
    if ends := answer.get("until_spent"):
        out.print(ends["sentence"], highlight=False, soft_wrap=True)
    admitted = answer.get("admitted", True)
    if waits := answer.get("waits"):
        says = "would wait for budget" if admitted else "would be refused"
        out.print(f"{says}: {printable(waits['detail'])}", style="bold yellow", highlight=False)
    elif not admitted:
        out.print(f"over budget: {_over(answer['binding'])}", style="bold yellow", highlight=False)


def _over(binding: Mapping[str, Any]) -> str:
    """What would pass of a request that does not, and who can change that."""
    raises = f"cap grant {binding['account']}" if "scope" not in binding else "cap set"
    return (
        f"the largest request that would pass now is epsilon {binding['largest']['epsilon']};"
        f" an owner can raise the cap: discreet {raises} --epsilon E --reason R"
    )


def asked_again(fields: Sequence[str]) -> str:
    """What may be asked of a release for nothing, before it is paid for."""
    if not fields:
        return "no free follow-ups: another question is a new release at its own price"
    return f"free follow-ups: discreet ask JOB --set FIELD=VALUE, with another {', '.join(fields)}"
