"""An export of the ledger under attack: whatever is changed, the first broken entry is named."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from discreet.ledger import certificates, entries, verification
from discreet.ledger.entries import Broken, head_line, sign_head
from discreet.ledger.verification import verify
from discreet.privacy import calibration
from discreet.privacy.events import TooManyEvents, price_of
from discreet.privacy.units import Price
from discreet_agent import canonical
from tests.ledgers import EVENT, KEY, OTHER_KEY, PRICE, Writer


def ledger() -> Writer:
    """Two accounts; the second one has lines 7 to 9."""
    made = Writer()
    made.write("acc_1", "open")
    made.life("acc_1", "job_1", "reserve", "data_touched")
    made.write("acc_1", "reserve", "job_2")
    made.write("acc_1", "commit", "job_1")
    made.write("acc_1", "release", "job_2")
    made.write("acc_2", "open")
    made.life("acc_2", "job_3", "reserve", "release")
    return made


LINES = ledger().lines()
HEAD = json.loads(LINES[0])


@pytest.fixture(autouse=True, params=["quick", "slow"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here holds for the quick way through usual entries and for the slow way alone."""
    if request.param == "slow":
        slowly(monkeypatch)


def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "take_quickly", lambda account, known, line: None)


def test_a_true_ledger_holds() -> None:
    found = verify(LINES, public_key=certificates.public_key(KEY), head=HEAD)
    assert (found.tenant, found.accounts, found.entries) == ("ten_1", 2, 9)
    assert found.hash == HEAD["hash"]
    assert verify([head_line(sign_head("ten_1", [], KEY))]).entries == 0


@pytest.mark.parametrize("number", range(1, len(LINES)))
def test_every_changed_byte_is_found_in_its_entry(number: int) -> None:
    """Each byte of each line in turn, by one bit; the entry that is named is the one that was
    changed."""
    line = LINES[number]
    account, seq = ("acc_1", number) if number <= 6 else ("acc_2", number - 6)
    for position in range(0, len(line) - 1, 1 if number == 2 else 7):
        forged = bytearray(line)
        forged[position] ^= 1
        with pytest.raises(Broken) as broken:
            verify([*LINES[:number], bytes(forged), *LINES[number + 1 :]])
        if broken.value.account in ("acc_1", "acc_2"):
            found = (broken.value.account, broken.value.seq)
            assert found in ((account, seq), ("acc_1", number)), (position, str(broken.value))


@pytest.mark.parametrize(
    ("forge", "account", "seq", "says"),
    [
        (lambda lines: [*lines[:3], *lines[4:]], "acc_1", 3, "missing or out of its place"),
        (
            lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
            "acc_1",
            3,
            "missing or out of its place",
        ),
        (
            lambda lines: [*lines[:4], lines[3], *lines[4:]],
            "acc_1",
            4,
            "missing or out of its place",
        ),
        (lambda lines: lines[:-1], "acc_2", 3, "is missing"),
        (lambda lines: lines[:7], "acc_2", 1, "is missing"),
        (lambda lines: lines[:6] + lines[7:], "acc_1", 6, "is missing"),
        (lambda lines: [lines[0], *lines[7:], *lines[1:7]], "acc_1", 1, "out of order"),
        (lambda lines: [*lines, lines[-1]], "acc_2", 4, "missing or out of its place"),
        (
            lambda lines: [*lines[:2], lines[2].replace(b'"hash"', b'"hash" '), *lines[3:]],
            "acc_1",
            2,
            "canonical",
        ),
        (lambda lines: [*lines[:2], b"{}\n", *lines[3:]], "acc_1", 2, "canonical"),
        (lambda lines: [*lines[:2], b"[" * 100_000, *lines[3:]], "acc_1", 2, "canonical"),
        (lambda lines: [*lines[:2], b"", *lines[3:]], "acc_1", 2, "canonical"),
    ],
    ids=range(12),
)
def test_rows_that_are_moved_or_gone(
    forge: Callable[[list[bytes]], list[bytes]], account: str, seq: int, says: str
) -> None:
    with pytest.raises(Broken, match=says) as broken:
        verify(forge(LINES))
    assert (broken.value.account, broken.value.seq) == (account, seq)


