"""Contents of which no more is in memory than what the next steps draw: the bits of the whole
content, reads that say nothing of what was drawn, and the samples that the accountant assumes."""

from __future__ import annotations

import io
import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.privacy.noise import Noise
from discreet.problems import KINDS, parts
from discreet.problems.contents import Content, pack
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.problems.parts import (
    FILLED,
    WINDOW_BYTES,
    JoinedContent,
    Passing,
    Records,
    StoredContent,
)
from discreet.problems.plans import Plan
from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet.solvers.evaluation.drawn_records import stretches
from discreet.solvers.evaluation.temporal_difference import Ints, Transitions
from discreet.solvers.evaluation.value_features import Tabular
from discreet.storage.sealing import ChunkCipher, SealedReader, new_data_key, seal_stream
from tests.problems.test_parts import EVALUATED, PEOPLE, episodes, prepared

DENSE = {"features": {"type": "identity", "bound": 2.0}}
BATCH = {**EVALUATED, "method": "minibatch", "steps": 30, "sampling": 0.2}
SINGLE = {**EVALUATED, "method": "gradient", "steps": 90}
COUNTED: dict[str, Any] = {"trajectories": PEOPLE}


def unending(**public: Any) -> dict[str, Any]:
    data = episodes(states=4, off_policy=False, continuing=True, **public)
    for row in data["content"]["transitions"]:
        row["terminal"] = False
    return data


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "samples": (episodes(states=4, off_policy=False), BATCH),
    "samples of a public number": (episodes(states=4, off_policy=True, **COUNTED), BATCH),
    "samples that begin at the mean reward": (unending(), BATCH),
    "the same of a public number": (unending(**COUNTED), BATCH),
    "samples of coordinates": (episodes(states=None, off_policy=True), {**BATCH, **DENSE}),
    "nobody in most steps": (
        episodes(states=4, off_policy=True),
        {**BATCH, "steps": 200, "sampling": 1e-3},
    ),
    "everybody in each step": (episodes(states=4, off_policy=False), {**BATCH, "sampling": 1}),
    "one a step": (episodes(states=4, off_policy=True, **COUNTED), SINGLE),
    "one a step, coordinates": (
        episodes(states=None, off_policy=False, **COUNTED),
        {**SINGLE, **DENSE},
    ),
}
Prepared = tuple[OffPolicyEvaluation, OffPolicyPublic, Plan, Content]


def opened(name: str) -> Prepared:
    problem, public, plan, content = prepared(*CASES[name])
    assert isinstance(problem, OffPolicyEvaluation)
    return problem, public, plan, content


class Watched:
    """A content, sealed in chunks, and where it was read."""

    def __init__(self, content: Content) -> None:
        key = new_data_key()
        self._sealed = seal_stream(key, "dst_1", pack(content))
        self._cipher = ChunkCipher(key, "dst_1")
        self.reads: list[tuple[int, int]] = []
        self.stored = StoredContent(self._open, "start")

    def _open(self) -> Any:
        reader = SealedReader(self._cipher, self._read_at, len(self._sealed))
        return io.BufferedReader(reader)

    def _read_at(self, place: int, size: int) -> bytes:
        self.reads.append((place, size))
        return self._sealed[place : place + size]


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_the_whole_content(name: str) -> None:
    """However little is in memory at once."""
    problem, public, plan, content = opened(name)
    assert plan.sampled_by == "trajectory"
    for seed in (1, 2):
        whole = problem.release(public, plan, content, Noise.seeded(seed))
        assert whole["weights"].any()
        for window in (1, 300, 2500, 1 << 20):
            watched = Watched(content)
            before = len(watched.reads)
            records = Records(watched.stored, window)
            released = problem.release_sampled(public, plan, records, Noise.seeded(seed))
            assert pack(released) == pack(whole), window
            assert len(watched.reads) > before


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_sampled_as_one_content(name: str) -> None:
    """With the bits of that content: the order of trajectories does not tell of blocks."""
    problem, public, plan, content = opened(name)
    whole = problem.release(public, plan, content, Noise.seeded(1))
    units = np.arange(content["start"].size - 1)
    ways = [units[::3], units[:0], units[2::3], units[1::3]]
    blocks = [StoredContent(partial(io.BytesIO, pack(content)), "start").read(one) for one in ways]
    watched = [Watched(block) for block in blocks]
    stored = [one.stored for one in watched]
    one = JoinedContent(stored, problem.unit_keys, "start", 200)
    assert (one.units, one.total_bytes) == (units.size, Watched(content).stored.total_bytes)
    assert pack(one.read(units)) == pack(content)
    for window in (1, 2500):
        released = problem.release_sampled(public, plan, Records(one, window), Noise.seeded(1))
        assert pack(released) == pack(whole), window
    reads = []
    for numbers in (units[:1], units[-2:], units):
        before = [len(one.reads) for one in watched]
        one.read(numbers)
        reads.append([one.reads[i:] for i, one in zip(before, watched, strict=True)])
        assert (one.sizes(numbers) == Watched(content).stored.sizes(numbers)).all()
    assert reads[0] == reads[1] == reads[2], "whoever is drawn"
    if not public.replaced:  # then there may be nobody
        nothing = JoinedContent(stored[1:2] * 2, problem.unit_keys, "start", 200)
        released = problem.release_sampled(public, plan, Records(nothing, 1), Noise.seeded(1))
        assert pack(released) == pack(problem.release(public, plan, blocks[1], Noise.seeded(1)))


