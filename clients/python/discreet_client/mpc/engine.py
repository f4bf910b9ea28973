"""One party of a computation on shares, in a process of its own: MPyC over TLS between the parties
of a roster.

    python -m discreet_client.mpc.engine < order.json > answer.json

`party.compute` writes the order and reads the answer.

MPyC keeps its runtime in module variables and reads the command line when it is imported, so each
computation has a process of its own. Its arithmetic on Shamir shares and its scheduling of messages
are used. Two of its parts are replaced:

- its connections: they are TLS 1.3 here, each side with the certificate of its entry on the roster,
  and a party's number is that of its certificate, whatever the party says;
- `pickle`, in which MPyC sends arrays of shares: unpickling what a peer sends would run the peer's
  code. `Words` replaces it, and accepts field elements only.

What a party receives is kept in the memory of this process only.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import os
import ssl
import sys
import tempfile
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.mpc.links import link_class
from discreet_client.mpc.over_time import OverTime, Programs
from discreet_client.mpc.own_programs import columns
from discreet_client.mpc.prices import Numbers, Responses, optimum
from discreet_client.mpc.responses import ROWS
from discreet_client.mpc.terms import STATISTICAL_BITS, Terms

MOST_SUBSETS = 40
"""Most keys of pseudo-random secret sharing, C(agents, threshold) in all; with more, random shares
are dealt instead."""

STEPS_AT_ONCE = 4
"""Steps over time whose random bits are drawn side by side; more would fill the memory."""

PAUSE_SECONDS = 0.1
CLOSING = -(1 << 62)
"""Label of the last message to each party, outside the range of MPyC's program counters."""


class Broken(Exception):
    """The computation cannot go on; the message is a fixed code."""


class Words:
    """Arrays of field elements as bytes, little-endian words of one length. MPyC uses this in place
    of `pickle`."""

    def __init__(self, modulus: int) -> None:
        self._modulus, self._size = modulus, (modulus.bit_length() + 7) // 8
        self.refused = False
        """Whether a message was anything else."""

    def dumps(self, values: NDArray[Any]) -> bytes:
        size, modulus = self._size, self._modulus
        return b"".join([(int(value) % modulus).to_bytes(size, "little") for value in values])

    def loads(self, data: bytes) -> NDArray[Any]:
        """The field elements; Broken for anything else than whole words below the modulus."""
        size = self._size
        count, rest = divmod(len(data), size)
        read = [
            int.from_bytes(data[place : place + size], "little")
            for place in range(0, len(data), size)
        ]
        if rest or any(value >= self._modulus for value in read):
            self.refused = True
            raise Broken("message")
        return np.fromiter(read, dtype=object, count=count)


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
        answer = _Party(order).run()
    except Broken as broken:
        answer = {"broken": str(broken)}
    except TimeoutError:
        answer = {"broken": "time"}
    except (OSError, RuntimeError, AssertionError, ValueError, TypeError) as error:
        answer = {"broken": "internal", "error": type(error).__name__}
    json.dump(answer, answers)
    answers.flush()
    return 0