def takes(export: bytes) -> bool:
    """Whether an export, as the bytes of its file, is taken for true."""
    try:
        verify(io.BytesIO(export))
    except Broken:
        return False
    return True


def small() -> Writer:
    made = Writer()
    made.write("acc_1", "open")
    made.life("acc_1", "job_1", "reserve", "release")
    return made


SMALL = b"".join(small().lines())
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def test_no_byte_of_an_export_is_free() -> None:
    """Every byte in turn, those of the signed head included, is changed, left out, and something is
    put before it."""
    assert takes(SMALL)
    free = []
    for position in range(len(SMALL)):
        before, here, after = SMALL[:position], SMALL[position], SMALL[position + 1 :]
        # The last character before the padding of a base64 text has bits that decoding ignores.
        others = BASE64 if after[:1] == b"=" else bytes([here ^ 1])
        for changed in (*(bytes([other]) for other in others), b"", b" " + bytes([here])):
            forged = before + changed + after
            if forged != SMALL and takes(forged):
                free.append((position, changed))
    assert free == []


EMPTY = head_line(sign_head("ten_1", [], KEY))


@pytest.mark.parametrize("whole", [SMALL, EMPTY], ids=["ledger", "empty"])
def test_nothing_can_be_put_into_an_export(whole: bytes) -> None:
    head = json.loads(whole.splitlines()[0])
    rest = whole.split(b"\n", 1)[1]
    assert takes(whole)
    forged = [
        head_line({**head, "note": "all is well"}) + rest,
        head_line({**head, "accounts ": []}) + rest,
        whole.replace(b'"format"', b'"format":"discreet-ledger/1","format"', 1),
        whole.replace(b"{", b"{ ", 1),
        whole.replace(f'"seq":{head["seq"]}'.encode(), f'"seq":{head["seq"]}.0'.encode(), 1),
        whole.replace(b'"tenant":"ten_1"', b'"tenant":"ten_2"', 1),
        whole.replace(b'"tenant":"ten_1"', b'"tenant":"\\u0074en_1"', 1),
        b"\xef\xbb\xbf" + whole,
        whole.replace(b"\n", b"\r\n", 1),
        whole + b"\n",
        whole + b" ",
        whole + b"\0",
        whole + b"{}\n",
        whole[:-1],
        b"\n" + whole,
    ]
    if rest:
        first, *others = rest.splitlines(keepends=True)
        tail = b"".join(others)
        first = whole.split(b"\n", 1)[0] + b"\n"
        forged += [
            first + one + tail
            for one in (
                first.replace(b'{"body"', b'{"a":1,"body"', 1),
                first.replace(b"}\n", b',"signature":""}\n', 1),
                first.replace(b'"account":', b'"account":"acc_1","account":', 1),
                first.replace(b'{"account"', b'{"aaa":null,"account"', 1),
                first.replace(b'"seq":1,', b'"seq":1.0,', 1),
                first.replace(b'"seq":1,', b'"seq":1e0,', 1),
                first.replace(b'"kind":"open"', b'"kind":"\\u006fpen"', 1),
                first.replace(b'"job":null', b'"job": null', 1),
                first + b"\n",
            )
        ]
    assert [one for one in forged if one == whole] == []
    assert [one[:120] for one in forged if takes(one)] == []


def test_a_kept_head_of_a_tenant_without_accounts_may_be_of_an_older_version() -> None:
    """They were signed over the empty list; an export that begins with one is taken no more, as
    nothing holds its tenant."""
    new = sign_head("ten_1", [], KEY)
    signature = base64.b64encode(KEY.sign(b"[]")).decode()
    old = {**new, "hash": hashlib.sha256(b"[]").hexdigest(), "signature": signature}
    assert verify(LINES, head=old).entries == verify(LINES, head=new).entries == 9
    assert not takes(head_line(old))
    assert not takes(head_line({**new, "tenant": "ten_2"}))


def rehashed(change: Callable[[dict[str, list[dict[str, Any]]]], None]) -> Writer:
    """What somebody writes who can compute every hash anew."""
    forged = Writer()
    forged.bodies = copy.deepcopy(ledger().bodies)
    change(forged.bodies)
    return forged


