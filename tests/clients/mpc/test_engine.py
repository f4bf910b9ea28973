"""Computations on shares between real processes, and what hostile ones get."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import pickle
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import kstest

from discreet_agent.demands import Demands
from discreet_agent.federation.errors import AgentError, NotTrusted
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.signing import fingerprint
from discreet_agent.mpc import engine, keys, links, member, party
from discreet_agent.mpc.terms import PROTOCOL, Terms
from discreet_agent.on_shares import signed
from tests.clients.mpc.over_time import OverTime
from tests.clients.mpc.parties import Instance, Parties
from tests.conftest import eventually

RECORDING = str(Path(__file__).with_name("recording.py"))
HOURS_OF_AN_INSTANCE = 2


@pytest.fixture
def parties() -> Iterator[list[Parties]]:
    """Those that a test adds are stopped at its end."""
    started: list[Parties] = []
    yield started
    for one in started:
        one.stop()


def run(parties: list[Parties], instance: Instance) -> Parties:
    parties.append(Parties(instance))
    parties[-1].start()
    return parties[-1]


def test_twenty_random_instances_against_clarabel(parties: list[Parties]) -> None:
    """Hours are problems of their own: forty of them are twenty instances of two hours, computed at
    once."""
    instance = Instance.draw(7, 3, 20 * HOURS_OF_AN_INSTANCE)
    ran = run(parties, instance)
    x = ran.x()
    oracle = instance.by_clarabel()
    mine, best = (
        instance.hourly(one).reshape(20, HOURS_OF_AN_INSTANCE).sum(axis=1) for one in (x, oracle)
    )
    assert np.all(np.abs(mine - best) <= 1e-3 * np.abs(best))
    assert instance.violation(x) <= 1e-4 * instance.terms.reach
    assert np.all((x >= instance.lower) & (x <= instance.upper))


@pytest.mark.parametrize(
    ("agents", "threshold", "cost", "limit"),
    [(5, 2, False, True), (4, 1, True, False), (7, 3, True, True)],
)
def test_more_agents_and_thresholds(
    parties: list[Parties], agents: int, threshold: int, cost: bool, limit: bool
) -> None:
    """Seven with threshold three deal their random shares to each other; the others make them of
    common keys."""
    instance = Instance.draw(11, agents, 1, cost=cost, limit=limit)
    instance.threshold = threshold
    ran = run(parties, instance)
    x = ran.x()
    clear, _ = instance.in_the_clear()
    assert x == pytest.approx(clear, abs=1e-3 * instance.terms.reach)


def test_a_limit_that_cannot_be_kept_is_one_bit_to_all(parties: list[Parties]) -> None:
    instance = Instance.draw(5, 3, 2)
    assert instance.limit is not None
    instance.limit[1] = 3 * instance.terms.reach
    answers = run(parties, instance).answers()
    assert [isinstance(one, party.Computed) and one.kept for one in answers] == [False] * 3


def test_hours_that_agents_couple(parties: list[Parties]) -> None:
    """Budgets, and costs of changes from hour to hour: to the optimum, and to what the same steps
    come to in the clear."""
    instance = OverTime.draw(4, 3, 4)
    instance.iterations, instance.typical = 40, instance.usual_curvature
    parties.append(Parties(instance))
    parties[-1].start()
    x = parties[-1].x()
    clear, settled = instance.computed()
    assert settled
    assert x == pytest.approx(clear, abs=1e-5 * instance.terms.reach)
    best = instance.objective(instance.by_clarabel())
    assert instance.objective(x) == pytest.approx(best, abs=1e-4 * abs(best))
    assert instance.violation(x) <= 1e-4 * instance.terms.reach
    assert instance.keeps(x)


def test_an_agent_that_does_not_compute_receives_its_own_result_alone(
    parties: list[Parties], tmp_path: Path
) -> None:
    """A share of each of its own numbers, and of the bit, from each of the three that compute; and
    what it sends are its inputs, a share to each."""
    instance = OverTime.draw(4, 4, 3)
    instance.iterations, instance.typical = 30, instance.usual_curvature
    ran = Parties(instance)
    parties.append(ran)
    path = tmp_path / "seen"
    ran.start([0, 1, 2])
    ran.start([3], (RECORDING, str(path)))
    answers = ran.answers()
    assert all(isinstance(one, party.Computed) for one in answers), answers
    computed = [one for one in answers if isinstance(one, party.Computed)]
    programs = instance.programs()
    inputs = programs[3].rows.size
    x = np.stack([own.x_of(one.quantities) for own, one in zip(programs, computed, strict=True)])
    best = instance.objective(instance.by_clarabel())
    assert instance.objective(x) == pytest.approx(best, abs=1e-3 * abs(best))
    assert len({one.kept for one in computed}) == 1
    assert len(path.read_text().split()) == 3 * (instance.terms.hours + 1)
    word = -(-(instance.terms.bits + instance.terms.fraction_bits + 44) // 8)
    sent = inputs + 3 * (int(instance.terms.coupled) + int(instance.terms.limited))
    assert computed[3].sent_bytes == 3 * ((12 + 4) + 12 + word * sent)


def test_terms_of_earlier_versions_are_not_computed(parties: list[Parties]) -> None:
    """Their parties drew other random numbers."""
    ran = Parties(Instance.draw(2, 3, 1))
    parties.append(ran)
    del ran.orders[0]["terms"]["computing"]
    ran.start([0])
    (answer,) = ran.answers()
    assert isinstance(answer, party.BrokenOff)
    assert answer.code == "terms"


# What one party sees


def exact(factor: float) -> tuple[Instance, Terms]:
    """An instance whose agents but the first have other data with each factor, and the same terms
    with all."""
    instance = Instance.draw(2, 3, 1)
    terms = instance.terms
    instance.lower[1:] *= factor
    instance.upper[1:] *= factor
    instance.slope[1:] *= factor
    return instance, terms


def over_time(factor: float) -> tuple[OverTime, Terms]:
    """The same of one whose hours are coupled; the second agent has a budget in one of them
    only."""
    instance = OverTime.draw(0, 3, 2)
    instance.iterations = 2
    terms = instance.terms
    instance.slope[1:] *= factor
    instance.upper[1:] = instance.lower[1:] + factor * (instance.upper - instance.lower)[1:]
    instance.budgets[1] = None if factor < 1 else instance.budgets[1]
    return instance, terms


@pytest.mark.parametrize("drawn", [exact, over_time])
def test_what_a_party_receives_tells_nothing_of_others_data(
    parties: list[Parties],
    tmp_path: Path,
    drawn: Callable[[float], tuple[Instance | OverTime, Terms]],
) -> None:
    """The same agent among others with quite different data receives as many numbers, and numbers
    that are uniform in the field both times. A false alarm once in 10^5 runs."""
    seen = []
    for place, factor in enumerate((1.0, 0.05)):
        instance, terms = drawn(factor)
        ran = Parties(instance)
        parties.append(ran)
        for order, own in zip(ran.orders, instance.responses(terms), strict=True):
            assert order["terms"] == instance.terms.fields
            order["terms"] = terms.fields  # the same bounds both times
            order["rows"] = own.rows.tolist()
        path = tmp_path / str(place)
        ran.start([0], (RECORDING, str(path)))
        ran.start([1, 2])
        sent = {one.sent_bytes for one in ran.answers() if isinstance(one, party.Computed)}
        assert len(ran.processes) == 3
        seen.append((np.array([float(line) for line in path.read_text().split()]), sent))
    (first, first_sent), (second, second_sent) = seen
    assert first.size == second.size > 3000
    assert first_sent == second_sent
    for words in (first, second):
        assert kstest(words, "uniform").pvalue > 5e-6


# Who is let in


def test_a_party_that_is_not_on_the_roster_cannot_join(parties: list[Parties]) -> None:
    """A key of its own, with a certificate that looks the same: TLS ends it, and nobody else is
    disturbed."""
    instance = Instance.draw(2, 3, 1)
    ran = Parties(instance)
    parties.append(ran)
    ran.start([2])
    stranger = Ed25519PrivateKey.generate()
    document = keys.certificate(stranger, ran.session)
    eventually(lambda: _listens(ran.ports[2]), "the party listens")
    assert not _is_let_in(ran.ports[2], keys.pem(stranger, document))
    assert not _is_let_in(ran.ports[2], None)
    ran.start([0, 1])
    ran.processes = [*ran.processes[1:], ran.processes[0]]
    assert ran.x() == pytest.approx(instance.in_the_clear()[0], abs=1e-3 * instance.terms.reach)


def test_a_member_in_anothers_place_ends_the_computation(parties: list[Parties]) -> None:
    """Party 1 says that it is party 0."""
    ran = Parties(Instance.draw(2, 3, 1))
    parties.append(ran)
    ran.start([2])
    eventually(lambda: _listens(ran.ports[2]), "the party listens")
    with _connected(ran.ports[2], keys.pem(ran.keys[1], ran.certificates[1])) as stream:
        stream.sendall((0).to_bytes(2, "little") + bytes(200))
        (answer,) = ran.answers()
    assert isinstance(answer, party.BrokenOff)
    assert answer.code == "party"


@pytest.mark.parametrize("size", [0, 4000])
def test_a_member_that_sends_without_end_ends_the_computation(
    parties: list[Parties], size: int
) -> None:
    """Whole messages that nobody asks for, in place of a computation: they filled the memory of who
    received them."""
    ran = Parties(Instance.draw(2, 3, 1))
    parties.append(ran)
    ran.orders[2]["seconds"] = 30.0
    ran.start([2])
    eventually(lambda: _listens(ran.ports[2]), "the party listens")
    common = 16  # bytes of the keys that both draw the same random numbers from
    most = 2 * min(links.MOST_WAITING, links.MOST_WAITING_BYTES // (size or 1))
    with _connected(ran.ports[2], keys.pem(ran.keys[1], ran.certificates[1])) as stream:
        stream.sendall((1).to_bytes(2, "little") + bytes(common))
        with contextlib.suppress(OSError):  # it has had enough
            for label in range(most):
                stream.sendall(struct.pack("<qI", label, size) + bytes(size))
        (answer,) = ran.answers()
    assert isinstance(answer, party.BrokenOff)
    assert answer.code == "message"


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_nothing_that_a_party_sends_is_run(tmp_path: Path) -> None:
    """MPyC sends arrays as pickles, whose reader runs what they say. Here they are numbers of the
    field, or nothing."""
    words = engine.Words(2**61 - 1)
    numbers = np.array([0, 1, 2**61 - 2], dtype=object)
    assert words.loads(words.dumps(numbers)).tolist() == numbers.tolist()
    hostile = pickle.dumps(Touch(tmp_path / "ran"))
    for message in (hostile, hostile + bytes(-len(hostile) % 8), b"\xff" * 8, b"1"):
        with pytest.raises(links.Broken):
            words.loads(message)
    assert not (tmp_path / "ran").exists()


def test_mpyc_itself_uses_these_words() -> None:
    """Its module has no other `pickle` once a party is made; an MPyC that takes another way is
    found here."""
    script = (
        "import sys, mpyc.runtime as r\n"
        "from discreet_agent.mpc import engine\n"
        "from discreet_agent.mpc.terms import Terms\n"
        "terms = Terms(3, 2, 1, False, True, 10.0, 20.0, 0.5, 2.0)\n"
        "engine._runtime(terms, 0)\n"
        "assert isinstance(r.pickle, engine.Words)\n"
        "import pathlib\n"
        "text = pathlib.Path(r.__file__).read_text()\n"
        "assert text.count('pickle.dumps') == text.count('pickle.loads') == 4\n"
        "assert text.count('pickle') == 9\n"  # the eight, and the import
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class Tampering(threading.Thread):
    """Between two parties; flips a bit of what passes from the one that connects, after so many
    bytes."""

    def __init__(self, target: int, after: int) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.target, self.after = target, after
        self.flipped = 0

    def run(self) -> None:
        asyncio.run(self.serve())

    async def serve(self) -> None:
        self.done = asyncio.Event()
        async with await asyncio.start_server(self.connected, sock=self.server):
            await self.done.wait()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self.pass_on(reader, there[1], True), self.pass_on(there[0], writer, False)
        )
        self.done.set()

    async def pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flips: bool
    ) -> None:
        passed = 0
        try:
            while data := await source.read(4096):
                if flips and not self.flipped and passed + len(data) > self.after:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                    self.flipped += 1
                passed += len(data)
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        sink.close()


def test_bytes_that_are_changed_on_the_way_end_the_computation(parties: list[Parties]) -> None:
    ran = Parties(Instance.draw(2, 3, 2))
    parties.append(ran)
    between = Tampering(ran.ports[1], after=20_000)
    between.start()
    ran.orders[0]["parties"][1] = {**ran.orders[0]["parties"][1], "port": between.port}
    ran.start()
    answers = ran.answers()
    assert between.flipped == 1
    assert [isinstance(one, party.BrokenOff) and one.code for one in answers] == ["connection"] * 3


@pytest.mark.parametrize("leaves", [2, 3])
def test_an_agent_that_leaves_ends_the_computation(
    parties: list[Parties], tmp_path: Path, leaves: int
) -> None:
    """One of the three that compute, or the one that does not."""
    ran = Parties(Instance.draw(2, 4, 24))
    parties.append(ran)
    path = tmp_path / "seen"
    ran.start([0], (RECORDING, str(path)))
    ran.start([1, 2, 3])
    eventually(lambda: path.exists() and path.stat().st_size > 0, "shares are exchanged")
    ran.processes[leaves].kill()
    assert [isinstance(one, party.BrokenOff) for one in ran.answers()] == [True] * 4
    assert not any(_listens(port) for port in ran.ports)


def test_an_absent_party_ends_it_in_its_time(parties: list[Parties]) -> None:
    ran = Parties(Instance.draw(2, 3, 1))
    parties.append(ran)
    for order in ran.orders:
        order["seconds"] = 4.0
    ran.start([0, 1])
    answers = ran.answers()
    assert all(isinstance(one, party.BrokenOff) for one in answers)
    # Who gives up first closes its connection, which the other may see before its own time is over.
    assert {"time"} <= {one.code for one in answers} <= {"time", "connection"}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _connected(port: int, pem: bytes | None) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pem is not None:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)))


def _is_let_in(port: int, pem: bytes | None) -> bool:
    """In TLS 1.3 a client learns with its first bytes that its certificate was refused."""
    try:
        with _connected(port, pem) as stream:
            stream.sendall(bytes(2))
            return stream.recv(1) != b""
    except OSError:
        return False


def test_strangers_among_those_that_compute() -> None:
    keys = [bytes([place]) * 32 for place in range(4)]
    known = [fingerprint(keys[1])[:16]]
    demands = Demands(known=known, strangers=1)
    demands.check_shares(1, keys, keys[1:3])
    with pytest.raises(AgentError, match="2 of the agents that compute for all are not among"):
        demands.check_shares(1, keys, keys[1:])
    Demands(known=known).check_shares(1, keys, keys[1:])
    with pytest.raises(AgentError, match="2 of the agents"):
        Demands(strangers=1).check_shares(1, keys, keys[1:3])


def test_who_computes_follows_from_fingerprints() -> None:
    """Not from an order that the owner chooses: nobody is on the roster twice, either."""
    by_name = sorted((Identity.generate() for _ in range(4)), key=lambda one: one.fingerprint)
    entries = [
        {
            "key": base64.b64encode(one.public_key).decode(),
            "announcement": member.announcement(one, "ses_1", "127.0.0.1:7400"),
        }
        for one in by_name
    ]
    terms = Terms(4, 2, 1, False, True, 10.0, 20.0, 0.5, 2.0, computing=3)
    parameters = {"protocol": PROTOCOL, "shares": terms.fields}
    read, members = signed({"parameters": parameters, "agents": entries})
    assert (read, [key for key, _ in members]) == (terms, [one.public_key for one in by_name])
    again = {
        **entries[0],
        "announcement": member.announcement(by_name[0], "ses_2", "127.0.0.1:7401"),
    }
    for agents in (entries[::-1], [entries[1], entries[0], *entries[2:]], [again, *entries[:3]]):
        with pytest.raises(NotTrusted, match="not sorted by fingerprint"):
            signed({"parameters": parameters, "agents": agents})


# Keys


def test_a_certificate_is_its_keys_own() -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    document = keys.certificate(key, "ses_a")
    assert keys.certificate(key, "ses_a") == document != keys.certificate(key, "ses_b")
    raw = key.public_key().public_bytes_raw()
    assert keys.key_of(document) == raw
    forged = document.replace(raw, other.public_key().public_bytes_raw())
    with pytest.raises(ValueError, match="not signed by its own key"):
        keys.key_of(forged)
    announced = {
        "address": "127.0.0.1:7000",
        "certificate": base64.b64encode(document).decode(),
        "exchange": "00" * 32,
    }
    assert member.places([(raw, announced)])[0].port == 7000
    with pytest.raises(ValueError, match="does not hold its agent's key"):
        member.places([(other.public_key().public_bytes_raw(), announced)])


def test_parts_are_sealed_to_one_agent_of_one_session() -> None:
    key = keys.exchange_key(Ed25519PrivateKey.generate(), "ses_a")
    public = key.public_key().public_bytes_raw()
    sealed = keys.seal(public, b"context", [5, -(2**200)])
    assert keys.unseal(key, b"context", sealed) == [5, -(2**200)]
    other = keys.exchange_key(Ed25519PrivateKey.generate(), "ses_a")
    flipped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for opener, context, box in (
        (other, b"context", sealed),
        (key, b"another", sealed),
        (key, b"context", flipped),
    ):
        with pytest.raises(keys.NotSealed):
            keys.unseal(opener, context, box)


def test_summands_add_up_and_all_but_one_do_not_tell() -> None:
    figures = [123456, -7, 0]
    parts = keys.summands(figures, 5)
    assert [sum(column) for column in zip(*parts, strict=True)] == figures
    for missing in range(5):
        rest = [
            sum(row[0] for place, row in enumerate(keys.summands(figures, 5)) if place != missing)
            for _ in range(2)
        ]
        assert abs(rest[0] - rest[1]) > 2**100  # drawn anew, over a range that hides any figure
