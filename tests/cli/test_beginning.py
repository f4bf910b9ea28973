"""`discreet init`, and the job files that it writes."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from discreet.cli import app, beginning
from discreet.cli.beginning import value
from discreet.cli.files import read_body
from discreet.errors import InvalidInput
from discreet.installation import local
from discreet.problems import KINDS
from tests import bodies
from tests.conftest import Installation


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def answered(*answers: str, **environment: str) -> str:
    asked = CliRunner().invoke(app, ["init"], input="\n".join(answers) + "\n", env=environment)
    assert asked.exit_code == 0, asked.output
    return asked.output


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_job_file_says_what_the_example_says_and_every_other_field(kind: str) -> None:
    body = {**KINDS[kind].example(), "name": 'roads "north"\\\n\x7f\u00e9'}
    text = "\n".join(beginning.lines(KINDS[kind], body))
    assert tomllib.loads(text) == without_nulls(body)
    for field in KINDS[kind].model_json_schema()["properties"]:
        assert field == "release" or re.search(
            rf"^(# {field} = |{field} = |\[problem\.{field}])", text, re.MULTILINE
        )
    assert (
        max(len(line) for line in text.splitlines() if line.startswith("# ") and " = " not in line)
        <= 100
    )
    # A default that stands as a comment is TOML, and what the kind takes for a field that is not
    # given.
    for field, default in re.findall(r"^# (\w+) = (.*)$", text, re.MULTILINE):
        if default != "…":
            default_of = KINDS[kind].model_json_schema()["properties"][field]["default"]
            assert tomllib.loads(f"{field} = {default}") == {field: default_of}


def test_six_answers_make_a_file_that_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = {"DISCREET_STATE": str(tmp_path / "state"), "DISCREET_URL": "", "DISCREET_KEY": ""}
    place = str(list(KINDS).index("dr_ensemble") + 1)
    said = answered("9", place, "1", "evening", "2.5", "none", "0.3", "job.toml", **nowhere)
    assert "A number from 1 to" in said
    assert "One of the three words" in said
    body = read_body(tmp_path / "job.toml")
    assert (body["name"], body["problem"]["discomfort_weight"]) == ("evening", 2.5)
    assert local.plan(body)["price"]["epsilon"] == 0.3
    answered(place, "1", "evening", "2.5", "0.3", "job.json", **nowhere)  # as its name says
    assert json.loads((tmp_path / "job.json").read_text()) == json.loads(json.dumps(body))


def test_a_job_begins_with_the_newest_data_and_a_file_that_is_read_again(
    api_only: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = {
        "DISCREET_URL": api_only.url,
        "DISCREET_KEY": api_only.owner_of("begins with loads"),
        "COLUMNS": "80",
    }
    with api_only.client(here["DISCREET_KEY"]) as client:
        client.register(bodies.dataset(zones=2))
        made = client.register(KINDS["dr_ensemble"].example()["problem"]["dataset"])
    said = answered("", "", "evening", "", "", "job.yaml", "job.toml", **here)
    assert said.count("ends in .toml") == 1  # YAML would be taken for JSON
    assert read_body(tmp_path / "job.toml")["problem"]["dataset"] == made["id"]
    asked = CliRunner().invoke(app, ["init", "job.yaml"], env=here)
    assert isinstance(asked.exception, InvalidInput)
    assert not (tmp_path / "job.yaml").exists()


def test_of_several_datasets_none_is_taken_by_enter_alone(
    api_only: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its made-up prices are as many as its meters have steps in a day, and said to be an
    example."""
    monkeypatch.chdir(tmp_path)
    here = {
        "DISCREET_URL": api_only.url,
        "DISCREET_KEY": api_only.owner_of("has two fleets"),
        "COLUMNS": "80",
    }
    public = {
        "unit": "participant",
        "states": 2,
        "participants": 2,
        "steps": 96,
        "edges": [0, 1, 2],
    }
    meters = {"start": "2026-01-15T00:00:00Z", "interval_seconds": 900}
    fleet = {
        "kind": "dr_ensemble",
        "public": {**public, "meters": meters},
        "cap": {"epsilon": 1, "delta": 0},
    }
    with api_only.client(here["DISCREET_KEY"]) as client:
        for name, state in (("first", 0), ("second", 1)):
            client.register(
                {**fleet, "name": name, "content": {"trajectories": [[state] * 96, [0, 1] * 48]}}
            )
        offered = [one["name"] for one in client.datasets()]
    place = str(offered.index("first") + 1)
    said = answered("", "", place, "evening", "", "", "job.toml", **here)
    assert said.count("Number:") == 2  # without a number in brackets: Enter asks again
    assert "replace it before you submit: price" in said
    assert len(read_body(tmp_path / "job.toml")["problem"]["price"]) == 96
    assert (
        "# AN EXAMPLE, made up: replace it with your own.\nprice = ["
        in (tmp_path / "job.toml").read_text()
    )