def test_hashes_computed_anew_do_not_fit_the_signed_head() -> None:
    forged = rehashed(lambda bodies: bodies["acc_1"][1].update(actor="someone else"))
    with pytest.raises(Broken, match="signed head names another last entry") as broken:
        verify([LINES[0], *forged.lines()[1:]])
    assert (broken.value.account, broken.value.seq) == ("acc_1", 6)


def test_forged_signatures() -> None:
    head = {
        **HEAD,
        "signature": HEAD["signature"][:-4]
        + ("AAA=" if HEAD["signature"][-4:] != "AAA=" else "BBA="),
    }
    with pytest.raises(Broken, match=r"forged|format"):
        verify([head_line(head), *LINES[1:]])
    others = ledger().lines(OTHER_KEY)
    assert verify(others).public_key == certificates.public_key(OTHER_KEY)
    with pytest.raises(Broken, match="another key"):
        verify(others, public_key=certificates.public_key(KEY))
    with pytest.raises(Broken, match="another key"):
        verify(others, head=HEAD)
    stolen = {**json.loads(others[0]), "public_key": HEAD["public_key"]}
    with pytest.raises(Broken, match="forged"):  # another key's signature under this key's name
        verify([head_line(stolen), *LINES[1:]])
    for name, value in (
        ("seq", 8),
        ("hash", "0" * 64),
        ("format", "x"),
        ("accounts", {}),
        ("signature", 5),
    ):
        with pytest.raises(Broken):
            verify([head_line({**HEAD, name: value}), *LINES[1:]])
    for line in (b"", b"x", b"null\n", b"[" * 100_000):
        with pytest.raises(Broken, match="head"):
            verify([line, *LINES[1:]])


def test_a_kept_head_tells_a_ledger_that_was_cut_or_rewritten_by_the_key_holder() -> None:
    shorter = ledger()
    del shorter.bodies["acc_2"][-1]
    assert verify(shorter.lines()).entries == 8
    with pytest.raises(Broken, match="missing") as broken:
        verify(shorter.lines(), head=HEAD)
    assert (broken.value.account, broken.value.seq) == ("acc_2", 3)
    rewritten = rehashed(lambda bodies: bodies["acc_2"][0].update(reason="other"))
    with pytest.raises(Broken, match="kept head names another entry") as broken:
        verify(rewritten.lines(), head=HEAD)
    assert (broken.value.account, broken.value.seq) == ("acc_2", 3)
    gone = ledger()
    del gone.bodies["acc_2"]
    with pytest.raises(Broken, match="missing"):
        verify(gone.lines(), head=HEAD)
    longer = ledger()
    longer.life("acc_2", "job_4", "reserve", "data_touched", "commit")
    longer.write("acc_3", "open")
    assert verify(longer.lines(), head=HEAD).entries == 13


