"""Shares of a source, lent over time, and jobs that wait: decided by whoever frees budget or by
time, in one order, and never overspent."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.installation.postgres import EmbeddedPostgres
from discreet_client.client import Client
from discreet_client.errors import BudgetExhausted, Conflict, Forbidden, InvalidInput, NotFound
from tests.api.test_sources import PUBLIC, create, day, job, trips
from tests.conftest import Installation
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
            self.ada_key, bo_key = (
                operator.create_key(role="analyst", principal=name, tenant=tenant)["key"]
                for name in ("ada", "bo")
            )
        self.ada, self.bo = service.client(self.ada_key), service.client(bo_key)

    def source(self, days: int = 1, **more: Any) -> dict[str, Any]:
        """Half of each block is Ada's and half Bo's, lent over ten days."""
        rule = {"shares": {"ada": 0.5, "bo": 0.5}, "lent_days": 10}
        said = {"rule": rule, **more}
        source = create(self.owner, **{name: value for name, value in said.items() if value})
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
                "next_try = next_try - %(days)s * interval '1 day' "
                "WHERE source_id = %(source)s",
            ):
                connection.execute(statement, past)

    def chains(self, source: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """The ledger of its blocks: one chain, after which their accounts are called."""
        blocks = self.owner.sources.get(source["id"])["blocks"] or []
        chains = read_chains(self.url)
        return [chains[name] for name in {one["account"].split(".")[0] for one in blocks}]

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
    with pytest.raises(Conflict, match="held for the owners of shares") as refused:
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


def test_cancelling_a_wait_is_free_and_lets_the_next_one_be_decided(team: Team) -> None:
    source = team.source()
    promised = team.ada.submit(job(source, 0.4, blocks=day(1)))
    assert ends(team.ada, promised["id"])["state"] == "succeeded"
    # Nothing waits that is larger than the own share, and of each analyst one job at a time.
    with pytest.raises(Conflict, match="more than one's own share"):
        team.ada.submit({**job(source, 0.55, blocks=day(1)), "wait": 9})
    waits = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 9})
    assert waits["state"] == "waiting"
    with pytest.raises(Conflict, match="one waits at a time"):
        team.ada.submit({**job(source, 0.2, blocks=day(1)), "wait": 9})
    answer = team.ada.cancel(waits["id"])
    assert (answer["state"], answer["charge"]) == ("cancelled", "none")
    assert team.ada.submit({**job(source, 0.2, blocks=day(1)), "wait": 9})["state"] == "waiting"
    assert sum(check_chain(rows).totals["epsilon"] for rows in team.chains(source)) == 4 * 10**8


def test_every_wait_ends_with_a_reason(team: Team) -> None:
    """Others spend their shares meanwhile: what was to be lent is gone, and the job is told so when
    its turn comes, at the latest by its end."""
    source = team.source()
    assert ends(team.ada, team.ada.submit(job(source, 0.5, blocks=day(1)))["id"])
    waits = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 8})
    assert waits["state"] == "waiting"
    assert ends(team.bo, team.bo.submit(job(source, 0.4, blocks=day(1)))["id"])["state"] == (
        "succeeded"
    )
    team.later(6.1, source)
    ended = ends(team.ada, waits["id"])
    assert (ended["state"], ended["error"]["code"]) == ("failed", "wait_spent")
    assert "nothing was reserved for it, and nothing charged" in ended["error"]["detail"]
    # Nothing is spent meanwhile of another one, but its blocks are gone.
    source = team.source()
    assert ends(team.ada, team.ada.submit(job(source, 0.5, blocks=day(1)))["id"])
    waits = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 8})
    with psycopg.connect(team.url) as connection:
        connection.execute(
            # Before any decision began that is under way: each goes by the time of its beginning.
            "UPDATE datasets SET expires_at = now() - interval '1 minute' WHERE source_id = %s",
            [source["id"]],
        )
    team.later(6.1, source)
    assert ends(team.ada, waits["id"])["error"]["code"] == "data_erased"


def test_a_wait_ends_early_where_no_time_helps_any_more(team: Team, service: Installation) -> None:
    """A rule that lends more slowly, and a smaller job that came later and is promised what is
    left: who waits is told as soon as that is known."""
    source = team.source()
    assert ends(team.ada, team.ada.submit(job(source, 0.5, blocks=day(1)))["id"])
    waits = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 8})
    team.owner.sources.set_rule(source["id"], {"shares": {"ada": 0.5, "bo": 0.5}, "lent_days": 99})
    assert ends(team.ada, waits["id"])["error"]["code"] == "wait_over"

    shares = {"shares": {"ada": 0.4, "bo": 0.3, "cy": 0.3}, "lent_days": 10}
    source = team.source(rule=shares)
    with service.client(team.owner.create_key(role="analyst", principal="cy")["key"]) as cy:
        for client, epsilon in ((team.ada, 0.4), (cy, 0.1)):
            spent = client.submit(job(source, epsilon, blocks=day(1)))["id"]
            assert ends(client, spent)["state"] == "succeeded"
        large = team.ada.submit({**job(source, 0.4, blocks=day(1)), "wait": 9})
        small = cy.submit({**job(source, 0.25, blocks=day(1)), "wait": 9})
        assert [large["state"], small["state"]] == ["waiting", "waiting"]
        team.owner.sources.set_rule(source["id"], {**shares, "lent_days": 11})
        assert ends(team.ada, large["id"])["error"]["code"] == "wait_overtaken"
        assert cy.job(small["id"])["state"] == "waiting"
        cy.cancel(small["id"])


def test_budget_that_comes_free_is_given_before_its_time(team: Team) -> None:
    source = team.source()
    assert ends(team.ada, team.ada.submit(job(source, 0.5, blocks=day(1)))["id"])
    waits = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 8})
    account = next(iter(team.owner.sources.get(source["id"])["blocks"] or []))["account"]
    team.owner.grant(account, epsilon=2, delta=0, reason="more for everybody")
    assert ends(team.ada, waits["id"])["state"] == "succeeded"
    # A rule that gives her more does so as well.
    waits = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 8})
    assert waits["state"] == "waiting"
    rule = {"shares": {"ada": 0.9, "bo": 0.1}, "lent_days": 10}
    assert team.owner.sources.set_rule(source["id"], rule)["version"] == 2
    assert team.owner.sources.set_rule(source["id"], rule)["version"] == 2
    assert ends(team.ada, waits["id"])["state"] == "succeeded"


def test_the_command_line_and_the_pages_say_why_a_job_waits(
    team: Team, service: Installation, tmp_path: Path
) -> None:
    def said(client: Client, *command: str) -> str:
        key = team.owner_key if client is team.owner else team.ada_key
        done = CliRunner().invoke(app, [*command, "--server", service.url, "--key", key])
        assert done.exit_code == 0, (done.stdout, done.stderr)
        return " ".join((done.stdout + done.stderr).split())

    name = f"Shared {next(_numbers)}"
    made = ["--kind", "routing", "--by", "day", "--epsilon", "1", "--public", json.dumps(PUBLIC)]
    shown = said(team.owner, "source", "create", name, *made, "--shares", "ada=0.2,bo=0.3")
    assert "ada 20 %, bo 30 %; lent over 28 days" in shown
    shares = ("--shares", "ada=0.5, bo=0.5", "--lent-days", "10")
    assert "ada 50 %, bo 50 %; lent over 10 days" in said(
        team.owner, "source", "share", name, *shares
    )
    for wrong in ([], ["--shares", "ada"], ["--shares", "ada=.1,ada=.2"]):
        refused = CliRunner().invoke(
            app, ["source", "share", name, *wrong, "--server", service.url, "--key", team.owner_key]
        )
        assert refused.exit_code == 2, refused.stdout
    source = next(one for one in team.owner.sources.list() if one["name"] == name)
    team.owner.sources.add(source["id"], day(1), trips(day(1)))
    assert ends(team.ada, team.ada.submit(job(source, 0.5, blocks=day(1)))["id"])
    asked = tmp_path / "job.json"
    asked.write_text(json.dumps({**job(source, 0.2, blocks=day(1)), "wait": 5}))
    assert "would wait for budget: what is left of block 2026-10-01" in said(
        team.ada, "plan", str(asked)
    )
    told = said(team.ada, "submit", str(asked), "--anew")
    assert "it waits for budget" in told
    job_id = told.split()[0]
    assert "waits for budget: not before" in said(team.ada, "jobs")
    with Browser.logged_in(service, team.owner_key) as browser:
        page = browser.get(f"/sources/{source['id']}").text
        assert "Who may spend" in page
        assert "50 %" in page
        assert "Who waits" in page
        assert "Decided by" in page
    asked.write_text(json.dumps({**job(source, 0.4, blocks=day(1)), "wait": 1}))
    plan = CliRunner().invoke(
        app, ["plan", str(asked), "--server", service.url, "--key", team.ada_key]
    )
    assert plan.exit_code == 1
    assert "would be refused: what is left of block" in " ".join(plan.stdout.split())
    team.ada.cancel(job_id)


def test_one_account_of_all_blocks_is_shared_as_well(team: Team) -> None:
    source = team.source(2, cap_of="source")
    assert ends(team.ada, team.ada.submit(job(source, 0.5, last=2))["id"])["state"] == "succeeded"
    waits = team.ada.submit({**job(source, 0.25, last=1), "wait": 6})
    assert waits["state"] == "waiting"
    assert waits["waiting"] is not None
    assert waits["waiting"]["block"] is None
    assert ends(team.bo, team.bo.submit(job(source, 0.25, last=2))["id"])["state"] == "succeeded"
    team.later(5.1, source)
    assert ends(team.ada, waits["id"])["state"] == "succeeded"


def test_a_first_rule_counts_what_was_spent_before(team: Team) -> None:
    source = team.source(rule=None)
    assert ends(team.ada, team.ada.submit(job(source, 0.5, blocks=day(1)))["id"])
    team.owner.sources.set_rule(source["id"], {"shares": {"ada": 0.5, "bo": 0.5}})
    with pytest.raises(Conflict, match="held for the owners of shares"):
        team.ada.submit(job(source, 0.1, blocks=day(1)))
    assert ends(team.bo, team.bo.submit(job(source, 0.5, blocks=day(1)))["id"])["state"] == (
        "succeeded"
    )


def test_who_has_no_place_to_wait(
    team: Team, service: Installation, postgres: EmbeddedPostgres
) -> None:
    """Sources without a rule, datasets, and what no time would help."""
    plain = create(team.owner)
    team.owner.sources.add(plain["id"], day(1), trips(day(1)))
    with pytest.raises(InvalidInput, match="source with a rule"):
        team.ada.submit({**job(plain, 0.3, blocks=day(1)), "wait": 1})
    for wait, code in ((0, None), *((one, "invalid_input") for one in (31, 1e9, -1, "7"))):
        body = {**job(plain, 0.1, blocks=day(1)), "wait": wait}
        if code is None:
            assert team.ada.submit(body)["state"] == "queued"
        else:
            with pytest.raises(InvalidInput):
                team.ada.submit(body)
    source = team.source()
    with pytest.raises(BudgetExhausted) as refused:
        team.ada.submit({**job(source, 1.1, blocks=day(1)), "wait": 20})
    assert refused.value.binding is not None
    assert refused.value.binding["block"] == day(1)
    # A cap on the analyst binds at once: no time frees it.
    team.owner.set_cap(scope="principal", principal="bo", epsilon=0.1, delta=0, reason="a little")
    with pytest.raises(BudgetExhausted):
        team.bo.submit({**job(source, 0.2, blocks=day(1)), "wait": 20})
    for rule in (
        {"shares": {"ada": 0.6, "bo": 0.5}},
        {"shares": {}},
        {"shares": {"ada": 0}},
        {"shares": {"ada": 0.1}, "lent_days": 0},
        {"shares": {"ada": 0.0000001}},
    ):
        with pytest.raises(InvalidInput):
            team.owner.sources.set_rule(source["id"], rule)
    with pytest.raises(Forbidden):
        team.ada.sources.set_rule(source["id"], {"shares": {"ada": 1}})
    with team_of(service, postgres) as others, pytest.raises(NotFound):
        others.owner.sources.set_rule(source["id"], {"shares": {"ada": 1}})
    # The same analysts' names elsewhere are other people: nothing of it binds there.
    with team_of(service, postgres) as others:
        own = others.source()
        assert others.ada.plan(job(own, 0.5, blocks=day(1)))["admitted"]


def test_two_who_wait_for_one_budget_at_once_and_a_cancellation_at_the_moment_of_the_grant(
    team: Team,
) -> None:
    """Many at once: what is granted never passes the cap, everybody's share is there, and each ends
    one way."""
    source = team.source(3)
    whole = f"{day(1)}/{day(3)}"

    def ask(number: int) -> dict[str, Any]:
        client = (team.ada, team.bo)[number % 2]
        try:
            return dict(client.submit({**job(source, 0.11, blocks=whole), "wait": 9}))
        except Conflict as error:
            return {"state": error.code}

    with ThreadPoolExecutor(12) as pool:
        asked = list(pool.map(ask, range(24)))
        states = [one["state"] for one in asked]
        assert states.count("waiting") <= 2
        assert set(states) <= {"queued", "waiting", "budget_held", "budget_exhausted"}
        waits = [one["id"] for one in asked if one["state"] == "waiting"]
        team.later(8.9, source)
        cancelled = list(pool.map(lambda one: _cancelled(team.owner, one), waits))
    assert set(cancelled) <= {"done", "requested", "too_late", "job_ended"}
    for one in asked:
        if "id" in one:
            ended = team.owner.wait(one["id"])
            assert ended["state"] == "succeeded" or one["id"] in waits, ended
    for rows in team.chains(source):
        sums = check_chain(rows)
        assert sums.totals["epsilon"] <= 10**9
        for life in sums.lives.values():
            assert life in (["reserve", "data_touched", "commit"], ["reserve", "release"])


def _cancelled(client: Client, job_id: str) -> str:
    try:
        return str(client.cancel(job_id)["cancel"])
    except Conflict as error:
        return str(error.code)