def test_a_job_of_a_dataset_that_is_called_by_its_name(
    api_only: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = {"DISCREET_URL": api_only.url, "DISCREET_KEY": api_only.owner_key, "COLUMNS": "80"}
    with api_only.client() as client:
        made = client.register({**bodies.dataset(), "name": "trips that have a name"})
        offered = [one["id"] for one in client.datasets() if one["kind"] == "routing"]
    place = str(list(KINDS).index("routing") + 1)
    said = answered(
        place, str(offered.index(made["id"]) + 1), "", "2", "2", "strict", "job.toml", **here
    )
    assert "1. BPR: 0.15, power 4 of flow over capacity" in said
    assert f"trips that have a name ({made['id']}), epsilon 1 is left" in " ".join(said.split())
    body = read_body(tmp_path / "job.toml")
    assert body["problem"]["objective"] == "user_equilibrium"  # the second of its words
    assert body["problem"]["latency"] == {
        "type": "affine",
        "factor": 1,
    }  # in proportion, the second as well
    assert body["problem"]["dataset"] == made["id"]
    named = {**body, "problem": {**body["problem"], "dataset": made["name"]}}
    (tmp_path / "named.json").write_text(json.dumps(named))
    run = CliRunner()
    plans = [
        run.invoke(app, ["plan", name, "--json"], env=here) for name in ("job.toml", "named.json")
    ]
    assert json.loads(plans[0].stdout)["price"] == json.loads(plans[1].stdout)["price"]
    shown = run.invoke(app, ["dataset", "show", made["name"], "--json"], env=here)
    assert json.loads(shown.stdout)["id"] == made["id"]
    unknown = run.invoke(app, ["dataset", "show", "trips without one"], env=here)
    assert isinstance(unknown.exception, InvalidInput)
    assert f"{made['name']} ({made['id']})" in str(unknown.exception)


def test_no_network_is_made_up_for_trips_of_ones_own_places() -> None:
    """A job on it would be charged like any other. The network by which they were read comes
    first, however many are newer; without it nobody knows whether others have the same zones."""
    kind = KINDS["routing"]
    public = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
    newer = [{"id": f"net_{number}", "nodes": 2} for number in range(5)]

    def networks(rows: list[dict[str, Any]], **described: Any) -> list[Any]:
        told = kind.Dataset.read_public({**public, **described})
        bodies = list(kind.examples_for(told, {"network": rows}))
        for body in bodies:
            tomllib.loads("\n".join(beginning.lines(kind, body)))
        return [body["problem"].get("network") for body in bodies]

    by_network = {"reader": {"zones": {"network": "net_9"}}}
    own = {"id": "net_9", "nodes": 2}
    assert networks([*newer, own], **by_network) == ["net_9", "net_0", "net_1", None]
    assert networks(newer, **by_network) == [None]
    assert networks([], columns={"origin": "Von"}) == [None]
    assert networks(newer)[:3] == ["net_0", "net_1", "net_2"]
    assert networks([])[0]["nodes"] == 3
    (body,) = kind.examples_for(kind.Dataset.read_public({**public, **by_network}), {"network": []})
    text = "\n".join(beginning.lines(kind, body))
    assert '# network = "net_…"' in text
    assert "made up" not in text


def test_a_job_begins_with_the_newest_stored_network_that_fits(
    api_only: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = {
        "DISCREET_URL": api_only.url,
        "DISCREET_KEY": api_only.owner_of("begins with networks"),
        "COLUMNS": "80",
    }
    both = [
        {"tail": tail, "head": head, "free_flow_time": 1, "capacity": 9}
        for tail, head in ((1, 2), (2, 1))
    ]
    with api_only.client(here["DISCREET_KEY"]) as client:
        client.register(bodies.dataset(zones=2))
        stored = [
            client.networks.add({"nodes": nodes, "links": links}, name=name)
            for nodes, links, name in (
                (3, both, "older"),
                (2, both, "fits"),
                (2, both[:1], "no way"),
                (1, [], "small"),
            )
        ]
    said = answered(
        str(list(KINDS).index("routing") + 1), "1", "", "", "", "strict", "job.toml", **here
    )
    assert "On what is stored as fits." in said
    assert read_body(tmp_path / "job.toml")["problem"]["network"] == stored[1]["id"]
    assert "made up" not in (tmp_path / "job.toml").read_text()


VISITS = """pid,date,Age,arm,well
a,01/02/2026,70,drug A,improved
a,08/02/2026,70,none,worse
b,01/02/2026,40,none,improved
b,08/02/2026,40,drug A,improved
"""
RULE = "Age >= 65 -> drug A, else none"


def test_a_file_of_ones_own_is_looked_at_until_it_is_right(
    api_only: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its form proposes and what is wrong is shown, and the command registers it; what is no
    option is asked for again."""
    monkeypatch.chdir(tmp_path)
    here = {
        "DISCREET_URL": api_only.url,
        "DISCREET_KEY": api_only.owner_of("begins with a file"),
        "COLUMNS": "80",
    }
    Path("a b.csv").write_text(VISITS)
    kind = str(list(KINDS).index("off_policy_evaluation") + 1)
    figures = ["1", "2", "", ""]
    options = [
        '--columns "reward',
        "--column reward=well",
        "--columns reward=well,action=arm --set reader.dates=day_first",
        "--set reader.rewards.improved=1 --set reader.rewards.worse=0",
        "--set 'reader.behaviour.drug A=0.5' --set reader.behaviour.none=0.5 "
        f"--set 'reader.target={RULE}'",
        "",
    ]
    said = answered(kind, "2", "a b.csv", "trial", "2", *figures, *options, **here)
    assert "Proposed: --columns patient=pid,time=date" in said
    assert said.count("no column reward") == 3  # at first, and after each that is no option
    assert "--column is none of them" in said
    assert "a number is needed (reader.rewards says" in said
    assert "read as trajectory 0, step 0" in said
    assert not list(tmp_path.glob("*.toml"))
    command = said[said.index("discreet dataset add") :]
    words = shlex.split(command.replace("\\\n", ""))[1:]
    added = CliRunner().invoke(app, [*words, "--json"], env=here)
    assert added.exit_code == 0, added.output
    public = json.loads(added.stdout)["public"]
    assert (public["target_policy"], public["horizon"]) == (RULE, 2)
    assert (public["max_ratio"], public["least_reward"]) == (2, 0)


def test_zones_of_a_file_of_ones_own_are_those_of_a_network(
    api_only: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns hold what --columns cannot, and are said one by one."""
    monkeypatch.chdir(tmp_path)
    here = {
        "DISCREET_URL": api_only.url,
        "DISCREET_KEY": api_only.owner_of("begins with trips"),
        "COLUMNS": "80",
    }
    Path("t.csv").write_text('"Von, Zelle",Nach,Fahrten\nA,B,3\nB,A,2\n')
    link = {"free_flow_time": 1, "capacity": 9}
    links = [{"tail": 1, "head": 2, **link}, {"tail": 2, "head": 1, **link}]
    with api_only.client(here["DISCREET_KEY"]) as client:
        network = {"nodes": 2, "links": links, "node_names": ["A", "B"]}
        client.networks.add(network, name="two zones")
    kind = str(list(KINDS).index("routing") + 1)
    said = answered(
        *(kind, "2", "t.csv", "", "", "2", "1", "60", "--zones nowhere", "--zones 'two zones'", ""),
        **here,
    )
    assert "read as period 0, origin 1, destination 2, count 3" in said
    command = said[said.index("discreet dataset add") :]
    assert "--set 'columns.origin=Von, Zelle'" in command
    words = shlex.split(command.replace("\\\n", ""))[1:]
    added = CliRunner().invoke(app, [*words, "--json"], env=here)
    assert added.exit_code == 0, added.output
    assert json.loads(added.stdout)["public"]["columns"]["origin"] == "Von, Zelle"


def test_numbers_keep_their_digits_and_what_is_no_toml_is_said(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text("[privacy]\nepsilon = 0.1000000000000000055\n")
    assert read_body(file)["privacy"]["epsilon"].text == "0.1000000000000000055"
    file.write_text("[privacy]\nepsilon = \n")
    with pytest.raises(InvalidInput, match=r"job\.toml: not TOML: .*line 2"):
        read_body(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 20_000 + "]" * 20_000, "nested too deep"),
        ("a" + ".a" * 20_000 + " = 1", "nested too deep"),
        ("[problem]\nstart = 2026-01-01", "as text, in quotes"),
        ("a = [{b = 07:00:00}]", "as text, in quotes"),
        ("a = " + "9" * 5000, "not TOML"),
        ("a = 1\na = 2", "not TOML"),
    ],
)
def test_hostile_toml_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=says):
        read_body(file)


def test_toml_of_other_editors(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('name = "x"\n', encoding="utf-8-sig")
    assert read_body(file) == {"name": "x"}


@pytest.mark.parametrize(
    "name", ['a"\n[problem]\nkind = "x', "\x7f\x1b", "\u2028\u0085", "'''", "\u00e9\\", "# x"]
)
def test_a_name_is_only_a_name_in_toml(name: str) -> None:
    assert tomllib.loads(f"name = {value(name)}") == {"name": name}
    assert tomllib.loads(f"told = {value({name: name})}") == {"told": {name: name}}


def test_privacy_without_end_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """TOML has no Infinity as it would be written, and no job an epsilon of it."""
    said = iter(["inf", "nan", "1e999", "-1", "0.5"])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(said))
    assert beginning._privacy() == {"epsilon": 0.5, "delta": "auto"}
    figures = iter([float("inf"), float("nan"), 2.5])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(figures))
    assert beginning._number("How many?", 1.0) == 2.5
