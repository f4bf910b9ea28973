"""Attacks on sources: budgets begun anew, many at once, blocks that go while they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.usecases import erasure
from discreet.usecases.services import open_services
from discreet_client.client import ApiError, Client
from discreet_client.errors import BudgetExhausted, Conflict, NotFound
from tests import bodies
from tests.api.test_sources import balances, create, day, filled, job, solved, trips
from tests.conftest import Installation
from tests.reliability.chains import superuser_url

T = TypeVar("T")


def at_once(
    running: Installation, key: str, works: Sequence[Callable[[Client], T]]
) -> list[T | ApiError]:
    """What each of these comes to, on connections of their own."""

    def run(work: Callable[[Client], T]) -> T | ApiError:
        with running.client(key) as client:
            try:
                return work(client)
            except ApiError as error:
                return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def block_of(client: Client, source: dict[str, Any], name: str) -> dict[str, Any]:
    return next(
        dict(one)
        for one in client.sources.get(source["id"])["blocks"] or []
        if one["block"] == name
    )


def test_an_erased_content_under_another_label_has_no_new_budget(service: Installation) -> None:
    """What was released of ward 1 counts for the same records wherever they are registered."""
    with service.client(service.owner_of("erased labels")) as client:
        source = create(client, by="label")
        client.sources.add(source["id"], "mistaken", trips(None, 41))
        client.delete_dataset(block_of(client, source, "mistaken")["dataset"])
        first = client.sources.add(
            source["id"], "ward 1", trips(None, 41)
        )  # nothing was spent on it: it may move
        client.sources.add(source["id"], "mistaken", trips(None, 42))
        solved(client, job(source, 0.9, blocks=["ward 1"]))
        client.delete_dataset(first["dataset"])
        with pytest.raises(Conflict, match="where something was spent on it already") as refused:
            client.sources.add(source["id"], "ward 2", trips(None, 41))
        assert refused.value.code == "content_known"
        again = client.sources.add(source["id"], "ward 1", trips(None, 41))
        assert (again["version"], again["account"]) == (2, first["account"])
        with pytest.raises(BudgetExhausted):
            client.submit(job(source, 0.9, blocks=["ward 1"]))
        assert [one["block"] for one in client.sources.get(source["id"])["blocks"] or []] == [
            "mistaken",
            "ward 1",
        ]


def test_blocks_that_come_at_once(api_only: Installation) -> None:
    """One account a block whoever comes first, a version for each content, and one for the same
    content."""
    key = api_only.owner_of("at once")
    with api_only.client(key) as client:
        source = create(client)

        def add(count: int) -> Callable[[Client], Any]:
            return lambda other: other.sources.add(source["id"], day(1), trips(day(1), count))

        made = at_once(api_only, key, [add(count) for count in (1, 2, 3, 4)])
        assert not [one for one in made if isinstance(one, ApiError)]
        assert sorted(one["version"] for one in made if not isinstance(one, ApiError)) == [
            1,
            2,
            3,
            4,
        ]
        assert len({one["account"] for one in made if not isinstance(one, ApiError)}) == 1

        same = at_once(
            api_only,
            key,
            [lambda other: other.sources.add(source["id"], day(2), trips(day(2), 9))] * 4,
        )
        assert len({str(one) for one in same}) == 1
        assert block_of(client, source, day(2))["version"] == 1
        assert len(client.budgets()) == 2
    with api_only.http(key) as http:
        changes = http.get("/v1/audit-log").json()["changes"]
    noted = [(one["action"], one["details"].get("block")) for one in changes]
    assert noted.count(("source.create", None)) == 1
    assert noted.count(("dataset.register", day(1))) == 4
    assert noted.count(("dataset.register", day(2))) == 1
    # The same content again: it stays for longer.
    assert noted.count(("dataset.retention", None)) == 3


def test_jobs_over_ranges_that_overlap_come_at_once(api_only: Installation) -> None:
    """Each block is charged for the jobs that were accepted on it, and no more than it has; none
    waits for another for ever, in whatever order they name blocks; and one Idempotency-Key is one
    job."""
    key = api_only.owner_of("overlapping")
    with api_only.client(key) as client:
        source = filled(client, 4)
        ranges = [(1, 2), (2, 3), (3, 4), (1, 4)] * 2

        def submit(first: int, last: int) -> Callable[[Client], Any]:
            names = [day(number) for number in range(first, last + 1)]
            return lambda other: other.submit(job(source, 0.25, blocks=names[::-1]))

        made = at_once(api_only, key, [submit(*one) for one in ranges])
        accepted = [
            one
            for one, answer in zip(ranges, made, strict=True)
            if not isinstance(answer, ApiError)
        ]
        assert {type(one) for one in made if isinstance(one, ApiError)} <= {BudgetExhausted}
        counts = {n: sum(first <= n <= last for first, last in accepted) for n in range(1, 5)}
        assert balances(client, source) == {day(n): 0.25 * count for n, count in counts.items()}
        assert max(counts.values()) <= 4

        other = filled(client, 2)
        body = job(other, 0.1, last=2)
        one_key = [lambda theirs: theirs.submit(body, idempotency_key="one key")["id"]] * 6
        kept = at_once(api_only, key, one_key)
        assert {one.code for one in kept if isinstance(one, ApiError)} <= {"request_in_flight"}
        assert len({one for one in kept if not isinstance(one, ApiError)}) == 1
        assert balances(client, other) == {day(1): 0.1, day(2): 0.1}


def test_a_block_that_a_job_waits_for_stays(api_only: Installation) -> None:
    with api_only.client(api_only.owner_of("needed")) as client:
        source = filled(client, 3)
        version = block_of(client, source, day(2))["dataset"]
        made = client.submit(job(source, 0.5, last=3))
        with pytest.raises(Conflict) as refused:
            client.delete_dataset(version)
        assert refused.value.code == "dataset_in_use"
        client.sources.add(source["id"], day(2), trips(day(2), 700))
        with pytest.raises(Conflict):  # the older version too, which nobody but this job reads
            client.delete_dataset(version)
        client.cancel(made["id"])
        assert balances(client, source) == dict.fromkeys(map(day, (1, 2, 3)), 0.0)
        client.delete_dataset(version)
        # Neither by its version, nor as if it were a dataset, nor as data of somebody else's
        # account.
        for problem in (
            job(source, blocks=[day(2)], versions=[version]),
            job(source, blocks=version),
        ):
            with pytest.raises(NotFound):
                client.submit(problem)
        assert balances(client, source) == dict.fromkeys(map(day, (1, 2, 3)), 0.0)


def test_jobs_over_blocks_keep_their_own_contents_and_no_others(
    api_only: Installation, postgres: EmbeddedPostgres
) -> None:
    """A job over blocks that waits, of whatever tenant, holds up the erasure of nothing that it
    does not read."""
    with api_only.client(api_only.owner_of("forgetful")) as client:
        alone = client.register(bodies.dataset())["id"]
    with api_only.client(api_only.owner_of("holding up")) as client:
        source = filled(client, 2)
        waiting = client.submit(job(source, blocks=[day(1)]))
        read, unread = (block_of(client, source, day(number))["dataset"] for number in (1, 2))
        ids = [alone, read, unread]

        def erased() -> list[bool]:
            async def expire() -> None:
                async with open_services(api_only.settings) as services:
                    await erasure.expire(services)

            asyncio.run(expire())
            with psycopg.connect(superuser_url(postgres, api_only.settings)) as connection:
                rows = connection.execute(
                    "SELECT id, deleted_at IS NOT NULL FROM datasets WHERE id = ANY (%s)", [ids]
                )
                found = dict(rows.fetchall())
            return [found[one] for one in ids]

        with psycopg.connect(superuser_url(postgres, api_only.settings)) as connection:
            connection.execute(
                "UPDATE datasets SET expires_at = now() - interval '1 s' WHERE id = ANY (%s)", [ids]
            )
        assert erased() == [True, False, True]
        client.cancel(waiting["id"])
        assert erased() == [True, True, True]
