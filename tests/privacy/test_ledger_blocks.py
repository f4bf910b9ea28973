"""The chain of a source under attack: what it says of each block is what its entries add up to."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from discreet.ledger import blocks, certificates
from discreet.ledger.blocks import COLUMNS
from discreet.ledger.entries import Broken, limits
from discreet.ledger.verification import verify
from discreet.privacy.filters import Cap
from tests.ledgers import Writer
from tests.log.test_verifier import stranger

CHAIN = "acc_s"
NARROW = Cap(150_000_000, 0)
"""Lets one job pass, and not two."""


def opened(many: int = 4) -> Writer:
    made = Writer(cap=NARROW)
    for number in range(1, many + 1):
        made.write_blocks(CHAIN, "open", None, (number, number))
    return made


def life(made: Writer, job: str, *kinds: str, runs: tuple[tuple[int, int], ...]) -> None:
    for kind in kinds:
        made.write_blocks(CHAIN, kind, job, *runs)


def whole() -> Writer:
    made = opened()
    life(made, "job_1", "reserve", "data_touched", "commit", runs=((1, 2), (4, 4)))
    life(made, "job_2", "reserve", "release", runs=((3, 3),))
    life(made, "job_3", "reserve", runs=((3, 3),))
    wide = {"cap": {"epsilon": "500000000", "delta": "0"}, "filters": limits(Cap(500_000_000, 0))}
    made.write_blocks(CHAIN, "grant", None, (1, 1), **wide)
    life(made, "job_4", "reserve", runs=((1, 1),))
    return made


def both_say(made: Writer) -> str:
    """What is wrong, in our words; the verifier of one file must see it as we do."""
    lines = made.lines()
    theirs = stranger.check_ledger(lines)
    try:
        verify(lines)
    except Broken as broken:
        assert [one.holds for one in theirs] == [False], theirs
        return broken.what
    assert all(one.holds is not False for one in theirs), theirs
    return ""


def test_a_true_chain_holds() -> None:
    assert both_say(whole()) == ""


def test_no_byte_is_free() -> None:
    export = b"".join(whole().lines())
    verify(io.BytesIO(export))
    for position in range(0, len(export), 5):
        forged = bytearray(export)
        forged[position] ^= 1
        with pytest.raises(Broken):
            verify(io.BytesIO(bytes(forged)))


def overspent(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=((1, 2),))
    life(made, "job_2", "reserve", runs=((2, 3),))


def other_sums(made: Writer) -> None:
    made.standing[CHAIN, 2]["totals"] = {**made.price, "epsilon": "0"}
    life(made, "job_1", "reserve", runs=((1, 2),))


def fewer_blocks(made: Writer) -> None:
    life(made, "job_1", "reserve", "data_touched", runs=((1, 3),))
    life(made, "job_1", "commit", runs=((1, 2),))


def more_blocks(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=((1, 2),))
    life(made, "job_1", "release", runs=((1, 3),))


def missing(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=((4, 5),))


def twice(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=((1, 1), (1, 1)))


def joined(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=((1, 1), (2, 2)))


def nothing(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=())


def endless(made: Writer) -> None:
    made.write_blocks(CHAIN, "reserve", "job_1", blocks=[[1, 2**52]])


def opened_again(made: Writer) -> None:
    made.write_blocks(CHAIN, "open", None, (2, 2))


def cap_without_grant(made: Writer) -> None:
    made.write_blocks(CHAIN, "reserve", "job_1", (1, 1), cap={"delta": "0", "epsilon": "9"})


def below_spent(made: Writer) -> None:
    life(made, "job_1", "reserve", runs=((1, 1),))
    small = {"cap": {"epsilon": "1", "delta": "0"}, "filters": limits(Cap(1, 0))}
    made.write_blocks(CHAIN, "grant", None, (1, 1), **small)


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (overspent, "the totals of block 2 exceed every filter"),
        (other_sums, "the sums of its blocks are not those of their prices"),
        (fewer_blocks, "blocks other than those its job has reserved"),
        (more_blocks, "blocks other than those its job has reserved"),
        (missing, "a block that does not exist"),
        (twice, "not an entry in this format"),
        (joined, "not an entry in this format"),
        (nothing, "a block that does not exist"),
        (endless, "not an entry in this format"),
        (opened_again, "another block than the next"),
        (cap_without_grant, "the cap changed without a grant"),
        (below_spent, "the totals of block 1 exceed every filter"),
    ],
)
def test_what_no_chain_may_say(forge: Callable[[Writer], None], says: str) -> None:
    made = opened()
    forge(made)
    assert says in both_say(made)


def test_a_chain_of_blocks_and_an_account_are_not_mistaken_for_each_other() -> None:
    plain = Writer()
    plain.write("acc_1", "open", None, blocks=[[1, 1]], sums="")
    assert "canonical JSON" in both_say(plain)
    chain = Writer()
    chain.write("acc_1", "open", None, scope="source")
    assert "canonical JSON" in both_say(chain)


@pytest.mark.parametrize("runs", [[[2, 1]], [[0, 1]], [[1, 2], [3, 4]], [[True, 2]], ["ab"], [[1]]])
def test_one_form_of_blocks(runs: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        blocks.numbers(runs)
    assert blocks.numbers([[1, 2], [4, 4]]) == (1, 2, 4)


def test_a_certificate_says_as_many_blocks_as_were_charged() -> None:
    made = opened()
    life(made, "job_1", "reserve", "data_touched", "commit", runs=((1, 3),))
    entries: list[tuple[dict[str, Any], str]] = []
    verify(
        made.lines(),
        watch=lambda body, digest: entries.append((body, digest)) if body["job"] else None,
    )
    body = {
        "guarantee": {"type": "pure_dp"},
        "ledger_entry": [{"account": CHAIN, "seq": 7, "hash": entries[-1][1], "blocks": [[1, 3]]}],
        "events": [made.event],
        "price": made.price,
        "source": {"blocks": [{"block": name} for name in "abc"]},
    }
    assert certificates.check_inclusion(body, entries).holds
    written = [{"body": entry, "hash": digest} for entry, digest in entries]
    assert stranger.check_inclusion(body, written)[0].holds
    for names in ("ab", "abcd", ""):
        other = {**body, "source": {"blocks": [{"block": name} for name in names]}}
        found = certificates.check_inclusion(other, entries)
        assert not found.holds
        assert "the ledger charged 3 blocks" in found.detail
        with pytest.raises(stranger.Bad, match="the ledger charged 3 blocks"):
            stranger.check_inclusion(other, written)
    for said in ({}, {"blocks": [[1, 2]]}, {"blocks": [[2, 4]]}):
        entry = {"account": CHAIN, "seq": 7, "hash": entries[-1][1], **said}
        other = {**body, "ledger_entry": [entry]}
        assert not certificates.check_inclusion(other, entries).holds
        with pytest.raises(stranger.Bad, match="other blocks than the certificate says"):
            stranger.check_inclusion(other, written)


@pytest.mark.parametrize("narrow", [1, 2])
def test_blocks_of_one_balance_are_held_to_limits_of_their_own(narrow: int) -> None:
    """Blocks that stand at the same are looked at once, but not where their caps differ."""
    nothing = blocks.Balance.of(dict.fromkeys(COLUMNS, 0), dict.fromkeys(COLUMNS, 0))
    wide, tight = ({"basic": dict.fromkeys(COLUMNS, str(most))} for most in (9, 3))
    both = {
        number: blocks.Block({}, tight if number == narrow else wide, nothing) for number in (1, 2)
    }
    four, three = (dict.fromkeys(COLUMNS, each) for each in (4, 3))
    assert blocks.moved(both, [1, 2], "reserve", four).beyond == narrow
    assert blocks.moved(both, [1, 2], "reserve", three).beyond is None
