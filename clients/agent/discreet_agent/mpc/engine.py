"""One party of a computation on shares, in a process of its own: MPyC over TLS between the parties
of a roster.

    python -m discreet_agent.mpc.engine < order.json > answer.json

`party.compute` writes the order and reads the answer.

MPyC keeps its runtime in module variables and reads the command line when it is imported, so each
computation has a process of its own. Its arithmetic on Shamir shares and its scheduling of messages
are used. Three of its parts are replaced:

- its connections: they are TLS 1.3 here, each side with the certificate of its entry on the roster,
  and a party's number is that of its certificate, whatever the party says;
- `pickle`, in which MPyC sends arrays of shares: unpickling what a peer sends would run the peer's
  code. `Words` replaces it, and accepts field elements only;
- random numbers, and truncations of products (`randomness`).

The first `Terms.parties` of the roster compute. Every other agent connects to each of them, sends
it a share of its input, and receives a share of its own result (`client`); MPyC knows nothing of
it.

What a party receives is kept in the memory of this process only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.mpc.links import INPUT, RESULT, Broken, Links
from discreet_agent.mpc.over_time import OverTime, Programs
from discreet_agent.mpc.own_programs import columns
from discreet_agent.mpc.prices import Numbers, Responses, optimum, verdict_of
from discreet_agent.mpc.randomness import (
    Integers,
    bytes_of,
    install,
    integers_of,
    recombined,
    split,
)
from discreet_agent.mpc.responses import ROWS
from discreet_agent.mpc.terms import MOST_KEYS, STATISTICAL_BITS, Terms

STEPS_AT_ONCE = 4
"""Steps over time whose random bits are drawn side by side; more would fill the memory."""


class Words:
    """Arrays of field elements as bytes, little-endian words of one length. MPyC uses this in place
    of `pickle`."""

    def __init__(self, modulus: int) -> None:
        self._modulus, self._size = modulus, (modulus.bit_length() + 7) // 8
        self.refused = False
        """Whether a message was anything else."""

    def dumps(self, values: NDArray[Any]) -> bytes:
        return bytes_of(np.asarray(values) % self._modulus, self._size)

    def loads(self, data: bytes) -> NDArray[Any]:
        """The field elements; Broken for anything else than whole words below the modulus."""
        if len(data) % self._size == 0:
            read = integers_of(data, self._size)
            if not np.any(read >= self._modulus):
                return read
        self.refused = True
        raise Broken("message")


class ShareArithmetic:
    """`prices.Arithmetic` on MPyC's arrays of secret fixed-point numbers."""

    def __init__(self, mpc: Any, number: Any) -> None:
        self._mpc, self._number = mpc, number

    def below_zero(self, value: Numbers, spread: float | None) -> Numbers:
        """One secure comparison per number; numbers that are known to be small take fewer bits."""
        bits = self._number.bit_length
        if spread is not None:
            bits = min(bits, self._number.frac_length + math.ceil(math.log2(spread)) + 2)
        return self._mpc.np_sgn(value, l=bits, LT=True)

    def scaled(self, value: Numbers, factor: float) -> Numbers:
        """One truncation, by as many more bits as the factor has zeros behind its point."""
        zeros = max(0, -math.frexp(factor)[1])
        dropped = self._number.frac_length + zeros
        return self._mpc.np_trunc(value * round(math.ldexp(factor, dropped)), dropped)

    def stack(self, parts: list[Numbers], axis: int) -> Numbers:
        return self._mpc.np_concatenate(parts, axis=axis)

    def matmul(self, left: Numbers, right: Numbers) -> Numbers:
        return self._mpc.np_matmul(left, right)

    def whole(self, value: NDArray[np.float64]) -> Numbers:
        return self._number.array(value.astype(np.int64), integral=True)


