"""JSON answers that notebooks show as tables; otherwise they are plain dictionaries, as in
`rest.models`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from discreet_client.intervals import figure, plain


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """An HTML table of texts; the first of each row is its name."""
    top = f"<tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>" if head else ""
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(one)}</td>' for one in rest)}</tr>"
        for name, *rest in rows
    )
    return f"<table>{top}{body}</table>"


def spent(amount: Mapping[str, Any]) -> str:
    """`epsilon 0.5, delta 1e-05`."""
    return f"epsilon {figure(amount['epsilon'])}, delta {amount['delta']:.3g}"


class Plan(dict[str, Any]):
    """The price and the noise that a problem would have, and whether it would be admitted."""

    def _repr_html_(self) -> str:
        plan, binding = self["plan"], self.get("binding")
        if waits := self.get("waits"):
            says = "would wait" if self["admitted"] else "would be refused"
            verdict = f"{says}: {waits['detail']}"
        elif self["admitted"]:
            verdict = "would be admitted"
        elif binding is None:
            verdict = "would be refused"
        else:
            verdict = (
                f"would be refused: the largest request that passes is {spent(binding['largest'])}"
            )
        rows = [("price", spent(self["price"])), ("neighbouring datasets", str(plan["neighbours"]))]
        rows += [
            (
                f"noise on {one['quantity']}",
                f"{one['distribution']}, standard deviation {plain(one['standard_deviation'], 3)}",
            )
            for one in plan["noise"]
        ]
        rows += [("expect", sentence) for sentence in plan["advice"]]
        if reusable := self.get("reusable"):
            rows.append(("free of charge", f"ask_again({reusable[0]!r}, …): released already"))
        return f"<p>A plan, free: <strong>{escape(verdict)}</strong></p>{table(rows)}"


class Budget(dict[str, Any]):
    """An account: what is spent and what is left."""

    def _repr_html_(self) -> str:
        return Budgets([self])._repr_html_()


class Budgets(list[Any]):
    """Several budgets, one row each."""

    def _repr_html_(self) -> str:
        return table([_row(one) for one in self], ("budget", "spent", "reserved", "left", "of"))


def _row(budget: Mapping[str, Any]) -> list[str]:
    names = ", ".join(one["name"] for one in budget["datasets"]) or budget["subject"]
    return [
        names or budget["id"],
        *(spent(budget[one]) for one in ("spent", "reserved", "remaining", "cap")),
    ]
