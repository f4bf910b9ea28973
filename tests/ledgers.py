"""Ledgers that a test writes by the rules, or against them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.ledger.entries import GENESIS, entry_line, head_line, limits, sign_head
from discreet.privacy.events import EVENTS, to_json
from discreet.privacy.filters import Cap
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.units import Price

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
EVENT = to_json(DiscreteLaplace(sensitivity=1, scale=10, neighbours="one trip"))
PRICE = EVENTS.validate_python((EVENT,))[0].price()
CAP = Cap(10**9, 0)


class Writer:
    """Writes the chains of one tenant by the rules, or against them where a test says so. Every
    reservation is for `event`, every cap is `cap`."""

    def __init__(self, event: Mapping[str, Any] = EVENT, cap: Cap = CAP) -> None:
        self.bodies: dict[str, list[dict[str, Any]]] = {}
        self.standing: dict[tuple[str, int], dict[str, dict[str, str]]] = {}
        """What each block of a chain stands at, by chain and number."""
        self.event, self.cap = dict(event), cap
        self.price = EVENTS.validate_python((self.event,))[0].price().to_json()

    def write(self, account: str, kind: str, job: str | None = None, **values: Any) -> None:
        chain = self.bodies.setdefault(account, [])
        last = chain[-1] if chain else {}
        zero = Price.zero().to_json()
        body = {
            "account": account,
            "actor": "someone",
            "at": "2026-11-21T00:00:00.000000Z",
            "cap": last.get(
                "cap", {"epsilon": str(self.cap.epsilon), "delta": str(self.cap.delta)}
            ),
            "events": [],
            "filters": last.get("filters", limits(self.cap)),
            "job": job,
            "kind": kind,
            "price": {},
            "reason": None,
            "reserved": last.get("reserved", zero),
            "scope": "data",
            "seq": len(chain) + 1,
            "subject": account,
            "tenant": "ten_1",
            "totals": last.get("totals", zero),
            "unit": "request",
        }
        price = self.price
        if kind == "reserve":
            totals, reserved = add(body["totals"], price, 1), add(body["reserved"], price, 1)
            body.update(events=[self.event], price=price, totals=totals, reserved=reserved)
        elif kind in ("commit", "release"):
            body.update(price=price, reserved=add(body["reserved"], price, -1))
            if kind == "release":
                body["totals"] = add(body["totals"], price, -1)
        body.update(values)
        chain.append(body)

    def write_blocks(
        self, chain: str, kind: str, job: str | None, *runs: tuple[int, int], **values: Any
    ) -> None:
        """An entry in the chain of a source, about these runs of blocks."""
        signs = {"reserve": (1, 1), "release": (-1, -1), "commit": (0, -1)}.get(kind, (0, 0))
        said = []
        for number in (n for first, last in runs for n in range(first, last + 1)):
            zero = Price.zero().to_json()
            block = self.standing.setdefault((chain, number), {"totals": zero, "reserved": zero})
            for name, sign in zip(("totals", "reserved"), signs, strict=True):
                block[name] = add(block[name], self.price, sign)
            said.append([number, dict(block["reserved"]), dict(block["totals"])])
        cap = {"epsilon": str(self.cap.epsilon), "delta": str(self.cap.delta)}
        own = (
            {"cap": cap, "filters": limits(self.cap)} if job is None else {"cap": {}, "filters": {}}
        )
        bound = hashlib.sha256(rfc8785.dumps(said)).hexdigest()
        shown = [list(run) for run in runs]
        self.write(
            chain, kind, job, **{"scope": "source", **own, "blocks": shown, "sums": bound, **values}
        )

    def life(self, account: str, job: str, *kinds: str) -> None:
        for kind in kinds:
            self.write(account, kind, job)

    def lines(self, key: Ed25519PrivateKey = KEY) -> list[bytes]:
        lines, heads = [], []
        for account, chain in sorted(self.bodies.items()):
            previous = GENESIS
            for body in chain:
                text = rfc8785.dumps(body)
                digest = hashlib.sha256(previous + text).digest()
                lines.append(entry_line(text.decode(), digest, previous))
                previous = digest
            heads.append((account, len(chain), previous))
        return [head_line(sign_head("ten_1", heads, key)), *lines]


def add(a: dict[str, str], b: dict[str, str], sign: int) -> dict[str, str]:
    return {name: str(int(a[name]) + sign * int(b[name])) for name in a}
