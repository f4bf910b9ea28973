"""Asking again what a job released, over HTTP on real processes: at price 0, and only what it did
not fix."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.cli.plans import offered
from discreet.cli.showing_answers import show_answer
from discreet.ledger.certificates import check, check_followed, is_signed
from discreet.problems import KINDS
from discreet_client.client import ApiError, Client
from discreet_client.errors import Conflict, InvalidInput, NotFound
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser


def solved(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    job = client.submit(body)
    ended = client.wait(job["id"])
    assert ended["state"] == "succeeded", ended
    return dict(client.result(job["id"]))


def again(first: dict[str, Any], body: dict[str, Any], **problem: Any) -> dict[str, Any]:
    """The body that asks a job again."""
    asked = {name: value for name, value in body["problem"].items() if name != "dataset"}
    return {"problem": {**asked, "release": first["job"]["id"], **problem}}


def entries(client: Client, account: str) -> list[str]:
    return [entry["kind"] for entry in client.entries(account)]


def pointers(refused: ApiError) -> list[str]:
    return [one.pointer for one in refused.errors]


def verified(*files: Path) -> list[dict[str, Any]]:
    """What `discreet certificate verify FILE --with FIRST …` says, without any server."""
    others = [part for file in files[1:] for part in ("--with", str(file))]
    done = CliRunner().invoke(app, ["certificate", "verify", str(files[0]), *others, "--json"])
    answer = json.loads(done.stdout)
    assert answer["valid"] == (done.exit_code == 0)
    return list(answer["checks"])


def test_another_objective_costs_nothing(service: Installation, tmp_path: Path) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"])
        assert client.plan(body)["reusable"] == []
        first = solved(client, body)
        charged, spent = (
            entries(client, dataset["account"]),
            client.budget(dataset["account"])["spent"],
        )
        asked = again(first, body, objective="user_equilibrium")
        plan = client.plan(asked)
        assert plan["price"] == {"epsilon": 0, "delta": 0, "rho": 0}
        assert plan["admitted"]
        assert plan["plan"]["events"] == []
        assert plan["plan"]["released_by"] == [first["job"]["id"]]
        assert plan["plan"]["noise"] == client.plan(body)["plan"]["noise"]
        second = solved(client, asked)
        assert second["job"]["release"] == [first["job"]["id"]]
        assert second["job"]["dataset"] is None
        assert second["result"]["demand"] == first["result"]["demand"]
        assert second["result"]["total_travel_time"] != first["result"]["total_travel_time"]
        assert entries(client, dataset["account"]) == charged
        assert client.budget(dataset["account"])["spent"] == spent
        # Both certificates, together and with no server.
        certificate = second["certificate"]
        assert is_signed(certificate)
        assert certificate["guarantee"]["type"] == "post_processing"
        assert certificate["guarantee"]["epsilon"] == 0
        assert certificate["events"] == certificate["ledger_entry"] == []
        (named,) = certificate["follows_from"]["releases"]
        assert named["release_digest"] == first["certificate"]["release_digest"]
        assert named["ledger_entry"] == first["certificate"]["ledger_entry"]
        assert named["guarantee"]["epsilon"] == 0.1
        files = [tmp_path / name for name in ("second.json", "first.json", "other.json")]
        other = solved(client, bodies.job(dataset["id"]))
        for file, answer in zip(files, (second, first, other), strict=True):
            file.write_text(json.dumps(answer))
        holds = {one["name"]: one["holds"] for one in verified(*files[:2])}
        assert (holds["release"], holds["signature"], holds["price"], holds["guarantee"]) == (
            True,
        ) * 4
        assert (holds["result"], holds["headline"], holds["names"]) == (True, True, None)
        # What stands beside the certified result and was changed.
        whole = client.job(second["job"]["id"])
        for at, value in (
            ("headline", "All is well"),
            ("problem", {**whole["problem"], "objective": "other"}),
        ):
            for job, kept in ((whole, True), ({**whole, at: value}, False)):
                files[1].write_text(json.dumps({**second, "job": job}))
                assert {one["name"]: one["holds"] for one in verified(files[1])}[at] is kept
        files[1].write_text(json.dumps(first))
        assert {one["name"]: one["holds"] for one in verified(files[0])}["release"] is None
        assert {one["name"]: one["holds"] for one in verified(files[0], files[2])}[
            "release"
        ] is False
        forged = copy.deepcopy(first)
        forged["certificate"]["release_digest"] = other["certificate"]["release_digest"]
        files[1].write_text(json.dumps(forged))
        assert {one["name"]: one["holds"] for one in verified(*files[:2])}["release"] is False
        verdict = client.verify_certificate(certificate, result=second["result"])
        assert verdict["valid"]
        assert [
            one["holds"] for one in verdict["checks"] if one["name"] in ("release", "inclusion")
        ] == [True] * 3
        # Who asks the first question again is told, and of the answer is asked what the first job
        # released.
        assert client.plan(body)["reusable"] == [other["job"]["id"], first["job"]["id"]]
        third = solved(client, again(second, body, latency={"type": "bpr", "b": 0.15, "power": 4}))
        assert third["job"]["release"] == [first["job"]["id"]]
        assert third["certificate"]["follows_from"]["releases"] == [named]
        offered = client.submit(body)
        assert offered["reusable"][:2] == [other["job"]["id"], first["job"]["id"]]
        client.wait(offered["id"])


def test_a_release_is_figures_for_plans_and_rehearsals(service: Installation) -> None:
    """Of a later dataset of the same shape too; what has no release, is of another kind or shape,
    or is another tenant's, is refused by name."""
    with service.client() as client:
        first = solved(client, bodies.job(client.register(bodies.dataset())["id"]))
        around = first["job"]["id"]
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"])
        accuracy = {"quantity": "total_travel_time", "within": "5%", "around": around}
        asked = {**body, "privacy": {"accuracy": accuracy}}
        plan = client.plan(asked)
        says = plan["plan"]["advice"][0]
        assert (
            f"if the data are as {around} released them. Eight of ten simulated data needed" in says
        )
        with pytest.raises(InvalidInput, match="POST /v1/plans"):
            client.submit(asked)
        answer = client.rehearse(body, epsilon=1, around=around, progress=False)
        assert answer["data"].startswith(f"synthetic, made of what {around} released, ")
        assert f"made of what {around} released" in answer.certificate["assumptions"][0]
        assert answer.document["certificate"]["guarantee"]["type"] == "none"
        assert entries(client, dataset["account"]) == ["open"]
        (size,) = (row["size"] for row in answer["rows"] if row["quantity"] == "demand")
        assert size == pytest.approx(np.mean(first["result"]["demand"]), rel=0.05)
        kept = client.job(answer.document["job"]["id"])["problem"]["around"]
        assert kept.keys() == {"job", "problem", "public", "plan"}  # and nothing that was released

        other = copy.deepcopy(KINDS["multi_agent"].example())
        KINDS["multi_agent"].vary(other["problem"]["dataset"]["content"], 902)
        unlike = {**other["problem"], "dataset": client.register(other["problem"]["dataset"])["id"]}
        multi = solved(client, {**other, "problem": unlike})
        large = client.register(bodies.dataset(zones=4))["id"]
        for job_id, at, raised, says in (
            ("job_nobody", dataset["id"], NotFound, "there is no job job_nobody"),
            (
                answer.document["job"]["id"],
                dataset["id"],
                InvalidInput,
                "is of kind rehearsal, not routing",
            ),
            (
                multi["job"]["id"],
                dataset["id"],
                InvalidInput,
                "is of kind multi_agent, not routing",
            ),
            (around, large, InvalidInput, "a dataset with different zones than this one"),
        ):
            problem = bodies.job(at)["problem"]
            with pytest.raises(raised, match=says) as refused:
                client.plan(
                    {"problem": problem, "privacy": {"accuracy": {**accuracy, "around": job_id}}}
                )
            assert pointers(refused.value) == ["/privacy/accuracy/around"]
            with pytest.raises(raised, match=says) as refused:
                client.rehearse(problem, around=job_id, progress=False)
            assert pointers(refused.value) == ["/around"]
        with pytest.raises(InvalidInput, match="does not show how the data are") as refused:
            client.rehearse(unlike, around=multi["job"]["id"], progress=False)
        assert pointers(refused.value) == ["/around"]
        late = client.submit(body)
        client.cancel(late["id"])
        if client.wait(late["id"])["state"] == "cancelled":
            with pytest.raises(Conflict) as conflict:
                client.rehearse(body, around=late["id"], progress=False)
            assert conflict.value.code == "no_release"
        with service.client(service.operator_key) as operator:
            operator.create_tenant("elsewhere around")
        with service.client(service.key_of("owner", "elsewhere around")) as stranger:
            own = stranger.register(bodies.dataset())["id"]
            with pytest.raises(NotFound):
                stranger.rehearse(bodies.job(own), around=around, progress=False)
            with pytest.raises(NotFound):
                stranger.plan({**asked, "problem": {**body["problem"], "dataset": own}})