class _Party:
    """One party's computation. `order` is that of `party.order_of`: `terms`, `index`, `parties`
    [{host, port, certificate}], `listen`, `pem`, `rows`, `summands`, `seconds`."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self.terms = Terms.read(order["terms"])
        self.index = int(order["index"])
        self._parties = order["parties"]
        self._certificates = [base64.b64decode(one["certificate"]) for one in self._parties]
        self._mpc, self._number, self._words = _runtime(self.terms, self.index)
        self._broken: asyncio.Future[Any] = self._mpc._loop.create_future()
        self._closing = False

    def run(self) -> dict[str, Any]:
        """The answer; TimeoutError after `seconds`, Broken if something else ended it."""
        work = asyncio.wait_for(self._watched(), float(self._order["seconds"]))
        try:
            return dict(self._mpc._loop.run_until_complete(work))
        except RuntimeError:  # MPyC stops the loop when one of its tasks raises
            raise Broken("message" if self._words.refused else "internal") from None

    async def _watched(self) -> dict[str, Any]:
        """The computation, cancelled as soon as a connection fails."""
        work: asyncio.Future[Any] = asyncio.ensure_future(self._work())
        await asyncio.wait([work, self._broken], return_when=asyncio.FIRST_COMPLETED)
        if self._broken.done():
            work.cancel()
            self._broken.result()
        return dict(await work)

    async def _work(self) -> dict[str, Any]:
        server = await self._connect()
        started = time.monotonic()
        try:
            mine, kept = await self._compute()
            seconds = time.monotonic() - started
            await self._part()
        finally:
            self._closing = True
            if server is not None:
                server.close()
        links = [party.protocol for party in self._mpc.parties if party.pid != self.index]
        for link in links:
            link.transport.close()
        return {
            "quantities": [float(one) for one in mine],
            "kept": None if kept is None else bool(round(float(kept[0]))),
            "seconds": seconds,
            "bytes": sum(link.nbytes_sent for link in links),
        }

    async def _compute(self) -> tuple[Any, Any]:
        """This agent's quantities, and whether the limit is kept: nothing else is opened to it."""
        mpc, terms, array = self._mpc, self.terms, self._number.array
        rows = np.asarray(self._order["rows"], dtype=np.float64)
        given = mpc.input(array(rows, integral=False))
        field = self._number.field
        parts = np.array(
            [[int(one) % field.modulus for one in row] for row in self._order["summands"]],
            dtype=object,
        )
        operator = sum(mpc.input(array(field.array(parts), integral=False)))
        cost = operator[0] if terms.coupled else None
        limit = operator[int(terms.coupled)] if terms.limited else None
        if terms.iterations is None:
            own, bit = self._exact(given, cost, limit)
        else:
            own, bit = await self._over_time(terms.iterations, given, cost, limit)
        opened = [mpc.output(one, receivers=[place]) for place, one in enumerate(own)]
        kept = None if bit is None else await mpc.output(bit)
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

    async def _part(self) -> None:
        """Wait until all parties are done, so that no connection ends while a party needs it."""
        links = [party.protocol for party in self._mpc.parties if party.pid != self.index]
        for link in links:
            link.send(CLOSING, b"done")
        waited = []
        # All of them before the first await: a party that has heard from all may leave at once.
        for link in links:
            said = link.receive(CLOSING)
            if isinstance(said, asyncio.Future):
                said.add_done_callback(link.leave)
                waited.append(said)
            else:
                link.leave(said)
        for said in waited:
            await said

    # -- connections -------------------------------------------------------------------------------

    async def _connect(self) -> asyncio.Server | None:
        """Connect with every party: parties earlier on the roster connect to this one, and this one
        connects to the later ones."""
        mpc, loop = self._mpc, self._mpc._loop
        mpc.parties[self.index].protocol = loop.create_future()
        link = link_class(self._certificates, self._fail, lambda: self._closing)
        server = None
        if self.index:
            host, port = self._order["listen"]
            server = await loop.create_server(
                lambda: link(mpc), host, port, ssl=self._context(server=True)
            )
        for peer in range(self.index + 1, self.terms.agents):
            context = self._context(server=False)
            while True:
                try:
                    await loop.create_connection(
                        lambda peer=peer: link(mpc, peer),
                        self._parties[peer]["host"],
                        int(self._parties[peer]["port"]),
                        ssl=context,
                        server_hostname="",
                    )
                    break
                except ssl.SSLError:
                    raise Broken("party") from None
                except OSError:  # it does not listen yet, or its name does not resolve yet
                    await asyncio.sleep(PAUSE_SECONDS)
        await mpc.parties[self.index].protocol
        return server

    def _fail(self, code: str) -> None:
        if not self._broken.done():
            self._broken.set_exception(Broken(code))

    def _context(self, *, server: bool) -> ssl.SSLContext:
        """TLS 1.3 that accepts only the certificates of the roster, on either side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate itself is known
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=b"".join(self._certificates))
        with tempfile.NamedTemporaryFile(prefix="discreet-", suffix=".pem") as file:  # of mode 0600
            file.write(self._order["pem"].encode())
            file.flush()
            context.load_cert_chain(file.name)
        return context


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
        str(STATISTICAL_BITS),
        "-I",
        str(index),
    ]
    if math.comb(terms.agents, terms.threshold) > MOST_SUBSETS:
        options.append("--no-prss")
    for place in range(terms.agents):
        options += ["-P", f"party:{place + 1}"]  # names only: connections are made here
    sys.argv = [sys.argv[0], *options]
    import mpyc.runtime as engine  # noqa: PLC0415  # reads the command line

    number = engine.mpc.SecFxp(terms.bits, terms.fraction_bits)
    engine.pickle = words = Words(int(number.field.modulus))
    return engine.mpc, number, words


if __name__ == "__main__":
    sys.exit(main())