ZERO = Price.zero().to_json()
RULES: list[tuple[str, Callable[[Writer], None], str]] = [
    (
        "price",
        lambda w: w.write(
            "acc_1", "reserve", "j", price=ZERO, totals=PRICE.to_json(), reserved=ZERO
        ),
        "events",
    ),
    (
        "events",
        lambda w: w.write("acc_1", "reserve", "j", events=[{"mechanism": "magic"}]),
        "have no price",
    ),
    ("totals", lambda w: w.write("acc_1", "reserve", "j", totals=ZERO), "totals are not the sum"),
    ("reserved", lambda w: w.write("acc_1", "reserve", "j", reserved=ZERO), "reserved amounts"),
    ("twice", lambda w: w.write("acc_1", "reserve", "job_1"), "has reserved already"),
    ("touch unreserved", lambda w: w.write("acc_1", "data_touched", "j"), "without a reservation"),
    ("touch ended", lambda w: w.write("acc_1", "data_touched", "job_1"), "after the end"),
    (
        "commit untouched",
        lambda w: w.life("acc_1", "j", "reserve", "commit"),
        "a commit needs data_touched",
    ),
    (
        "release touched",
        lambda w: w.life("acc_1", "j", "reserve", "data_touched", "release"),
        "a release needs",
    ),
    ("commit twice", lambda w: w.write("acc_1", "commit", "job_1"), "a commit needs|negative"),
    ("release twice", lambda w: w.write("acc_1", "release", "job_2"), "a release needs|negative"),
    ("second open", lambda w: w.write("acc_1", "open"), "opened once"),
    (
        "cap without grant",
        lambda w: w.write("acc_1", "reserve", "j", cap={"epsilon": "5", "delta": "0"}),
        "grant",
    ),
    (
        "limits",
        lambda w: w.write("acc_1", "grant", cap={"epsilon": "5000000000", "delta": "1"}),
        "follow from the cap",
    ),
    ("tenant", lambda w: w.write("acc_1", "grant", tenant="ten_2"), "another tenant"),
    ("unit", lambda w: w.write("acc_1", "grant", unit="person"), "another account"),
    ("kind", lambda w: w.write("acc_1", "gift", "j"), "kind is not known"),
    ("no job", lambda w: w.write("acc_1", "reserve"), "names no job"),
    ("negative", lambda w: w.write("acc_1", "grant", totals={**ZERO, "rho": "-1"}), "negative"),
    ("notation", lambda w: w.write("acc_1", "grant", totals={**ZERO, "rho": "00"}), "amounts"),
    ("number", lambda w: w.write("acc_1", "grant", seq=9), "out of its place"),
]