def test_a_mark_that_says_otherwise_does_not_hold(service: Installation) -> None:
    """Nothing of the section can be changed beside the first certificate, and nothing of the
    guarantee."""
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"])
        first = solved(client, body)["certificate"]
        second = solved(client, again({"job": {"id": first["job"]}}, body))["certificate"]
    assert all(one.holds for one in [*check(second), *check_followed(second, [first])])
    (open_one,) = check_followed(second, [])
    assert open_one.holds is None
    assert open_one.detail.endswith(" was not given (--with FILE)")
    for name in ("release_digest", "guarantee", "price", "ledger_entry", "public_key"):
        changed = copy.deepcopy(second)
        changed["follows_from"]["releases"][0][name] = None
        assert [one.holds for one in check_followed(changed, [first])] == [False], name
    assert [one.holds for one in check_followed({**second, "follows_from": {}}, [first])] == [False]


def test_what_was_fixed_is_refused_by_name(service: Installation) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"], max_norm_per_person=None)
        job = client.submit(body)
        early = {"job": job}
        if client.job(job["id"])["state"] in ("queued", "running"):
            with pytest.raises(Conflict) as refused:
                client.plan(again(early, body))
            assert refused.value.code == "no_release"
        client.wait(job["id"])
        first = client.result(job["id"])
        with pytest.raises(Conflict) as refused:
            client.submit(again(first, body, method="counts", regularization=1.0))
        assert refused.value.code == "release_differs"
        assert pointers(refused.value) == ["/problem/method", "/problem/regularization"]
        for extra, pointer in (({"privacy": {"epsilon": 1}}, "/privacy"), ({"seed": 1}, "/seed")):
            with pytest.raises(InvalidInput) as invalid:
                client.submit({**again(first, body), **extra})
            assert pointers(invalid.value) == [pointer]
        both = again(first, body, dataset=dataset["id"])
        neither = {
            "problem": {
                name: value
                for name, value in both["problem"].items()
                if name not in ("dataset", "release")
            }
        }
        twice = again(first, body, release=[first["job"]["id"]] * 2)
        for wrong, pointer in (
            (both, "/problem/release"),
            (neither, "/problem/dataset"),
            (twice, "/problem/release"),
        ):
            with pytest.raises(InvalidInput) as invalid:
                client.plan(wrong)
            assert pointers(invalid.value) == [pointer]
        with pytest.raises(NotFound) as absent:
            client.plan(again(first, body, release=["job_none"]))
        assert pointers(absent.value) == ["/problem/release/0"]
        with service.client(service.operator_key) as operator:
            operator.create_tenant("elsewhere again")
        with service.client(service.key_of("owner", "elsewhere again")) as stranger:
            with pytest.raises(NotFound) as absent:
                stranger.plan(again(first, body))
            assert pointers(absent.value) == ["/problem/release"]


