"""The transparency log over HTTP: everybody can build the tree, and nobody learns anything from it;
proofs stand with certificates."""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from benchmarks.log import bytes_of, proofs_of
from discreet.ledger import certificates
from discreet.ledger.checkpoints import (
    Verifier,
    hashes_text,
    joined,
    read_checkpoint,
    read_joined,
    sign_checkpoint,
)
from discreet.ledger.proofs import check_proofs
from discreet.ledger.tree import (
    ENTRIES,
    Tile,
    Tree,
    check_consistency,
    leaf_hash,
    tile_path,
    tiles_of,
    width,
)
from discreet.settings import Settings
from discreet.storage import log
from discreet.storage.database import SYSTEM, libpq_url
from discreet.usecases import transparency
from discreet.usecases.services import Services, open_services
from tests import bodies
from tests.conftest import Installation
from tests.log.test_tree import root_of
from tests.storage.test_rows import fill


@pytest.fixture(scope="module")
def finished(service: Installation) -> dict[str, Any]:
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        client.wait(job["id"])
        return client.result(job["id"])


def everybody(service: Installation) -> httpx.Client:
    """Somebody without a key."""
    return httpx.Client(base_url=f"{service.url}/v1/log", timeout=60, trust_env=False)


def read_tiles(stranger: httpx.Client, size: int, leaves: range) -> dict[Tile, list[bytes]]:
    found = {}
    for place in tiles_of(size, leaves):
        count = width(place, size)
        answer = stranger.get(f"/tile/{tile_path(place, count)}")
        assert answer.status_code == 200, answer.text
        assert "immutable" in answer.headers["cache-control"]
        assert len(answer.content) == 32 * count
        found[place] = [answer.content[at : at + 32] for at in range(0, 32 * count, 32)]
    return found