@pytest.mark.parametrize(
    ("write", "says"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_rules_bind_the_holder_of_the_key_too(write: Callable[[Writer], None], says: str) -> None:
    """Hashes and signature are right; what was written is not allowed."""
    forged = ledger()
    write(forged)
    with pytest.raises(Broken, match=says) as broken:
        verify(forged.lines())
    assert (broken.value.account, broken.value.seq) == ("acc_1", len(forged.bodies["acc_1"]))


def test_an_overspent_account_is_found_where_it_passed_its_cap() -> None:
    forged = Writer()
    forged.write("acc_1", "open")
    for number in range(11):
        forged.write("acc_1", "reserve", f"job_{number}")
    with pytest.raises(Broken, match="exceed every filter") as broken:
        verify(forged.lines())
    assert broken.value.seq == 12
    del forged.bodies["acc_1"][-1]
    assert verify(forged.lines()).entries == 11


# Certificates -------------------------------------------------------------------------------------


RESULT_DIGEST = canonical.digest({"flow": [1, 2.5]})


def certificate(**values: Any) -> dict[str, Any]:
    line = json.loads(LINES[5])
    body = certificates.certificate(
        simulation=False,
        price=PRICE,
        unit="request",
        neighbours="one trip",
        events=[EVENT],
        filters=["basic"],
        assumptions=[],
        versions={},
        ledger_entries=[{"account": "acc_1", "seq": 5, "hash": line["hash"]}],
        job="job_1",
        result_digest=RESULT_DIGEST,
        tables={"policy": "ab" * 32},
    )
    return certificates.sign({**body, **values}, KEY)


def entries_of(job: str) -> list[tuple[dict[str, Any], str]]:
    found: list[tuple[dict[str, Any], str]] = []
    verify(
        LINES,
        watch=lambda body, digest: found.append((body, digest)) if body["job"] == job else None,
    )
    return found


def verdict(body: Any, **options: Any) -> dict[str, bool | None]:
    return {one.name: one.holds for one in certificates.check(body, **options)}


def test_a_true_certificate() -> None:
    body = certificate()
    assert verdict(body, signed_by=certificates.public_key(KEY)) == dict.fromkeys(
        ("signature", "price", "guarantee"), True
    )
    assert certificates.check_inclusion(body, entries_of("job_1")).holds


def test_false_certificates() -> None:
    true = certificate()
    assert not verdict({**true, "assumptions": ["nothing"]})["signature"]
    assert not verdict(true, signed_by=certificates.public_key(OTHER_KEY))["signature"]
    assert not verdict(certificate(events=[{**EVENT, "scale": 20}]))["price"]
    assert not verdict(certificate(events=[EVENT, EVENT]))["price"]
    assert not verdict(certificate(events=[]))["price"]
    for name, value in (("epsilon", 0.05), ("delta", 1e-9), ("type", "approximate_dp")):
        assert not verdict(certificate(guarantee={**true["guarantee"], name: value}))[
            "guarantee"
        ], name
    for body in (
        None,
        [],
        {},
        "x",
        {**true, "events": 5},
        {**true, "guarantee": None},
        {**true, "price": {}},
    ):
        assert not all(one.holds for one in certificates.check(body))


def results(body: Any, **given: Any) -> dict[str, bool | None]:
    return {
        f"{one.name} {one.detail[:8]}": one.holds
        for one in certificates.check_result(body, **given)
    }


def test_a_certificate_binds_its_result() -> None:
    body = certificate()
    right = {"digest": RESULT_DIGEST, "tables": {"policy": "ab" * 32}, "job": "job_1"}
    assert results(body, **right) == {"result the resu": True, "table 'policy'": True}
    assert list(results(body, **{**right, "digest": "0" * 64}).values()) == [False, True]
    assert list(results(body, **{**right, "tables": {"policy": "0" * 64}}).values()) == [
        True,
        False,
    ]
    assert list(results(body, **{**right, "tables": {"other": "ab" * 32}}).values()) == [
        True,
        False,
        None,
    ]
    assert list(results(body, **{**right, "job": "job_2"}).values()) == [False]
    assert list(results(body).values()) == [None, None]
    for name, value in (
        ("result_digest", "0" * 64),
        ("tables", {}),
        ("tables", {"policy": "0" * 64}),
    ):
        assert not verdict({**body, name: value})["signature"], name
    for name, value in (("result_digest", None), ("tables", [])):
        assert list(results({**body, name: value}, **right).values()) == [False]


def test_a_certificate_of_an_older_version_still_holds_and_binds_nothing() -> None:
    body = certificate()
    for name in ("result_digest", "tables", "signature", "public_key"):
        del body[name]
    old = certificates.sign(body, KEY)
    assert verdict(old, signed_by=certificates.public_key(KEY)) == dict.fromkeys(
        ("signature", "price", "guarantee"), True
    )
    (told,) = certificates.check_result(old, digest=RESULT_DIGEST, job="job_1")
    assert (told.holds, told.detail) == (None, certificates.UNBOUND)


def test_what_is_no_whole_certificate_is_told_what_it_has_not() -> None:
    assert [
        (one.holds, one.detail) for one in (*certificates.check({}), *certificates.check_result({}))
    ] == [
        (
            False,
            "this certificate is incomplete: it has no events, no guarantee, no price, no "
            "public_key, no signature",
        ),
        (None, "not checked, because the signature does not hold"),
        (None, "not checked: this certificate is incomplete"),
    ]
    body = certificate()
    del body["signature"]
    assert (
        certificates.check(body)[0].detail == "this certificate is incomplete: it has no signature"
    )


def test_nothing_is_priced_that_a_stranger_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> Price:
        raise AssertionError("priced")

    monkeypatch.setattr(certificates, "price_of", never)
    forged = {**certificate(), "assumptions": ["nothing"]}
    assert verdict(forged) == {"signature": False, "price": None}
    assert verdict(certificate(), signed_by=certificates.public_key(OTHER_KEY)) == {
        "signature": False,
        "price": None,
    }
    with pytest.raises(AssertionError, match="priced"):
        certificates.check(certificate())


def test_a_job_has_so_many_events_and_no_more() -> None:
    gaussians = [
        calibration.discrete_gaussian(1.0, 10**8 + i, 10**12, neighbours="one trip")
        for i in range(17)
    ]
    curves = [json.loads(event.model_dump_json()) for event in gaussians]
    assert price_of(curves[:16]).epsilon == sum(event.charged_epsilon for event in gaussians[:16])
    for events, why in (
        ([EVENT] * 1001, "1001 events"),
        (curves, "17 different events with a curve"),
    ):
        with pytest.raises(TooManyEvents, match=why):
            price_of(events)
        found = next(
            one for one in certificates.check(certificate(events=events)) if one.name == "price"
        )
        assert (found.holds, why in found.detail) == (False, True)


BEYOND_DOUBLES: list[dict[str, Any]] = [
    {
        "mechanism": "gaussian",
        "sensitivity": 1e-300,
        "scale": 1e300,
        "count": 100,
        "dimension": 2,
        "grid": 1.0,
    },
    {
        "mechanism": "gaussian",
        "sensitivity": 10.0,
        "scale": 1e-300,
        "count": 1000,
        "dimension": 3,
        "grid": 5e-324,
    },
    {
        "mechanism": "dirichlet",
        "sensitivity": 1e-12,
        "scale": 1.4715043441930749,
        "floor": 0,
        "offset": 10000.0,
    },
    {"mechanism": "discrete_gaussian", "sensitivity": 1.4e300, "scale": 1e100, "count": 3},
]


@pytest.mark.parametrize("event", BEYOND_DOUBLES)
def test_figures_at_which_doubles_end_have_no_price(event: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no price|too small|too coarse|must be"):
        price_of(
            [{**event, "charged_epsilon": "0", "charged_delta": "0", "neighbours": "one trip"}]
        )


def test_certificates_that_the_ledger_does_not_bear_out() -> None:
    entries = entries_of("job_1")
    entry = certificate()["ledger_entry"][0]
    false = [
        certificate(ledger_entry=[{**entry, "seq": 6}]),
        certificate(ledger_entry=[{**entry, "hash": "0" * 64}]),
        certificate(ledger_entry=[{**entry, "account": "acc_2"}]),
        certificate(ledger_entry=[]),
        certificate(events=[EVENT, EVENT]),
        {"guarantee": {}},
    ]
    assert [certificates.check_inclusion(body, entries).holds for body in false] == [False] * len(
        false
    )
    assert not certificates.check_inclusion(certificate(), []).holds


def words(lines: list[bytes]) -> str:
    try:
        return str(verify(lines))
    except Broken as broken:
        return str(broken)


STRANGE: tuple[Any, ...] = (
    None,
    "",
    "x",
    "\u00e9",
    '"',
    "\x07",
    "\x7f",
    "\U0001f600",
    0,
    1,
    -1,
    "0",
    "01",
    [],
    {},
    True,
    1.5,
)


@pytest.mark.parametrize("way", ["quick"], indirect=True)
def test_the_quick_way_says_what_the_slow_way_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value of one entry is another, and all hashes and the head are made again: the same words
    come."""
    draw = random.Random(1)
    made = Writer()
    for account in ("acc_1", "acc_2"):
        made.write(account, "open")
        for number in range(3):
            made.life(account, f"{account}/{number}", "reserve", "data_touched")
            made.life(account, f"{account}/back {number}", "reserve", "release")
            made.write(account, "commit", f"{account}/{number}")
        made.write(account, "grant")
        made.life(account, f"{account}/last", "reserve", "data_touched", "commit")
    quick = []
    forged = []
    for _ in range(250):
        copied = copy.deepcopy(made)
        body = draw.choice(draw.choice(list(copied.bodies.values())))
        name = draw.choice(sorted(body))
        value = body[name]
        if isinstance(value, dict) and value and draw.random() < 0.7:
            key = draw.choice(sorted(value))
            body[name] = {**value, key: draw.choice((str(draw.randrange(10**9)), *STRANGE))}
        else:
            body[name] = draw.choice((*STRANGE, *made.bodies["acc_1"][draw.randrange(15)].values()))
        forged.append(copied.lines())
        quick.append(words(forged[-1]))
    slowly(monkeypatch)
    assert [words(lines) for lines in forged] == quick
    assert (
        10 < sum(text.startswith("Verified") for text in quick) < 100
    )  # a time, an actor: nothing that is checked


@pytest.mark.parametrize("way", ["quick"], indirect=True)
def test_usual_entries_go_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Writer()
    made.write("acc_1", "open")
    for number in range(3):
        made.life("acc_1", f"job_{number}", "reserve", "data_touched", "commit")
    slow = []
    read = entries.read_entry
    monkeypatch.setattr(
        verification, "read_entry", lambda line, account: slow.append(line) or read(line, account)
    )
    lines = made.lines()
    assert verify(lines).entries == 10
    assert slow == [lines[1], lines[-1]]  # the one that opens, and the one that the head names