def main() -> int:
    order = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr  # MPyC prints its errors to stdout
    logging.disable(logging.CRITICAL)  # asyncio logs about peers at length
    try:
        part = _Party if order["index"] < Terms.read(order["terms"]).parties else _Outside
        answer = part(order).run()
    except Broken as broken:
        answer = {"broken": str(broken)}
    except TimeoutError:
        answer = {"broken": "time"}
    except (OSError, RuntimeError, AssertionError, ValueError, TypeError) as error:
        answer = {"broken": "internal", "error": type(error).__name__}
    json.dump(answer, answers)
    answers.flush()
    return 0


class _Part(ABC):
    """One agent's part. `order` is that of `party.order_of`: `terms`, `index`, `parties`
    [{host, port, certificate}], `listen`, `pem`, `rows`, `summands`,
    `seconds`, and `until`, the time at which these are over."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self.terms = Terms.read(order["terms"])
        if self.terms.computing is None:
            raise Broken("terms")
        self.index = int(order["index"])
        self._mpc, self._number, self._words = _runtime(self.terms, self.index)
        self._links = Links(self._mpc, order, self.terms.parties)

    def run(self) -> dict[str, Any]:
        """The answer; TimeoutError at `until`, Broken if something else ended it."""
        left = float(self._order["until"]) - time.monotonic()
        work = asyncio.wait_for(self._watched(), left)
        try:
            return dict(self._mpc._loop.run_until_complete(work))
        except RuntimeError:  # MPyC stops the loop when one of its tasks raises
            raise Broken("message" if self._words.refused else "internal") from None

    async def _watched(self) -> dict[str, Any]:
        """The computation, cancelled as soon as a connection fails."""
        work: asyncio.Future[Any] = asyncio.ensure_future(self._work())
        broken = self._links.broken
        await asyncio.wait([work, broken], return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            work.cancel()
            broken.result()
        return dict(await work)

    async def _work(self) -> dict[str, Any]:
        links = self._links
        try:
            await links.connect()
            started = time.monotonic()
            quantities, kept = await self._compute()
            seconds = time.monotonic() - started
            await links.part()
        finally:
            links.close()
        for link in links.all:
            link.transport.close()
        return {
            "quantities": [float(one) for one in quantities],
            "kept": None if kept is None else verdict_of(float(kept)),
            "seconds": seconds,
            "bytes": sum(link.nbytes_sent for link in links.all),
        }

    @abstractmethod
    async def _compute(self) -> tuple[Any, Any]:
        """This agent's quantities, and whether the limit is kept: nothing else is opened to it."""

    def _inputs(self) -> tuple[Numbers, Numbers]:
        """This agent's rows and summands."""
        array, field = self._number.array, self._number.field
        rows = np.asarray(self._order["rows"], dtype=np.float64)
        parts = np.array(
            [[int(one) % field.modulus for one in row] for row in self._order["summands"]],
            dtype=object,
        )
        return array(rows, integral=False), array(field.array(parts), integral=False)


class _Outside(_Part):
    """The part of an agent that does not compute: a share of its input to each that does, and a
    share of its result from each."""

    async def _compute(self) -> tuple[Any, Any]:
        terms, links, field = self.terms, self._links, self._number.field
        mine = np.concatenate([one.share.value.reshape(-1) for one in self._inputs()])
        for party, share in enumerate(split(field, mine, terms.threshold, terms.parties)):
            links.outside[party].send(INPUT, self._words.dumps(share))
        count = terms.hours + int(terms.asks)
        shares = [
            _sized(self._words.loads(await links.received(party, RESULT)), count)
            for party in range(terms.parties)
        ]
        opened = recombined(field, shares, terms.threshold)
        numbers = [float(one) / 2.0**terms.fraction_bits for one in opened]
        return numbers[: terms.hours], numbers[-1] if terms.asks else None