def test_everybody_can_build_the_tree_and_it_names_nobody(
    service: Installation, finished: dict[str, Any]
) -> None:
    with everybody(service) as stranger, service.client() as owner:
        note = stranger.get("/checkpoint")
        assert note.headers["cache-control"] == "no-cache"
        checkpoint = read_checkpoint(note.text)
        key = base64.b64decode(owner.ledger_head()["public_key"])
        assert checkpoint.signed_by(Verifier(checkpoint.origin, key))
        size = checkpoint.size
        tiles = read_tiles(stranger, size, range(size))
        assert Tree(size, tiles).root() == checkpoint.root
        shown = []
        for number in range((size + 255) // 256):
            count = width((0, number), size)
            bundle = stranger.get(f"/tile/{tile_path((ENTRIES, number), count)}").content
            assert {bundle[at : at + 2] for at in range(0, len(bundle), 34)} == {b"\0\x20"}
            shown += [bundle[at + 2 : at + 34] for at in range(0, len(bundle), 34)]
        assert [leaf_hash(one) for one in shown] == [
            one for number in range(len(tiles)) for one in tiles.get((0, number), [])
        ]
        own = {bytes.fromhex(entry["hash"]) for entry in finished["certificate"]["ledger_entry"]}
        assert own
        assert not own & set(shown)
        assert not {hashlib.sha256(one).digest() for one in own} & set(shown)
        for account in {entry["account"] for entry in finished["certificate"]["ledger_entry"]}:
            assert account not in note.text


@pytest.mark.parametrize(
    "path",
    [
        "0/999",
        "0/000.p/256",
        "0/000.p/0",
        "9/000",
        "99/000",
        "0/0",
        "entries/x001/000",
        "0/x000/000",
        "0/000.p/255/..",
        "",
    ],
)
def test_tiles_that_are_not_there_are_not_found(service: Installation, path: str) -> None:
    with everybody(service) as stranger:
        answer = stranger.get(f"/tile/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), answer.text


def test_a_certificate_carries_its_proofs(service: Installation, finished: dict[str, Any]) -> None:
    body = finished["certificate"]
    assert certificates.is_signed(body)
    held = {one.name: one.holds for one in check_proofs(body)}
    assert held == {"log": True, "witnesses": None}
    with service.client() as owner:
        again = owner.result(finished["job"]["id"])
        assert again["certificate"] == body, "the proof stays what it is when the log grows"
        verdict = owner.verify_certificate(body)
        assert {one["name"]: one["holds"] for one in verdict["checks"]}["log"] is True
    assert bytes_of(body["proofs"]) < 2000


@pytest.fixture(scope="module")
def of_three(service: Installation) -> dict[str, Any]:
    """The certificate of a job that its dataset, its tenant and its principal pay."""
    with service.client(service.owner_of("of-three")) as owner:
        dataset = owner.register(bodies.dataset())
        owner.set_cap(scope="tenant", epsilon=5, delta=0, reason="the year's")
        owner.set_cap(scope="principal", principal="owner", epsilon=5, delta=0, reason="hers")
        job = owner.submit(bodies.job(dataset["id"]))
        owner.wait(job["id"])
        found: dict[str, Any] = owner.result(job["id"])["certificate"]
        verdict = owner.verify_certificate(found)
    assert verdict["valid"], verdict
    assert len(found["ledger_entry"]) == 3
    return found


def test_one_proof_of_several_accounts_is_small(of_three: dict[str, Any]) -> None:
    """As it would be in a log of a million entries or ten, where its own lie side by side as one
    transaction writes them, with two witnesses: below 4 kB beside its events. Were there others in
    between, each doubling of the distance would be one more node for each but the first."""
    witnesses = [(f"witness-{name}.example", Ed25519PrivateKey.generate()) for name in ("a", "b")]
    hashes = [entry["hash"] for entry in of_three["ledger_entry"]]
    key = Ed25519PrivateKey.generate()
    for size in (1_000_000, 10_000_000):
        sizes = []
        for first, step in ((size // 3, 1), (size - 3, 1), (size // 3, 1024)):
            numbers = range(first, first + 3 * step, step)
            body = {**of_three, "proofs": proofs_of(hashes, numbers, size, key, witnesses)}
            assert check_proofs(body)[0].holds is None  # of a key that the certificate lacks
            assert check_proofs(body, certificates.public_key(key))[0].holds
            sizes.append(bytes_of({name: one for name, one in body.items() if name != "events"}))
        side_by_side, newest, apart = sizes
        assert max(side_by_side, newest) < 4000
        assert apart - side_by_side < 2 * 11 * 43


def changed(body: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    other = copy.deepcopy(body)
    place = other
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return other


def test_proofs_that_were_changed_do_not_hold(finished: dict[str, Any]) -> None:
    body = finished["certificate"]
    entry, proofs = body["ledger_entry"][0], body["proofs"]
    leaf, hashes = proofs["leaves"][0], read_joined(proofs["nodes"])
    assert len(set(hashes)) > 1
    nobody = base64.b64encode(bytes(16)).decode()
    checkpoint = read_checkpoint(proofs["checkpoint"])
    forged = checkpoint.note.replace(f"\n{checkpoint.size}\n", f"\n{checkpoint.size + 1}\n")
    wrong = [
        changed(body, "ledger_entry", 0, to={**entry, "hash": "00" * 32}),
        changed(body, "ledger_entry", to=[entry, entry]),
        changed(body, "proofs", "leaves", 0, "salt", to=nobody),
        changed(body, "proofs", "leaves", 0, "number", to=leaf["number"] + 1),
        changed(body, "proofs", "leaves", 0, "number", to=True),
        changed(body, "proofs", "leaves", 0, "account", to=entry["account"]),
        changed(body, "proofs", "leaves", to=[]),
        changed(body, "proofs", "leaves", to=[leaf, leaf]),
        changed(body, "proofs", "leaves", to=None),
        changed(body, "proofs", "nodes", to=nobody),
        changed(body, "proofs", "nodes", to=joined([*hashes, bytes(32)])),
        changed(body, "proofs", "nodes", to=joined(hashes[:-1])),
        changed(body, "proofs", "nodes", to=joined(hashes[::-1])),
        changed(body, "proofs", "nodes", to=joined(hashes * 100_000)),
        changed(body, "proofs", "nodes", to=hashes_text(hashes)),
        changed(body, "proofs", "nodes", to=None),
        changed(body, "proofs", "entries", to=[]),
        changed(body, "proofs", "checkpoint", to=forged),
        changed(body, "proofs", "checkpoint", to=7),
        changed(body, "proofs", to=None),
        changed(body, "proofs", to={"checkpoint": proofs["checkpoint"], "entries": []}),
    ]
    assert [check_proofs(one)[0].holds for one in wrong] == [False] * len(wrong)
    unproven = {name: value for name, value in body.items() if name != "proofs"}
    assert [(one.name, one.holds) for one in check_proofs(unproven)] == [("log", None)]
    assert certificates.is_signed(unproven)


def test_a_log_that_somebody_else_has_signed_is_said(finished: dict[str, Any]) -> None:
    """Whoever makes a tree of his own around a certificate's entry has to sign it with the
    service's key."""
    body = finished["certificate"]
    true = read_checkpoint(body["proofs"]["checkpoint"])
    signed = sign_checkpoint(true.origin, true.size, true.root, Ed25519PrivateKey.generate())
    assert check_proofs(changed(body, "proofs", "checkpoint", to=signed.note))[0].holds is None
    unnamed = true.note.replace("— ", "— not-", 1)
    assert check_proofs(changed(body, "proofs", "checkpoint", to=unnamed))[0].holds is None


def run(settings: Settings, work: Any) -> Any:
    async def go() -> Any:
        async with open_services(settings) as services:
            return await work(services)

    return asyncio.run(go())


MANY = """INSERT INTO ledger_entries
    SELECT 'acc_one', 2 + n, 'one', 'grant', NULL, '{}', sha256(n::text::bytea), '', '{}', '{}',
      '{}', '{}', now()
    FROM generate_series(1, 66000) AS n"""
"""Lines that no ledger would have; only their hashes are looked at here."""


def test_trees_of_several_levels_are_what_their_definition_says(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database keeps roots of subtrees as it goes, in steps of any width; each checkpoint's
    root is that of all of its leaves, and each begins with the one before."""
    monkeypatch.setattr(transparency, "BATCH", 11_111)

    async def work(services: Services) -> None:
        await fill(services.database)
        assert settings.migration_database_url is not None
        with psycopg.connect(libpq_url(settings.migration_database_url)) as owner:
            owner.execute("SELECT set_config('discreet.tenant', 'one', false)")
            owner.execute(MANY)
        await transparency.integrate(services)
        async with services.database.transaction(SYSTEM) as connection:
            kept = (
                await connection.execute(
                    text("SELECT size, root FROM log_checkpoints ORDER BY size")
                )
            ).all()
            shown = await log.commitments(connection, 0, 100_000)
            size = len(shown)
            tiles = await log.tiles(connection, tiles_of(size, [one.size for one in kept]), size)
            # a checkpoint's own nodes lie left of its size
            tiles |= await log.tiles(
                connection, {t for one in kept for t in tiles_of(size, [one.size - 1])}, size
            )
        assert [one.size for one in kept] == [
            *range(4 + 11_111, size, 11_111),
            size,
        ]  # `fill` took in four
        tree = Tree(size, tiles)
        for one in kept:
            root = bytes(one.root)
            assert root == root_of(shown[: one.size]) == tree.root(one.size)
            check_consistency(one.size, size, root, tree.root(), tree.consistency(one.size))

    run(settings, work)


def test_many_at_once_take_every_entry_in_once(settings: Settings) -> None:
    """Processes of the API integrate at the same time while ledgers are written: no number is left
    out or used twice, and each chain's entries come in order."""

    async def work(services: Services) -> tuple[int, list[Any], list[int]]:
        await fill(services.database)
        async with services.database.transaction(SYSTEM) as connection:
            before = int(
                (await connection.execute(text("SELECT count(*) FROM ledger_entries"))).scalar_one()
            )
        await asyncio.gather(*(transparency.integrate(services) for _ in range(6)))
        async with services.database.transaction(SYSTEM) as connection:
            query = "SELECT number, account_id, seq FROM log_leaves ORDER BY number"
            rows = (await connection.execute(text(query))).all()
            sizes = (
                (await connection.execute(text("SELECT size FROM log_checkpoints ORDER BY size")))
                .scalars()
                .all()
            )
        note = read_checkpoint(await transparency.checkpoint(services))
        async with services.database.transaction(SYSTEM) as connection:
            tree = Tree(
                before, await log.tiles(connection, tiles_of(before, range(before)), before)
            )
        assert (note.size, note.root) == (before, tree.root())
        return before, list(rows), list(sizes)

    before, rows, sizes = run(settings, work)
    assert [row.number for row in rows] == list(range(before))
    assert len({(row.account_id, row.seq) for row in rows}) == before
    for account in {row.account_id for row in rows}:
        seqs = [row.seq for row in rows if row.account_id == account]
        assert seqs == sorted(seqs)
    assert sizes[-1] == before


def test_leaves_and_checkpoints_cannot_be_written_or_changed(settings: Settings) -> None:
    async def work(services: Services) -> None:
        await fill(services.database)
        await transparency.integrate(services)
        for statement in (
            "INSERT INTO log_leaves VALUES (99, 'one', 'acc_one', 1, '', '')",
            "UPDATE log_leaves SET salt = ''",
            "DELETE FROM log_leaves",
            "TRUNCATE log_leaves",
            "DELETE FROM log_pending",
            "INSERT INTO log_nodes VALUES (1, 0, '')",
            "INSERT INTO log_checkpoints VALUES (99, '', '')",
            "UPDATE log_checkpoints SET note = ''",
            "DELETE FROM log_cosignatures",
            "UPDATE log_origin SET origin = 'other'",
            "SELECT log_sign(99, '', '')",
            "SELECT log_append(ARRAY[NULL]::bytea[])",
        ):
            with pytest.raises(
                DBAPIError, match=r"permission denied|another size|at least 16 bytes"
            ):
                async with services.database.transaction(SYSTEM) as connection:
                    await connection.execute(text(statement))
        for statement in ("SELECT log_append('{}')", "SELECT log_sign(0, '', '')"):
            with pytest.raises(DBAPIError, match="of all tenants"):
                async with services.database.transaction("one") as connection:
                    await connection.execute(text(statement))

    run(settings, work)