def test_an_offer_of_mostly_noise_says_so(
    service: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the plan, on the page and in commands; the list of jobs has a mark, for who may see
    results."""
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"])
        lost = solved(client, bodies.job(dataset["id"], 1e-5))["job"]["id"]
        offer = client.plan(body)
        assert (offer["reusable"], offer["reusable_noise"]) == ([lost], [lost])
        good = solved(client, {**bodies.job(dataset["id"], 0.4), "name": "Toll or no toll"})["job"][
            "id"
        ]
        both = client.plan(body)
        listed = {job["id"]: job for job in client.jobs()["jobs"]}
        assert [listed[one].get("mostly_noise") for one in (lost, good)] == [True, None]
        assert [listed[one].get("name") for one in (lost, good)] == [None, "Toll or no toll"]
        assert listed[good]["dataset_name"] == dataset["name"]
        assert "simulation" not in listed[good]
        looked_up = client.job(good)
        assert (
            looked_up["plan"]["noise"]
            == client.plan(bodies.job(dataset["id"], 0.4))["plan"]["noise"]
        )
        assert looked_up["name"] == "Toll or no toll"
        assert (both["reusable"], both["reusable_noise"]) == ([good, lost], [lost])
    offered(offer, "private", anew=True)
    assert "its answer is mostly noise" in " ".join(capsys.readouterr().err.split())
    offered(both, "private", anew=True)
    assert "mostly noise" not in " ".join(capsys.readouterr().err.split())
    with Browser.logged_in(service) as visitor:
        page = visitor.submit(
            visitor.get("/jobs/new"), "/jobs/new", body=json.dumps(body), action="price"
        )
        assert "mostly noise, and so may be what follows from it" in " ".join(page.text.split())
        rows = visitor.get("/jobs").response.text.split("</tr>")
        (marked,), (plain,) = (
            [row for row in rows if f'id="{one}"' in row] for one in (lost, good)
        )
        assert ("mostly noise" in marked, "mostly noise" in plain) == (True, False)
        assert ("Toll or no toll" in marked, "Toll or no toll" in plain) == (False, True)
        assert "<h1>Toll or no toll" in visitor.get(f"/jobs/{good}").response.text
    with Browser.logged_in(service, service.key_of("auditor")) as auditor:
        assert "mostly noise" not in auditor.get("/jobs").text
    with service.client(service.key_of("auditor")) as client:
        assert not any("mostly_noise" in job for job in client.jobs()["jobs"])


def test_several_releases_combine(
    service: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        accurate, rough = (
            solved(client, bodies.job(dataset["id"], epsilon)) for epsilon in (0.4, 0.1)
        )
        body = bodies.job(dataset["id"])
        assert client.plan(body)["reusable"] == [accurate["job"]["id"], rough["job"]["id"]]
        asked = again(accurate, body, release=[rough["job"]["id"], accurate["job"]["id"]])
        answer = solved(client, asked)
        gained = answer["result"]["combined"]
        assert gained["releases"] == 2
        single = [
            client.plan(bodies.job(dataset["id"], epsilon))["plan"]["noise"][0]
            for epsilon in (0.4, 0.1)
        ]
        deviations = np.array([one["standard_deviation"] for one in single])
        assert gained["least_alone"] == pytest.approx(deviations[0])
        assert gained["standard_deviation"] == pytest.approx((deviations**-2.0).sum() ** -0.5)
        said = (
            "2 releases: their combined noise has standard deviation "
            f"{gained['standard_deviation']:.3g}"
        )
        with Browser.logged_in(service) as visitor:
            assert said in visitor.get(f"/jobs/{answer['job']['id']}").text
        show_answer(answer, None)
        assert " ".join(said.split()[:6]) in " ".join(
            capsys.readouterr().out.replace("│", " ").split()
        )
        weights = deviations**-2.0 / (deviations**-2.0).sum()
        demands = np.array([one["result"]["demand"] for one in (accurate, rough)])
        assert (demands.sum(axis=0) > 0).any()
        # All counts are far above 0, so that no demand was projected: what is combined is their
        # mean, by weight.
        assert answer["result"]["demand"] == pytest.approx(np.tensordot(weights, demands, 1))
        assert [one["job"] for one in answer["certificate"]["follows_from"]["releases"]] == answer[
            "job"
        ]["release"]
        assert all(
            one.holds
            for one in check_followed(
                answer["certificate"], [rough["certificate"], accurate["certificate"]]
            )
        )
        other = client.register(bodies.dataset())
        elsewhere = solved(client, bodies.job(other["id"]))
        with pytest.raises(Conflict) as refused:
            client.plan(again(accurate, body, release=[rough["job"]["id"], elsewhere["job"]["id"]]))
        assert (refused.value.code, pointers(refused.value)) == (
            "release_differs",
            ["/problem/release"],
        )


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_every_kind_with_a_dataset_is_asked_again(service: Installation, kind: str) -> None:
    """Its example, with one field that is free changed where it has one: the same release, another
    question."""
    body = copy.deepcopy(KINDS[kind].example())
    if KINDS[kind].Dataset is None:
        return
    with service.client() as client:
        KINDS[kind].vary(
            body["problem"]["dataset"]["content"], 901
        )  # the example's own account is others'
        dataset = client.register({**body["problem"]["dataset"], "name": f"asked again of {kind}"})
        body["problem"]["dataset"] = dataset["id"]
        offered = client.plan(body)["asked_again"]
        first = solved(client, body)
        parsed = KINDS[kind].model_validate(body["problem"])
        public = KINDS[kind].Dataset.read_public(dataset["public"])
        free = sorted(parsed.free(public))
        updates = [
            parsed.alternative_values(public)[name]
            for name in free
            if name in parsed.alternative_values(public)
        ]
        assert bool(updates) == bool(free)
        answer = solved(client, again(first, body, **(updates[0] if updates else {})))
        assert answer["certificate"]["follows_from"]["releases"][0]["job"] == first["job"]["id"]
        assert check(answer["certificate"])
        if not free:
            assert answer["result"] == first["result"]
        # What a plan offers before the price is paid asks something else, and all that does is
        # offered.
        assert set(offered) <= set(free)
        for name in free:
            answer = solved(client, again(first, body, **parsed.alternative_values(public)[name]))
            told = {"uncertainty", "relative_gap", "iterations", "converged"}
            both = [
                {one: part["result"][one] for one in part["result"].keys() - told}
                for part in (first, answer)
            ]
            same = both[0] == both[1]
            assert not (same and name in offered), name
            assert same or name in offered or name in told, name
        assert len(entries(client, dataset["account"])) == 4


def test_a_release_outlives_its_data_unless_it_holds_them(service: Installation) -> None:
    """Of private data stays what was paid for; what a simulation released holds its data, and goes
    with them."""
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"])
        first = solved(client, body)
        client.delete_dataset(dataset["id"])
        answer = solved(client, again(first, body, objective="user_equilibrium"))
        assert answer["result"]["demand"] == first["result"]["demand"]

        public = client.register(bodies.dataset(mode="simulation"))
        body = {**bodies.job(public["id"]), "seed": 5}
        simulated = solved(client, body)
        repeated = solved(client, again(simulated, body, objective="user_equilibrium"))
        assert repeated["certificate"]["guarantee"]["type"] == "none"
        assert "true_total_travel_time" in repeated["result"]
        client.delete_dataset(public["id"])
        with pytest.raises(Conflict) as refused:
            client.plan(again(simulated, body))
        assert refused.value.code == "no_release"
        assert "holds its data" in str(refused.value)
        with pytest.raises(Conflict) as refused:
            client.plan(again({"job": client.submit(bodies.federated())}, body))
        assert "solved by agents" in str(refused.value)
