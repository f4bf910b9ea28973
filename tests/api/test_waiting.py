"""Shares of a source, lent over time, and jobs that wait: decided by whoever frees budget or by
time, in one order, and never overspent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet_client.client import Client
from discreet_client.errors import Conflict
from tests.api.test_sources import create, day, job, trips
from tests.conftest import Installation, eventually
from tests.dashboard.browsing import Browser
from tests.reliability.chains import check_chain, read_chains, superuser_url

_numbers = itertools.count(1)


class Team:
    """A tenant with an owner and two analysts, and a source that they share."""

    def __init__(self, service: Installation, url: str) -> None:
        self.url = url
        tenant = f"team {next(_numbers)}"
        self.owner_key = service.owner_of(tenant)
        self.owner = service.client(self.owner_key)
        with service.client(service.operator_key) as operator:
            self.ada, self.bo = (
                service.client(
                    operator.create_key(role="analyst", principal=name, tenant=tenant)["key"]
                )
                for name in ("ada", "bo")
            )

    def source(self, days: int = 1, **more: Any) -> dict[str, Any]:
        """Half of each block is Ada's and half Bo's, lent over ten days."""
        rule = {"shares": {"ada": 0.5, "bo": 0.5}, "lent_days": 10}
        source = create(self.owner, **{"rule": rule, **more})
        for number in range(1, days + 1):
            self.owner.sources.add(source["id"], day(number), trips(day(number), number))
        return source

    def later(self, days: float, source: dict[str, Any]) -> None:
        """As if all this had been so long ago."""
        with psycopg.connect(self.url) as connection:
            past = {"days": days, "source": source["id"]}
            for statement in (
                "UPDATE datasets SET created_at = created_at - %(days)s * interval '1 day' "
                "WHERE source_id = %(source)s",
                "UPDATE sources SET created_at = created_at - %(days)s * interval '1 day' "
                "WHERE id = %(source)s",
                "UPDATE job_waits SET until = until - %(days)s * interval '1 day', "
                "next_try = next_try - %(days)s * interval '1 day', "
                "not_before = not_before - %(days)s * interval '1 day' "
                "WHERE source_id = %(source)s",
            ):
                connection.execute(statement, past)

    def close(self) -> None:
        for client in (self.owner, self.ada, self.bo):
            client.close()


@contextmanager
def team_of(service: Installation, postgres: EmbeddedPostgres) -> Iterator[Team]:
    found = Team(service, superuser_url(postgres, service.settings))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def team(service: Installation, postgres: EmbeddedPostgres) -> Iterator[Team]:
    with team_of(service, postgres) as found:
        yield found


def ends(client: Client, job_id: str) -> dict[str, Any]:
    return dict(client.wait(job_id))


def test_a_share_is_its_owners_until_it_is_lent(team: Team, service: Installation) -> None:
    source = team.source(2)
    mine = job(source, 0.5, blocks=f"{day(1)}/{day(2)}")
    assert team.ada.plan(mine)["admitted"]
    assert ends(team.ada, team.ada.submit(mine)["id"])["state"] == "succeeded"
    # More than her share: not in three days, but in six of them 60 % of Bo's half are lent.
    more = job(source, 0.3, blocks=day(1))
    plan = team.ada.plan(more)
    assert not plan["admitted"]
    assert plan["waits"]["until"] is None
    with pytest.raises(Conflict, match="held for whose share it is") as refused:
        team.ada.submit(more)
    assert refused.value.code == "budget_held"
    patient = {**more, "wait": 7}
    planned = team.ada.plan(patient)
    assert planned["admitted"]
    made = team.ada.submit(patient)
    assert made["state"] == "waiting"
    assert made["waiting"]["block"] == day(1)
    assert made["waiting"]["not_before"][:13] == planned["waits"]["not_before"][:13]
    assert "Nothing is reserved" in made["waiting"]["detail"]
    assert team.ada.job(made["id"])["waiting"] == made["waiting"]
    block = next(iter(team.owner.sources.get(source["id"])["blocks"] or []))
    assert block["reserved"]["epsilon"] == 0
    # Bo has his half all the same, at once, and what is promised binds him no more than that.
    assert ends(team.bo, team.bo.submit(job(source, 0.2, blocks=day(1)))["id"])["state"] == (
        "succeeded"
    )
    with Browser.logged_in(service, team.owner_key) as browser:
        assert "waits for budget" in browser.get(f"/jobs/{made['id']}").text
    team.later(6.1, source)
    assert ends(team.ada, made["id"])["state"] == "succeeded"
    events = [said["state"] for name, said in team.ada.events(made["id"]) if name == "state"]
    assert events[:3] == ["queued", "waiting", "queued"]
