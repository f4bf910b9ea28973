"""Sums over a sparse graph of masks: exact with agents that drop, and closed to a server that lies.

The last tests are the server's lies; each names the check that answers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from discreet_agent.secure_sum.errors import Missing, Refused, Tampered, Unacceptable
from discreet_agent.secure_sum.masks import stream
from discreet_agent.sparse_sum import Agent, Candidate, Group, Plan, Server, shamir
from discreet_agent.sparse_sum.agent import own_key, secret_digest
from discreet_agent.sparse_sum.group import digest
from discreet_agent.sparse_sum.plan import largest
from discreet_agent.sparse_sum.wire import CHECKS, SEALED, Kind, bitmap, statement, words

AGENTS, DIMENSION, ROUNDS = 60, 3, 5
PLAN = Plan.choose(AGENTS, DIMENSION, ROUNDS, gamma=0.05, delta=0.1)


def candidates(plan: Plan) -> list[Candidate]:
    return [Candidate(Ed25519PrivateKey.generate()) for _ in range(plan.agents)]


def group_of(plan: Plan, people: list[Candidate]) -> Group:
    commitments = [one.commitment for one in people]
    return Group(plan, tuple(one.open(plan, commitments) for one in people))


PEOPLE = candidates(PLAN)
GROUP = group_of(PLAN, PEOPLE)


@dataclass
class Run:
    """A group of agents, and one round of the server at a time."""

    group: Group = GROUP
    people: list[Candidate] = field(default_factory=lambda: PEOPLE)
    round: int = -1

    def __post_init__(self) -> None:
        self.plan = self.group.plan
        self.agents = [Agent(one, at, self.group) for at, one in enumerate(self.people)]
        self.values = np.zeros((self.plan.agents, self.plan.dimension), dtype=np.int64)

    def begin(self, without: Iterable[int] = ()) -> None:
        """A new round, up to the shares."""
        self.round += 1
        self.server = Server(self.group, self.round)
        rng = np.random.default_rng(self.round)
        self.values = rng.integers(-(2**60), 2**60, self.values.shape)
        for place in self.others(without):
            self.server.take_shares(place, self.agents[place].shares(self.round))

    def contribute(self, without: Iterable[int] = ()) -> None:
        for place in self.others(without):
            self.server.take_contribution(place, self.contribution(place))

    def contribution(self, place: int) -> bytes:
        boxes = self.server.delivery(place)
        return self.agents[place].contribute(self.round, boxes, self.values[place])

    def vote(self, without: Iterable[int] = ()) -> bytes:
        survivors = self.server.propose()
        for place in self.group.jury(self.round) - set(without):
            self.server.take_vote(place, self.agents[place].vote(self.round, survivors))
        return survivors

    def released(self, place: int, survivors: bytes) -> bytes:
        return self.agents[place].release(
            self.round, survivors, self.server.votes(), self.server.proofs(place)
        )

    def release(self, survivors: bytes, without: Iterable[int] = ()) -> None:
        for place in self.others(without):
            self.server.take_release(place, self.released(place, survivors))

    def others(self, without: Iterable[int]) -> list[int]:
        return sorted(set(range(self.plan.agents)) - set(without))

    def ready(self, gone: Iterable[int] = ()) -> bytes:
        """To the moment before the first release."""
        gone = set(gone)
        self.begin()
        self.contribute(gone)
        return self.vote(gone)


def test_shares_by_hand() -> None:
    """5 + 7x + 11x², and a secret at the end of the field."""
    assert shamir.evaluate([5, 7, 11], 4) == [23, 63, 125, 209]
    assert shamir.evaluate([shamir.P - 1, 1], 3) == [0, 1, 2]
    assert shamir.recover({2: 63, 3: 125, 4: 209}, 3) == 5
    assert shamir.recover({1: 23, 2: 63, 4: 209}, 3) == 5
    assert shamir.recover({1: 0, 3: 2}, 2) == shamir.P - 1


def test_shares_of_the_threshold_tell_the_secret_and_fewer_fit_every_secret() -> None:
    secret = shamir.draw()
    shares = dict(enumerate(shamir.share(secret, 5, 12), start=1))
    for kept in ({1, 2, 3, 4, 5}, {3, 5, 8, 11, 12}, set(shares)):
        assert shamir.recover({point: shares[point] for point in kept}, 5) == secret
    four = {point: shares[point] for point in (2, 3, 7, 9)}
    with pytest.raises(ValueError, match="5 shares at points from 1 are needed, not 4"):
        shamir.recover(four, 5)
    # whatever the four are, each value of a fifth makes a secret of its own
    assert len({shamir.recover({**four, 1: fifth}, 5) for fifth in range(100)}) == 100


@pytest.mark.parametrize(("total", "marked", "drawn", "bits"), [(999, 100, 98, 30), (60, 6, 34, 9)])
def test_tails_are_exact(total: int, marked: int, drawn: int, bits: int) -> None:
    bound = largest(total, marked, drawn, bits)
    law = stats.hypergeom(total, marked, drawn)
    assert law.sf(bound) <= 2**-bits * (1 + 1e-9)
    assert law.sf(bound - 1) > 2**-bits


def test_neighbours_grow_with_the_logarithm() -> None:
    chosen = {n: Plan.choose(n, 1, 10) for n in (1_000, 10_000, 100_000)}
    assert [plan.neighbours for plan in chosen.values()] == sorted(
        plan.neighbours for plan in chosen.values()
    )
    assert chosen[100_000].neighbours - chosen[10_000].neighbours < 50
    for n, plan in chosen.items():
        plan.check()
        t, k = plan.threshold, plan.neighbours
        corrupt = stats.hypergeom(n - 1, plan.corrupt, k)
        drop = stats.hypergeom(n - 1, plan.dropping, k)
        assert 16 * n * corrupt.sf(t - k // 2 - 1) <= 2**-41  # t > k/2 + corrupt neighbours
        assert 10 * n * drop.sf(k - t) <= 2**-21  # t neighbours stay, in each of 10 rounds


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"threshold": PLAN.threshold - 1}, "threshold"),
        ({"threshold": PLAN.neighbours + 1}, "threshold"),
        ({"quorum": PLAN.quorum - 1}, "quorums"),
        ({"minimum": PLAN.corrupt + 1}, "hides no agent"),
        ({"neighbours": 7}, "each side"),
        ({"variance": 99}, "finer units"),
        ({"variance": -1}, "finer units"),
    ],
)
def test_agents_compute_a_plan_again(change: dict[str, int], why: str) -> None:
    with pytest.raises(Unacceptable, match=why):
        replace(PLAN, **change).check()
    with pytest.raises(Unacceptable, match=why):
        Candidate(Ed25519PrivateKey.generate()).open(replace(PLAN, **change), [])


def test_what_cannot_be_planned_is_said() -> None:
    with pytest.raises(Unacceptable, match="no threshold"):
        Plan.choose(100, 1, 1, gamma=0.3, delta=0.3)
    with pytest.raises(Unacceptable, match="hides no agent"):
        Plan.choose(10, 1, 1, gamma=0.5, delta=0.4)
    with pytest.raises(Unacceptable, match="finer units"):
        Plan.choose(100, 1, 1, sigma=50.0)  # 25 or so an agent: no discrete Gaussian sums to it


@pytest.mark.parametrize(
    ("n", "corrupt", "k", "t"),
    [
        (100, 0.05, 22, 17),
        (1_000, 0.05, 98, 77),
        (10_000, 0.05, 130, 102),
        (10_000, 0.1, 200, 165),
        pytest.param(10_000, 0.2, 456, 398, marks=pytest.mark.long),
    ],
)
def test_figures_of_the_decision(n: int, corrupt: float, k: int, t: int) -> None:
    """docs/decisions/0025: the figures, and that they are enough, by scipy's law; rounded bounds
    make k by at most one part in thirty larger than the least that is."""
    plan = Plan.choose(n, 1, 3, gamma=corrupt, delta=0.05)
    assert (plan.neighbours, plan.threshold) == (k, t)

    def enough(k: int) -> bool:
        """Whether some t is above k/2 and the corrupt neighbours, and below those that stay."""
        bad, gone = (
            stats.hypergeom.sf(np.arange(k + 1), n - 1, marked, k)
            for marked in (plan.corrupt, plan.dropping)
        )
        colluding = int(np.argmax(16 * n * bad <= 2**-41))
        dropped = int(np.argmax(3 * n * gone <= 2**-21))
        return k // 2 + colluding + 1 <= k - dropped

    assert enough(k)
    least = next(one for one in range(2, k + 1, 2) if enough(one))
    assert least <= k <= least * 31 / 30


@pytest.mark.parametrize("n", [20, 100])
def test_graph(n: int) -> None:
    plan = Plan.choose(n, 1, 1)
    group = group_of(plan, candidates(plan))
    near = [set(group.neighbours(place)) for place in range(n)]
    for place in range(n):
        assert len(near[place]) == plan.neighbours
        assert place not in near[place]
        assert all(place in near[other] for other in near[place])
    again = group_of(plan, candidates(plan))
    assert [set(again.neighbours(place)) for place in range(n)] != near


def test_nobody_chooses_the_graph_after_it_saw_a_nonce() -> None:
    """One changed nonce is another seed, so a commitment is opened on one list only."""
    people = candidates(PLAN)
    commitments = [one.commitment for one in people]
    people[0].open(PLAN, commitments)
    late = [*commitments[:-1], Candidate(Ed25519PrivateKey.generate()).commitment]
    with pytest.raises(Refused, match="another list"):
        people[0].open(PLAN, late)
    with pytest.raises(Refused, match="or plan"):
        people[0].open(replace(PLAN, dimension=DIMENSION + 1), commitments)
    with pytest.raises(Refused, match="own"):
        people[1].open(PLAN, [*commitments[:1], b"x" * 32, *commitments[2:]])


def test_a_group_with_another_nonce_or_key_is_refused() -> None:
    member = GROUP.members[5]
    for name in ("nonce", "exchange"):
        changed = (*GROUP.members[:5], replace(member, **{name: b"x" * 32}), *GROUP.members[6:])
        with pytest.raises(Tampered, match="not the group"):
            Agent(PEOPLE[0], 0, replace(GROUP, members=changed))
    with pytest.raises(Tampered, match="not the group"):
        Agent(PEOPLE[0], 0, replace(GROUP, plan=replace(PLAN, variance=100)))
    near = GROUP.neighbours(0)[0]
    unsigned = list(GROUP.members)
    unsigned[near] = replace(unsigned[near], signature=bytes(64))
    with pytest.raises(Tampered, match=f"agent {near} has not signed"):
        Agent(PEOPLE[0], 0, replace(GROUP, members=tuple(unsigned)))


def test_sums_are_exact_whenever_agents_drop_and_they_come_back() -> None:
    run = Run()
    rng = np.random.default_rng(1)
    for _ in range(4):
        gone = rng.permutation(AGENTS)[: PLAN.dropping].tolist()
        early, shared, later = gone[:2], gone[2:4], gone[4:]
        run.begin(early)
        run.contribute([*early, *shared])
        survivors = run.vote(gone)
        run.release(survivors, gone)
        summands = run.others([*early, *shared])
        assert set(later) <= set(summands)
        assert np.array_equal(run.server.open(), run.values[summands].sum(axis=0))


def test_too_many_drop() -> None:
    run = Run()
    run.begin()
    run.contribute(range(PLAN.dropping + 1))
    with pytest.raises(Missing, match=f"needs {PLAN.minimum}"):
        run.vote()
    survivors = run.ready()
    run.release(survivors, range(AGENTS - PLAN.threshold + 1))
    with pytest.raises(Missing, match="shares of a secret"):
        run.server.open()


def test_noise_of_the_fewest_honest_survivors_suffices() -> None:
    sigma, n, entries = 50.0, 20, 2000
    plan = Plan.choose(n, entries, 1, sigma=sigma)
    assert plan.variance * (plan.minimum - plan.corrupt) >= sigma**2
    assert (plan.variance - 1) * (plan.minimum - plan.corrupt) < sigma**2
    people = candidates(plan)
    run = Run(group_of(plan, people), people)
    run.release(run.ready([3]), [3])
    noise = run.server.open() - run.values[run.others([3])].sum(axis=0)
    expected = plan.variance * (n - 1)
    # chi-square with 2000 degrees of freedom: 5 standard deviations are 16 %
    assert abs(noise.var() / expected - 1) < 0.16


# The proof of decision 25


def opened(
    near: list[set[int]], t: int, corrupt: set[int], alive: set[int], masks: set[frozenset[int]]
) -> list[set[int]]:
    """The sets of honest survivors whose sums a server can open. It has chosen who is `alive` and
    which honest pairs share a mask; agents keep to the rules, corrupt ones give it both shares.

    Nobody knows a mask of two honest survivors, so a sum is one over a whole component of theirs,
    and all of its agents' own masks must be known.
    """
    honest = alive - corrupt
    links = {
        one: {other for other in near[one] & honest if frozenset((one, other)) in masks}
        for one in honest
    }
    givers = {
        one for one in honest if links[one] == near[one] & honest and len(near[one] & alive) >= t
    }
    known = {one for one in honest if len(links[one] & givers) + len(near[one] & corrupt) >= t}
    left, found = set(honest), []
    while left:
        component, edge = set(), {left.pop()}
        while edge:
            component |= edge
            edge = set().union(*(links[one] for one in edge)) - component
        left -= component
        if component <= known:
            found.append(component)
    return found


def circle(n: int, k: int) -> list[set[int]]:
    steps = (*range(-(k // 2), 0), *range(1, k // 2 + 1))
    return [{(place + step) % n for step in steps} for place in range(n)]


def test_whatever_the_server_chooses_it_opens_all_honest_survivors_or_nothing() -> None:
    """Step 3 of the proof, on small circles with random choices; the last lines: one share less,
    and a server opens each of two arcs alone."""
    rng = np.random.default_rng(25)
    whole = apart = 0
    for _ in range(4000):
        n = int(rng.integers(9, 25))
        k = 2 * int(rng.integers(2, min(6, (n - 1) // 2)))
        near = circle(n, k)
        corrupt = set(rng.permutation(n)[: rng.integers(0, 3)].tolist())
        c = max(len(near[one] & corrupt) for one in set(range(n)) - corrupt)
        t = k // 2 + c + 1
        alive = set(range(n))
        for _ in range(rng.integers(0, 3)):  # arcs are called dropped
            at, length = int(rng.integers(n)), int(rng.integers(1, k))
            alive -= {(at + step) % n for step in range(length)}
        masks = {frozenset((one, other)) for one in range(n) for other in near[one]}
        for _ in range(rng.integers(0, 3)):  # and pairs kept from each other, at random or by sides
            cut = set(rng.permutation(n)[: rng.integers(1, n)].tolist())
            side = {one for one in range(n) if (one - int(rng.integers(n))) % n < n // 2}
            parted = side if rng.random() < 0.5 else cut
            some = rng.random() < 0.5
            masks = {
                pair for pair in masks if len(pair & parted) != 1 or (some and rng.random() < 0.8)
            }
        found = opened(near, t, corrupt, alive, masks)
        assert found in ([], [alive - corrupt])
        whole += bool(found)
        apart += opened(near, t - 1, corrupt, alive, masks) not in ([], [alive - corrupt])
    assert whole > 100
    assert apart > 0
    arcs = [set(range(6)), set(range(8, 14))]
    near = circle(16, 4)
    masks = {frozenset((one, other)) for one in range(16) for other in near[one]}
    assert opened(near, 3, set(), arcs[0] | arcs[1], masks) == []
    assert opened(near, 2, set(), arcs[0] | arcs[1], masks) == arcs


# A server that lies


def test_a_server_that_asks_for_both_shares() -> None:
    """A round is released once; and a set without a neighbour that the jury has signed alive is no
    set of theirs."""
    run = Run()
    survivors = run.ready()
    victim = GROUP.neighbours(0)[0]
    run.released(0, survivors)
    for again in (survivors, bitmap(run.others([victim]), AGENTS)):
        with pytest.raises(Refused, match="no release of round"):
            run.released(0, again)
    with pytest.raises(Refused, match="no release of round"):
        run.agents[0].release(run.round - 1, survivors, run.server.votes(), {})


def test_every_release_has_one_share_of_two() -> None:
    run = Run()
    near = GROUP.neighbours(0)
    dropped = [near[1], near[4]]
    survivors = run.ready(dropped)
    held = dict(run.agents[0]._held)
    frame = run.released(0, survivors)
    for other, pair in held.items():
        own, masks = pair[:32], pair[32:]
        assert (own in frame, masks in frame) == (other not in dropped, other in dropped)
    assert not run.agents[0]._held  # nothing is left for a later question


def test_two_survivor_sets() -> None:
    """Jurors sign one set a round, so that of two at most one has a quorum."""
    run = Run()
    survivors = run.ready()
    second = bitmap(run.others([7]), AGENTS)
    jury = sorted(GROUP.jury(run.round))
    with pytest.raises(Refused, match="has voted in round 0"):
        run.agents[jury[0]].vote(run.round, second)
    # the corrupt jurors sign both
    bad = {juror: PEOPLE[juror].identity for juror in jury[: 2 * PLAN.quorum - PLAN.jurors - 1]}
    votes = {
        juror: key.sign(statement(GROUP, Kind.VOTE, run.round, juror, second))
        for juror, key in bad.items()
    }
    place = next(at for at in range(AGENTS) if at != 7)
    proofs = run.server.proofs(place)
    with pytest.raises(Refused, match="fewer than"):
        run.agents[place].release(run.round, second, votes, proofs)
    honest = {juror: run.server._votes[juror] for juror in jury if juror not in bad}
    with pytest.raises(Refused, match="has not signed these survivors"):
        run.agents[place].release(run.round, second, {**votes, **honest}, proofs)
    stranger = next(at for at in range(AGENTS) if at not in jury)
    with pytest.raises(Refused, match="not on the jury"):
        run.agents[place].release(run.round, survivors, {stranger: bytes(64)}, proofs)
    few = dict(list(run.server.votes().items())[: PLAN.quorum - 1])
    with pytest.raises(Refused, match=f"{PLAN.quorum - 1} jurors have signed"):
        run.agents[place].release(run.round, survivors, few, proofs)
    run.agents[place].release(run.round, survivors, run.server.votes(), proofs)


def test_only_jurors_vote_and_never_for_few() -> None:
    run = Run()
    run.begin()
    stranger = next(at for at in range(AGENTS) if at not in GROUP.jury(0))
    with pytest.raises(Refused, match="not on the jury"):
        run.agents[stranger].vote(0, bitmap(range(AGENTS), AGENTS))
    juror = min(GROUP.jury(0))
    with pytest.raises(Refused, match="fewer survivors"):
        run.agents[juror].vote(0, bitmap(range(PLAN.minimum - 1), AGENTS))
    with pytest.raises(Refused, match="bitmap"):
        run.agents[juror].vote(0, b"\xff" * (AGENTS // 8 + 1))


def test_a_message_that_comes_late_stays_closed() -> None:
    """The server has recovered the masks with the others; the own mask is never given as well."""
    run = Run()
    late = 11
    survivors = run.ready([late])
    frame = run.contribution(late)
    with pytest.raises(Refused, match="late"):
        run.server.take_contribution(late, frame)
    own = run.agents[late]._own
    run.release(survivors, [late])
    run.server.open()
    with pytest.raises(Refused, match="not among the survivors"):
        run.released(late, survivors)
    secret = shamir.recover(run.server._given[late], PLAN.threshold).to_bytes(32, "big")
    assert secret_digest(GROUP, secret) == run.server._shares[late].masks
    size = 8 * (DIMENSION + CHECKS)
    bare = np.frombuffer(frame[:size], dtype="<u8").copy()
    run.server._vectors[late] = np.zeros(0)  # as if for this one: take its masks off
    escrow = run.server._shares[late].escrow
    pad = stream(digest(b"escrow", GROUP.context, secret), len(escrow))
    for number, other in enumerate(GROUP.neighbours(late)):
        key = bytes(
            a ^ b for a, b in zip(escrow[32 * number :][:32], pad[32 * number :], strict=False)
        )
        mask = words(key, DIMENSION)
        bare += np.negative(mask) if late < other else mask
    assert not np.array_equal(bare[:DIMENSION].view(np.int64), run.values[late])
    bare -= words(own_key(GROUP, own), DIMENSION)  # with both it would be open: this test sees it
    assert np.array_equal(bare[:DIMENSION].view(np.int64), run.values[late])


def test_replays_between_rounds() -> None:
    run = Run()
    run.begin()
    first, boxes = run.server, run.server.delivery(0)
    run.contribute()
    survivors = run.vote()
    votes, proofs = first.votes(), first.proofs(0)
    run.begin()
    with pytest.raises(Refused, match="not agent"):
        run.agents[0].contribute(1, boxes, run.values[0])
    run.contribute()
    with pytest.raises(Refused, match="has not proved its mask"):
        run.agents[0].release(1, survivors, votes, proofs)
    with pytest.raises(Refused, match=r"not on the jury|has not signed"):
        run.agents[0].release(1, survivors, votes, run.server.proofs(0))
    for over in (0, 1, ROUNDS):
        with pytest.raises(Refused, match="is over"):
            run.agents[0].shares(over)
    with pytest.raises(Refused, match="no contribution"):
        run.agents[0].contribute(0, boxes, run.values[0])
    with pytest.raises(Refused, match="it is over"):
        run.agents[min(GROUP.jury(0))].vote(0, survivors)


def test_frames_of_another_round_or_sender_are_not_taken() -> None:
    run = Run()
    run.begin()
    frame = run.contribution(0)
    run.begin()
    for place in (0, 1):
        with pytest.raises(Refused, match="a CONTRIBUTION of round"):
            run.server.take_contribution(place, frame)


def test_one_round_recovered_opens_no_other() -> None:
    """Keys of masks are HKDF of the secret of a pair and the round."""
    run = Run()
    seen: list[set[bytes]] = []
    for _ in range(3):
        run.begin()
        seen.append(set(run.agents[0]._masks.values()))
    assert sum(map(len, seen)) == len(set.union(*seen)) == 3 * PLAN.neighbours


def asked(run: Run, survivors: bytes, proofs: dict[int, bytes]) -> bytes:
    """Agent 0 with the signatures of the whole jury, honest jurors too: what is left to refuse by
    are its own checks."""
    votes = {
        juror: PEOPLE[juror].identity.sign(statement(GROUP, Kind.VOTE, run.round, juror, survivors))
        for juror in GROUP.jury(run.round)
    }
    return run.agents[0].release(run.round, survivors, votes, proofs)


def test_survivors_that_an_agent_refuses_whoever_signs() -> None:
    run = Run()
    near = GROUP.neighbours(0)
    survivors = run.ready()
    proofs = run.server.proofs(0)
    many = bitmap(range(AGENTS - PLAN.dropping - 1), AGENTS)
    with pytest.raises(Refused, match=f"fewer than {PLAN.minimum}"):
        asked(run, many, proofs)
    with pytest.raises(Refused, match="not among the survivors"):
        asked(run, bitmap(range(1, AGENTS), AGENTS), proofs)
    unproved = {other: proof for other, proof in proofs.items() if other != near[0]}
    with pytest.raises(Refused, match="has not proved its mask"):
        asked(run, survivors, unproved)
    with pytest.raises(Refused, match="has not proved its mask"):
        asked(run, survivors, {**proofs, near[0]: proofs[near[1]]})
    asked(run, survivors, proofs)


def test_fewer_neighbours_than_the_threshold() -> None:
    """A plan that lets many drop, so that the neighbours' number refuses and not that of all."""
    plan = replace(PLAN, minimum=AGENTS - 30, dropping=30)
    plan.check()
    people = candidates(plan)
    run = Run(group_of(plan, people), people)
    run.begin()
    boxes = run.server.delivery(0)
    few = dict(list(boxes.items())[: plan.threshold - 1])
    with pytest.raises(Refused, match=f"fewer than {plan.threshold}"):
        run.agents[0].contribute(0, few, run.values[0])
    gone = run.group.neighbours(0)[: plan.neighbours - plan.threshold + 1]
    run.contribute(gone)
    survivors = run.vote()
    with pytest.raises(Refused, match=f"neighbours survive, fewer than {plan.threshold}"):
        run.released(0, survivors)


