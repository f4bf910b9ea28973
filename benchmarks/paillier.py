"""A round of the encrypted coupled QP at 100 agents, against the printed protocol with `phe`,
scalar by scalar.

CPU seconds of one thread a round. Ours is the real protocol, signatures and masks included: one of
100 agents answers a sum (decrypts, updates, masks, encrypts, signs) and the operator takes 100
answers and makes the next sum. The peer's side is what the paper prints, one ciphertext a number:
an agent decrypts its share of c, encrypts, decrypts the sum; the operator encrypts a share of c for
every agent and adds n ciphertexts. It is SAMPLED on a few numbers and extrapolated: the whole would
take half an hour a round. Bytes are the same way: three ciphertexts a number and agent, nothing
around.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from phe import generate_paillier_keypair
from rich.console import Console
from rich.table import Table

from discreet_agent import paillier
from discreet_agent.packing import Floats, Packing
from discreet_agent.secure_sum import Kind, Parameters, Scheme, assemble, parse

AGENTS = 100
SAMPLE = 6
CASES = ((2048, 64), (2048, 1024), (3072, 64), (3072, 1024))


@dataclass(frozen=True)
class Round:
    """CPU seconds and bytes of a round: of one agent, of the operator; `decryption` is a part of
    the agent's."""

    agent: float
    operator: float
    decryption: float
    bytes: int


def run() -> list[dict[str, Any]]:
    """Rows in the form of `benchmarks.__main__`."""
    rows = []
    for bits in (2048, 3072):
        scalar = naive(bits)
        for dimension in (d for b, d in CASES if b == bits):
            ours = measured("paillier", bits, dimension)
            peer = Round(
                scalar.agent * dimension, scalar.operator * dimension, 0.0, scalar.bytes * dimension
            )
            rows += compared(f"paillier: {bits} bits, {dimension} sums", ours, peer)
            if bits == 2048:
                masking = measured("masking", bits, dimension)
                rows += compared(f"masking, {dimension} sums, peer of {bits} bits", masking, peer)
    return rows


def main() -> None:
    """Only this benchmark, as a table."""
    table = Table("benchmark", "ours", "peer", "ratio", "note")
    for row in run():
        peer = f"{row['peer_value']:.4g} {row['unit']} ({row['peer']})"
        table.add_row(
            row["benchmark"],
            f"{row['ours']:.4g} {row['unit']}",
            peer,
            f"{row['ratio']:.3g}",
            row["note"],
        )
    Console(width=180).print(table)


# Measuring ----------------------------------------------------------------------------------------


def measured(scheme: Scheme, bits: int, dimension: int) -> Round:
    """The real machines: all agents contribute, the operator sums, some agents answer the sum."""
    rng = np.random.default_rng(7)
    values = rng.uniform(-1, 1, (AGENTS, dimension))
    parameters = Parameters(dimension, 2, 1.0, scheme, bits)
    operator, agents = assemble(
        [partial(constant, v) for v in values], np.ones(dimension), parameters
    )
    broadcast = operator.open()
    while parse(broadcast)[0] != Kind.SUM:
        answers = [agent.answer(broadcast) for agent in agents]
        begun = time.process_time()
        for answer in answers:
            operator.collect(answer)
        following = operator.advance()
        summing = time.process_time() - begun
        assert following is not None
        broadcast = following
    sampled = agents[1:5]
    begun = time.process_time()
    sizes = [len(broadcast) + len(agent.answer(broadcast)) for agent in sampled]
    answering = (time.process_time() - begun) / len(sampled)
    decryption = 0.0
    if scheme == "paillier":
        packing, key = Packing(dimension, bits), paillier.generate(bits)
        drawn = paillier.Obfuscators(key, 4).draw(packing.words)
        ciphertexts = paillier.encrypt(key.public_key, [1] * packing.words, drawn)
        whole = dimension // packing.slots  # the last one, only begun, costs half
        decryption = seconds(
            lambda: (
                paillier.decrypt(key, ciphertexts[:whole]),
                paillier.decrypt_short(key, ciphertexts[whole:]),
            )
        )
    return Round(answering, summing, decryption, max(sizes))


def constant(value: Floats, _: Floats | None) -> Floats:
    """An agent that always contributes the same."""
    return value


def naive(bits: int) -> Round:
    """What one number of the sum costs with `phe`, as printed."""
    public, private = generate_paillier_keypair(n_length=bits)
    encrypt = seconds(lambda: public.encrypt(0.123))
    one, other = public.encrypt(0.123), public.encrypt(0.456)
    decrypt = seconds(lambda: private.decrypt(one))
    add = seconds(lambda: one + other)
    return Round(2 * decrypt + encrypt, AGENTS * (encrypt + add), decrypt, 3 * bits // 4)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one run: the best of SAMPLE after a first one."""
    work()
    runs = []
    for _ in range(SAMPLE):
        begun = time.process_time()
        work()
        runs.append(time.process_time() - begun)
    return min(runs)


def compared(name: str, ours: Round, peer: Round) -> list[dict[str, Any]]:
    """Three rows: an agent, the operator, bytes."""
    share = f"; {ours.decryption / ours.agent:.0%} of ours is decryption" if ours.decryption else ""
    figures = (
        ("agent", ours.agent, peer.agent, "s", share),
        ("operator", ours.operator, peer.operator, "s", ""),
        ("bytes of an agent, both ways", ours.bytes, peer.bytes, "B", ""),
    )
    return [
        {
            "benchmark": f"{name}: {what} a round",
            "ours": mine,
            "unit": unit,
            "peer": "phe, scalar by scalar" + (", extrapolated" if unit == "s" else ""),
            "peer_value": theirs,
            "ratio": mine / theirs,
            "note": f"{theirs / mine:,.0f} times {'less' if unit == 'B' else 'faster'}, {AGENTS} "
            f"agents{note}",
        }
        for what, mine, theirs, unit, note in figures
    ]


if __name__ == "__main__":
    main()