def test_windows_hold_what_fits_and_at_least_one_step() -> None:
    """And hold all that their steps draw: a step that would find another trajectory in its place
    would come to other weights."""
    problem, public, plan, content = opened("samples")
    held: list[int] = []

    class Counted(StoredContent):
        def read(self, numbers: Ints) -> Content:
            held.append(int(self.sizes(numbers).sum()))
            return super().read(numbers)

    stored = Counted(partial(io.BytesIO, pack(content)), "start")
    total = stored.total_bytes
    assert total == 17 * content["reward"].size + 8 * PEOPLE
    for window, windows in ((total, 1), (total // 2, 8), (1, 30)):
        held.clear()
        problem.release_sampled(public, plan, Records(stored, window), Noise.seeded(3))
        assert len(held) >= windows
        if window > 1:
            assert max(held) <= window
        else:
            assert len(held) == plan.iterations["steps"]


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    block_bytes=st.sampled_from([1, 24, 100, 1 << 20]),
    draw=st.data(),
)
@settings(deadline=None)
def test_units_are_read_whole_and_reads_say_nothing_of_them(
    lengths: list[int], block_bytes: int, draw: st.DataObject
) -> None:
    """Which parts of the sealed file are read, and in which order, is the same for any numbers."""
    start = np.cumsum([0, *lengths])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    pairs = np.stack([rows, -rows], axis=1) / 7
    content: Content = {"a": rows.astype(np.int32), "b": pairs, "start": start}
    chosen = [
        np.array(sorted(draw.draw(st.sets(st.integers(0, len(lengths) - 1)))), dtype=np.int64)
        for _ in range(2)
    ]
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "BLOCK_BYTES", block_bytes)
        patch.setattr("discreet.storage.sealing.CHUNK_BYTES", 64)
        patch.setattr("discreet.storage.sealing.STREAM_CHUNK_BYTES", 80)
        for numbers in (*chosen, np.arange(len(lengths))):
            watched = Watched(content)
            found = watched.stored.read(numbers)
            for name in ("a", "b"):
                expected = content[name][np.isin(rows, numbers)]
                assert found[name].tobytes() == expected.tobytes()
                assert found[name].dtype == expected.dtype
            assert np.diff(found["start"]).tolist() == [lengths[i] for i in numbers]
            sizes = watched.stored.sizes(numbers)
            assert sizes.tolist() == [20 * lengths[i] + 8 for i in numbers]
            seen.append(watched.reads)
    assert seen[0] == seen[1] == seen[2]
    assert len(set(seen[0])) * 64 > len(pack(content)) - 128, "every chunk, whatever the numbers"