class _Party(_Part):
    """The part of an agent that computes."""

    async def _compute(self) -> tuple[Any, Any]:
        mpc, terms = self._mpc, self.terms
        mpc.options.no_prss = True  # from here on MPyC awaits all random numbers (`randomness`)
        rows, summands = self._inputs()
        given, parts = mpc.input(rows), mpc.input(summands)
        for agent in self._links.outside:
            values = self._words.loads(await self._links.received(agent, INPUT))
            both = np.split(_sized(values, rows.size + summands.size), [rows.size])
            for taken, one, like in zip((given, parts), both, (rows, summands), strict=True):
                share = self._number.field.array(one.reshape(like.shape))
                taken.append(self._number.array(share, integral=False))
        operator = sum(parts)
        cost = operator[0] if terms.coupled else None
        limit = operator[int(terms.coupled)] if terms.limited else None
        if terms.iterations is None:
            own, bit = self._exact(given, cost, limit)
        else:
            own, bit = await self._over_time(terms.iterations, given, cost, limit)
        opened = [mpc.output(own[place], receivers=[place]) for place in range(terms.parties)]
        asked = [] if bit is None else [bit]
        for agent, link in self._links.outside.items():
            shares = [(await mpc.gather(one)).value.reshape(-1) for one in (own[agent], *asked)]
            link.send(RESULT, self._words.dumps(np.concatenate(shares)))
        kept = None if bit is None else (await mpc.output(bit))[0]
        results = [await one for one in opened]
        return results[self.index], kept

    def _exact(
        self, given: list[Numbers], cost: Numbers | None, limit: Numbers | None
    ) -> tuple[list[Numbers], Numbers | None]:
        """The quantities of each agent, and the bit."""
        mpc, terms = self._mpc, self.terms
        # [hours, agents] of each row.
        rows_of = [
            mpc.np_transpose(mpc.np_stack([one[place] for one in given]))
            for place in range(len(ROWS))
        ]
        found = optimum(terms, Responses(*rows_of), cost, limit, ShareArithmetic(mpc, self._number))
        return [found.quantities[:, place] for place in range(terms.agents)], found.kept

    async def _over_time(
        self,
        iterations: int,
        given: list[Numbers],
        cost: Numbers | None,
        limit: Numbers | None,
    ) -> tuple[list[Numbers], Numbers | None]:
        """The quantities of each agent, and the bit."""
        mpc, terms = self._mpc, self.terms
        rows, part = mpc.np_stack(given), columns(terms.hours)

        def column(name: str) -> Numbers:
            return rows[:, :, part[name].start]

        programs = Programs(
            rows[:, :, part["matrix"]],
            column("base"),
            column("lower"),
            column("upper"),
            column("centre")[:, : terms.hours],
        )
        computation = OverTime(terms, programs, cost, limit, ShareArithmetic(mpc, self._number))
        state = computation.start()
        for step in range(1, iterations + 1):
            state = computation.step(state)
            if step % STEPS_AT_ONCE == 0:
                await mpc.gather(state.own)  # this party's shares: nothing is opened
        found = computation.finish(state)
        return [found.quantities[place] for place in range(terms.agents)], found.settled


def _sized(values: Integers, count: int) -> Integers:
    """Broken unless there are so many."""
    if values.size != count:
        raise Broken("message")
    return values


def _runtime(terms: Terms, index: int) -> tuple[Any, Any, Words]:
    """MPyC's runtime for this process, its type of numbers, and the replacement of its `pickle`."""
    for name in [name for name in os.environ if name.startswith("MPYC_")]:
        del os.environ[name]
    options = [
        "--no-log",
        "--no-uvloop",
        "-T",
        str(terms.threshold),
        "-K",
        str(STATISTICAL_BITS + math.ceil(math.log2(terms.mask_parts))),
        "-I",
        str(index if index < terms.parties else 0),  # MPyC computes nothing for the others
    ]
    if math.comb(terms.parties, terms.threshold) > MOST_KEYS:
        options.append("--no-prss")
    for place in range(terms.parties):
        options += ["-P", f"party:{place + 1}"]  # names only: connections are made here
    sys.argv = [sys.argv[0], *options]
    import mpyc.runtime as engine  # noqa: PLC0415  # reads the command line

    number = engine.mpc.SecFxp(terms.bits, terms.fraction_bits)
    engine.pickle = words = Words(int(number.field.modulus))
    install(engine, engine.mpc, terms, words)
    return engine.mpc, number, words


if __name__ == "__main__":
    sys.exit(main())