def test_shares_that_were_not_sealed_for_this_agent() -> None:
    run = Run()
    run.begin()
    boxes = run.server.delivery(0)
    near = list(boxes)
    stranger = next(at for at in range(1, AGENTS) if at not in near)
    for lie in (
        {**boxes, stranger: boxes[near[0]]},
        {**boxes, near[0]: boxes[near[1]]},
        {**boxes, near[0]: boxes[near[0]][: SEALED - 1]},
    ):
        with pytest.raises(Refused):
            run.agents[0].contribute(0, lie, run.values[0])
    run.agents[0].contribute(0, boxes, run.values[0])
    with pytest.raises(Refused, match="no contribution"):
        run.agents[0].contribute(0, boxes, run.values[0] + 1)


def test_wrong_shares_are_seen() -> None:
    """And one of an agent's alone is left out: the others make its secret."""
    run = Run()
    survivors = run.ready()
    run.release(survivors)
    first, second, *_ = run.server._given[9]
    exact = run.server.open()
    run.server._given[9][first] += 1
    assert np.array_equal(run.server.open(), exact)
    run.server._given[9][second] += 1
    with pytest.raises(Tampered, match="agent 9"):
        run.server.open()


def test_corrupt_neighbours_below_the_threshold_learn_nothing() -> None:
    """Agent 0 sends the same value again and again; the server and t - 1 neighbours take off all
    masks that they know. The bytes left are uniform; with the own mask known they would be
    constant."""
    entries, rounds = 50, 30
    plan = Plan.choose(20, entries, rounds)
    people = candidates(plan)
    group = group_of(plan, people)
    run = Run(group, people)
    near = group.neighbours(0)
    corrupt = near[: plan.threshold - 1]
    left, known = [], set()
    value = np.full(entries, 12345, dtype=np.int64)
    for number in range(rounds):
        server = Server(group, number)
        for place in (0, *near):
            server.take_shares(place, run.agents[place].shares(number))
        frame = run.agents[0].contribute(number, server.delivery(0), value)
        bare = np.frombuffer(frame[: 8 * (entries + CHECKS)], dtype="<u8").copy()
        for other in corrupt:
            bare -= words(run.agents[other]._masks[0], entries)
        left.append(bare[:entries].tobytes())
        for other in set(near) - set(corrupt):
            bare -= words(run.agents[other]._masks[0], entries)
        bare -= words(own_key(group, run.agents[0]._own), entries)
        known.add(bare[:entries].tobytes())
    assert known == {value.tobytes()}
    counts = np.bincount(np.frombuffer(b"".join(left), np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-6