def test_how_often_a_content_is_passed_through_does_not_say_who_was_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of trajectories of one length each pass is the same, for any draws of as many."""
    monkeypatch.setattr("discreet.storage.sealing.CHUNK_BYTES", 512)
    monkeypatch.setattr("discreet.storage.sealing.STREAM_CHUNK_BYTES", 528)
    rows, people = 400, 100
    content: Content = {
        "next_state": np.zeros(rows, dtype=np.int32),
        "reward": np.zeros(rows),
        "start": np.arange(0, rows + 1, 4),
        "state": np.zeros(rows, dtype=np.int32),
        "terminal": np.zeros(rows, dtype=bool),
    }
    public = {"unit": "trajectory", "states": 2, "reward_bound": 1, "horizon": 4}
    problem = OffPolicyEvaluation.model_validate({**SINGLE, "dataset": "example"})
    described = OffPolicyEvaluation.Dataset.read_public(
        {**public, "off_policy": False, "trajectories": people}
    )
    budget = problem.budget(Privacy.model_validate({"epsilon": 1, "delta": 1e-6}))
    plan = problem.plan(described, budget)
    passes = []
    for seed in range(6):
        watched = Watched(content)
        problem.release_sampled(described, plan, Records(watched.stored, 2000), Noise.seeded(seed))
        passes.append(watched.reads)
    shorter, longer = min(passes, key=len), max(passes, key=len)
    assert len(shorter) > 20
    assert longer[: len(shorter)] == shorter
    assert all(one == longer[: len(one)] for one in passes)


def test_units_that_are_not_there_or_out_of_order_are_refused() -> None:
    content = {"rows": np.arange(6), "start": np.array([0, 2, 6])}
    stored = StoredContent(partial(io.BytesIO, pack(content)), "start")
    for numbers in ([2], [-1]):
        with pytest.raises(IndexError):
            stored.read(np.array(numbers))
    for start in ([0, 7, 6], [0, 4, 2, 6]):
        wrong = {**content, "start": np.array(start)}
        with pytest.raises(ValueError, match="follow"):
            StoredContent(partial(io.BytesIO, pack(wrong)), "start").read(np.arange(2))


class Numbered:
    """Trajectories of one transition each, of which nothing is known but who is read with whom."""

    trajectories, total_bytes = 40, 40

    def __init__(self, window_bytes: int) -> None:
        self.window_bytes = window_bytes

    def sizes(self, numbers: Ints) -> Ints:
        return np.ones(numbers.size, dtype=np.int64)

    def read(self, numbers: Ints) -> Transitions:
        states = np.zeros(numbers.size, dtype=np.int32)
        no_reals = np.zeros(numbers.size)
        start = np.arange(numbers.size + 1)
        return Transitions(start, states, states, no_reals, np.empty(0), states.astype(bool))


def drawn_by(
    kernel: Any, steps: int, window: int, generator: np.random.Generator
) -> tuple[list[list[int]], int]:
    """Whom each step draws, as it is read, and in how many windows."""
    found: list[list[int]] = []
    last: list[tuple[Ints, Ints]] = []

    def draw(ahead: np.random.Generator, numbers: Ints, ends: Ints) -> int:
        drawn = int(kernel(ahead, numbers, ends))
        last[:] = [(numbers.copy(), ends[:drawn].copy())]
        return drawn

    windows = 0
    for stretch in stretches(Numbered(window), steps, generator, draw):
        windows += 1
        numbers, ends = last[0]
        taken = stretch.last - stretch.first
        each = [numbers[a:b] for a, b in itertools.pairwise([0, *ends[:taken].tolist()])]
        assert set(itertools.chain(*each)) == set(stretch.numbers), "what is drawn is there"
        found += [one.tolist() for one in each]
        # The steps themselves take the same from the generator.
        again, ends = np.empty(10_000, dtype=np.int64), np.empty(taken, dtype=np.int64)
        assert kernel(generator, again, ends) == taken
        assert again[: ends[-1]].tolist() == list(itertools.chain(*each))
    return found, windows


def test_samples_are_of_the_distribution_that_is_charged() -> None:
    """Everybody in each step with the probability, and independently: of others, and of other
    steps. Bounds are of 5 deviations, for some 250 figures."""
    q, steps = 0.3, 20_000

    def kernel(generator: np.random.Generator, numbers: Ints, ends: Ints) -> Any:
        return gtd._draw_samples(40, q, 2, generator, numbers, ends)

    found, windows = drawn_by(kernel, steps, 30, Noise.seeded(5).generator())
    assert windows > 100
    taken = np.zeros((steps, 40), dtype=bool)
    for step, members in enumerate(found):
        assert members == sorted(set(members))
        taken[step, members] = True
    for events, probability in (
        (taken, q),
        (taken[:, 1:] & taken[:, :-1], q**2),
        (taken[:, 20:] & taken[:, :20], q**2),
        (taken[1:] & taken[:-1], q**2),
        (~taken[:, 1:] & taken[:, :-1], q * (1 - q)),
    ):
        # Neighbours in time share a step, so these pairs are counted of every second one.
        counted = events[::2] if len(events) < steps else events
        deviation = math.sqrt(probability * (1 - probability) / len(counted))
        assert np.abs(counted.mean(axis=0) - probability).max() < 5 * deviation


def test_steps_that_draw_nobody_take_no_window() -> None:
    """Else a content would be passed through more often than the plan has time for."""
    q, steps = 2e-4, 40_000

    def kernel(generator: np.random.Generator, numbers: Ints, ends: Ints) -> Any:
        return gtd._draw_samples(40, q, 2, generator, numbers, ends)

    found, windows = drawn_by(kernel, steps, 30, Noise.seeded(7).generator())
    drawn = sum(map(len, found))
    assert abs(drawn - steps * 40 * q) < 5 * math.sqrt(steps * 40 * q)
    assert found.count([]) > 0.98 * steps
    assert windows <= 1 + drawn / (FILLED * 30)


def test_single_draws_are_of_the_distribution_that_is_charged() -> None:
    """Uniform, with replacement, independently of the draw before."""
    steps = 60_000

    def kernel(generator: np.random.Generator, numbers: Ints, ends: Ints) -> Any:
        return gtd._draw_one_each(40, 2, generator, numbers, ends)

    found, windows = drawn_by(kernel, steps, 30, Noise.seeded(6).generator())
    assert windows > 100
    numbers = np.array(list(itertools.chain(*found)))
    assert numbers.size == steps
    deviation = math.sqrt(steps * 39) / 40
    assert np.abs(np.bincount(numbers, minlength=40) - steps / 40).max() < 5 * deviation
    pairs = np.bincount(numbers[:-1:2] * 40 + numbers[1::2], minlength=1600)
    assert np.abs(pairs - steps / 3200).max() < 6 * math.sqrt(steps / 3200)


def test_ahead_is_drawn_what_the_steps_draw() -> None:
    """The kernels of the steps take from the generator what those that draw ahead take."""
    trajectories = Numbered(40).read(np.arange(40))
    features = Tabular(3)
    shared: dict[str, Any] = {"clip": 1.0, "noise_scale": 1.0}
    for draw, make in (
        (
            partial(gtd._draw_samples, 40, 0.3, 6),
            partial(gtd.minibatch, probability=0.3, step_size=1.0),
        ),
        (partial(gtd._draw_one_each, 40, 6), partial(gtd.gradient, step_sizes=1.0)),
    ):
        ahead, itself = (Noise.seeded(8).generator() for _ in range(2))
        assert draw(ahead, np.empty(10_000, np.int64), np.empty(50, np.int64)) == 50
        make(trajectories, features, 0.9, steps=50, generator=itself, **shared)
        assert ahead.bytes(16) == itself.bytes(16)


def test_a_window_and_the_time_of_reading_follow_from_public_figures() -> None:
    """Contents that fit are read once, in the time that was always given; a larger one takes more
    windows, up to where these take twice the work, and from there on a larger window."""
    for most, drawn, work in ((1e6, 1e9, 1.0), (WINDOW_BYTES, 1e12, 1.0)):
        assert Passing(most, drawn, 10**6, work).seconds == 0
    some = Passing(2e8, 4e9, 10**6, 10.0)
    assert some.window_bytes == WINDOW_BYTES
    assert 1 < some.seconds < 20
    large = Passing(4e9, 8e10, 10**6, 200.0)
    assert WINDOW_BYTES < large.window_bytes < 4e9
    assert large.seconds == pytest.approx(400, rel=1e-3)
    # Of a step that takes 0.6 of a window there is one in each.
    steps, content = 1000, 4.0 * WINDOW_BYTES
    single = Passing(content, steps * 0.6 * WINDOW_BYTES, steps, 1000.0)
    assert single.window_bytes == WINDOW_BYTES
    assert single.seconds == pytest.approx(steps * content / 2e9)
    few = Passing(4e9, 2 * 3e9, 2, 200.0)
    assert few.window_bytes == 3e9, "a step is never in two windows"
    assert few.seconds == 4.0
    assert Passing(4e9, 8e10, 10**6, 0.1).seconds == 0, "nothing is gained: read once, as a whole"

    kind = KINDS["off_policy_evaluation"]
    assert kind.Dataset is not None
    found = []
    for rows in (250_000, 20_000_000):
        public = kind.Dataset.read_public(
            {"unit": "trajectory", "states": 5, "reward_bound": 1, "horizon": 10}
            | {"off_policy": False, "trajectories": rows // 10, "max_rows": rows}
        )
        problem = kind.model_validate(
            {**SINGLE, "steps": min(2 * rows, 10**7), "dataset": "example"}
        )
        budget = problem.budget(Privacy.model_validate({"epsilon": 1, "delta": 1e-6}))
        plan = problem.plan(public, budget)
        assert isinstance(problem, OffPolicyEvaluation)
        method = problem._planned(public, plan)
        found.append((method.passing(plan.parameters).seconds, plan.sampled_by))  # type: ignore[attr-defined]
    assert found[0] == (0, "trajectory")
    assert found[1][0] > 0
