"""What a result answers, in one sentence with its interval, and what that lets one say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from discreet.cli.showing_answers import _good_for
from discreet.dashboard.answers import _read
from discreet.problems import JOBS
from discreet.problems.answers import headlines_of, stored_headline
from discreet.problems.base import read_example, rehearse
from discreet.problems.charts import draw_result
from discreet.problems.off_policy_evaluation.charts import charts_of
from discreet.problems.results import LONGEST, figure, good_for


def told(
    value: float, lower: float | None, upper: float | None, *, noise: bool = False
) -> dict[str, Any]:
    """A result of one number with its interval."""
    said = {
        "level": 0.9,
        "values": {"saving": {"lower": lower, "upper": upper}},
        "kinds": {"saving": "noise"},
        "noise_dominates": {"saving": noise},
    }
    return {"saving": value, "uncertainty": {**said, "mostly_noise": noise}, "tables": []}


@pytest.mark.parametrize("kind", JOBS)
def test_every_kind_answers_its_example_in_a_sentence(kind: str) -> None:
    """A sentence that reads: with a figure, without a name of a field, short enough to be kept
    whole."""
    problem, _, _ = read_example(JOBS[kind])
    result = json.loads(json.dumps(rehearse(JOBS[kind]).to_json()))
    asked = problem.model_dump(mode="json")
    first, *others = headlines_of(asked, result)
    assert first.figure
    assert first.text == f"{first.before}{first.figure}{first.after}"
    assert not first.text.endswith(".")
    for one in (first, *others):
        assert one.text[0].isupper() or one.text[0].isdecimal()
        assert not any(name in one.text for name in result if "_" in name), one.text
    assert stored_headline(asked, result) == first.text
    assert len(first.text) <= LONGEST


def test_loads_that_are_shed_are_not_called_moved(tmp_path: Path) -> None:
    result: dict[str, Any] = {
        "saving": 5.0,
        "signal": [[0.0, 1.0]],
        "energy_ratio": 0.25,
        "default_power": [1.0, 3.0],
        "expected_power": [1.0, 0.0],
    }
    asked = {"kind": "dr_ensemble"}
    _, energy = headlines_of(asked, result)
    assert energy.text == "Energy use falls to 25 %: load is shed, not shifted"
    moved = headlines_of(asked, {**result, "energy_ratio": 0.99})[1].text
    assert moved == "Energy use stays at 99 %: load is shifted, not shed"
    nothing = {**result, "saving": 0.0, "signal": [[0.0, 0.0]]}
    (none,) = headlines_of(asked, nothing)
    assert none.text.startswith("No control: no signal saves something")
    noise = {
        **result,
        "uncertainty": {"level": 0.9, "values": {}, "noise_dominates": {}, "mostly_noise": True},
    }
    assert len(headlines_of(asked, noise)) == 1
    # A picture goes out alone.
    for name, one in (("plain.svg", result), ("noise.svg", noise)):
        draw_result(asked, one, tmp_path / name)
        assert ("<!-- mostly noise -->" in (tmp_path / name).read_text()) == (one is noise)


def test_what_is_told_of_one_load_is_told_of_all_where_their_number_is_public() -> None:
    states: dict[str, Any] = {
        "power": [0, 3],
        "edges": [0, 1, 5],
        "participants": 200,
        "step_seconds": 1800,
    }
    result: dict[str, Any] = {
        "saving": 5.0,
        "default_power": [1.0, 3.0],
        "expected_power": [2.0, 1.5],
        "states": states,
    }
    asked = {"kind": "dr_ensemble", "price": [0.1, 0.2]}
    said: dict[str, Any] = {
        "level": 0.9,
        "values": {"saving": {"lower": 4, "upper": 6.5}},
        "kinds": {"saving": "noise"},
        "noise_dominates": {},
    }
    one, every, load, *_ = headlines_of(
        asked, {**result, "uncertainty": {**said, "mostly_noise": False}}
    )
    assert one.text == (
        "Following the signal saves at least 4.0 per meter (90 % NI: 4.0–6.5), net of discomfort"
    )
    assert one.unit == (
        "the money of the price, taken per kW and step of 30 minutes: the highest, 0.2, is 0.4 a "
        "kWh"
    )
    assert every.text == "All 200 together save at least 800 (90 % NI: 800–1,300)"
    assert load.text == "Highest total load: 400 kW; without control 600 kW"
    lost = {"level": 0.9, "values": {}, "noise_dominates": {"saving": True}, "mostly_noise": True}
    (noise,) = headlines_of(asked, {**result, "uncertainty": lost})
    assert noise.text == (
        "Following the signal saves 5 (mostly noise) per meter, net of discomfort"
    )
    del states["participants"]
    assert "together" not in "".join(one.text for one in headlines_of(asked, result))


@pytest.mark.parametrize(
    ("saving", "ends", "says"),
    [
        (9.8, (8.96, 10.8), "saves at least 8.9 per load (90 % NI: 8.9–10.8), net of"),
        (12345, (6789.5, 20000), "saves at least 6,000 per load (90 % NI: 6,000–20,000)"),
        (9.8, (0.004, 20), "saves 10 per load (90 % NI: 0–20)"),
        (0.004, (0.00049, 0.012), "saves 0.004 per load (90 % NI: 0.000–0.012)"),
        (1.0, (-0.001, 2.0), "saves 1.0 per load (90 % NI: -0.1 to 2.0)"),
        (-3.0, (-5.0, -1.04), "costs at least 1.0 per load (90 % NI: 1.0–5.0), discomfort"),
    ],
)
def test_at_least_is_never_more_than_the_lower_end(
    saving: float, ends: tuple[float, float], says: str
) -> None:
    """Ends were rounded to the nearest, so that 6,789 was "at least 7,000" and .004 "at least 0";
    a loss was "saves -3"."""
    said = {
        "level": 0.9,
        "values": {"saving": dict(zip(("lower", "upper"), ends, strict=True))},
        "kinds": {"saving": "noise"},
        "noise_dominates": {},
        "mostly_noise": False,
    }
    result = {"saving": saving, "signal": [[0.0, 1.0]], "uncertainty": said}
    first, *_ = headlines_of({"kind": "dr_ensemble"}, result)
    assert f"Following the signal {says}" in first.text


def test_loads_of_which_no_saving_is_known_promise_no_energy_and_tell_how_far_noise_went() -> None:
    """Of 60 homes at epsilon 3: the highest load without control may be three times what is
    told."""
    asked = {"kind": "dr_ensemble"}
    ends = {
        "saving": {"lower": 0.0, "upper": 3.0},
        "expected_power": {"lower": [0.5, 0.1], "upper": [1.0, 0.3]},
        "default_power": {"lower": [0.5, 0.25], "upper": [1.0, 4.0]},
    }
    said: dict[str, Any] = {
        "level": 0.9,
        "values": ends,
        "kinds": dict.fromkeys(ends, "noise"),
        "noise_dominates": {},
        "mostly_noise": False,
    }
    result: dict[str, Any] = {
        "saving": 1.0,
        "default_power": [0.75, 1.35],
        "expected_power": [0.75, 0.2],
        "states": {"power": [0, 3], "edges": [0, 1, 5], "participants": 60, "step_seconds": 900},
        "uncertainty": said,
    }
    one, _, load, *others = headlines_of(asked, result)
    assert one.text == (
        "Following the signal saves 1.0 per meter (90 % NI: 0.0–3.0), net of discomfort"
    )
    assert one.good_for == "Not distinguishable from 0."
    assert load.text == (
        "Highest total load: 45 kW (90 % NI: 30–60); without control 80 kW (90 % NI: 20–240)"
    )
    assert not others
    sure = {**said, "values": {**ends, "saving": {"lower": 0.5, "upper": 3.0}}}
    known = {**result, "energy_ratio": 0.5, "uncertainty": sure}
    assert headlines_of(asked, known)[-1].text.startswith("Energy use falls to 50 %")
    # The command says what the page says of it, of an answer that holds no problem.
    assert _good_for("dr_ensemble", result, one.text) == one.good_for
    assert _good_for("dr_ensemble", result, "a sentence with another figure") == ""
    assert _good_for("no such kind", result, one.text) == ""


def test_travel_times_have_the_unit_that_the_network_says() -> None:
    problem, dataset, budget = read_example(JOBS["routing"])
    asked = problem.model_dump(mode="json")
    result = {
        "total_travel_time": 2060.0,
        "true_total_travel_time": 2100.0,
        "true_best_total_travel_time": 2000.0,
    }
    minutes = {**asked, "network": {**asked["network"], "time_unit": "minutes"}}
    for one in (asked, {**asked, "network": "net_1"}):
        first, truth = (sentence.text for sentence in headlines_of(one, result))
        assert first == "Total travel time at the system optimum: 2,060 per period"
        says = "Simulation: on the true trips these routes take 2,100"
        assert truth == f"{says}, 5 % above the optimum"
    first, truth = (sentence.text for sentence in headlines_of(minutes, result))
    assert first == "Total travel time at the system optimum: 2,060 minutes per period"
    assert truth == f"{says} minutes, 5 % above the optimum"
    first_link, *others = asked["network"]["links"]
    tolled = {**minutes["network"], "links": [{**first_link, "fixed_cost": 0.5}, *others]}
    costs = headlines_of({**minutes, "network": tolled}, result)[0].text
    assert costs.startswith("Total generalized cost at the system optimum: 2,060 min")
    public = None if dataset is None else dataset.public
    for body, unit in ((asked, "the time unit of free_flow_time"), (minutes, "minutes")):
        advice = type(problem).model_validate(body).plan(public, budget).advice[0]
        assert f"(90 %; in {unit}, summed over the trips of a period)" in advice


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (told(3.1, 2.8, 3.4), "±9.7 % (90 %)."),
        (told(3.1, 1.1, 5.1), "±65 % (90 %)."),
        (told(1.3, 1.0, 5.0), "±67 % (90 %)."),
        (told(0.5, 0.02, 1.1), "Nonzero; size uncertain."),
        (told(-0.5, -1.1, -0.02), "Nonzero; size uncertain."),
        (told(0.5, 0.005, 1.1), "Not distinguishable from 0."),  # it is written as 0
        (told(0.2, -0.1, 0.5), "Sign undetermined."),
        (told(0.2, 0.0, 0.5), "Not distinguishable from 0."),
        (told(-3.1, -3.4, -2.8), "±9.7 % (90 %)."),
        (told(0.0, 0.0, 0.0), "Not distinguishable from 0."),
        (told(0.2, None, None), "No interval available."),
        (
            {
                "saving": 0.2,
                "uncertainty": told(1, 1, 1)["uncertainty"] | {"values": {}, "noise_dominates": {}},
            },
            "No interval available.",
        ),
        ({"saving": 0.2}, ""),  # nothing was noised
    ],
)
def test_an_interval_says_what_the_number_is_good_for(result: dict[str, Any], says: str) -> None:
    assert good_for(result, "saving").startswith(says)
    assert bool(good_for(result, "saving")) == bool(says)


def test_large_figures_are_in_millions_with_their_interval() -> None:
    assert (
        figure(told(7_481_234.0, 7_302_000.0, 7_604_000.0), "saving")
        == "7.48 million (90 % NI: 7.30–7.60)"
    )
    assert (
        figure(told(-2.5e9, -2.6e9, -2.4e9), "saving") == "-2.50 billion (90 % NI: -2.60 to -2.40)"
    )
    assert figure(told(748_123.0, None, None), "saving") == "748,100"
    assert (
        figure(told(7_481_234.0, None, None, noise=True), "saving")
        == "7.481 million (mostly noise)"
    )


def test_an_interval_names_its_kind() -> None:
    """Noise alone, or noise and who came; with the ends apart by a dash, where that is no minus."""
    asked = told(7_481_234.0, 7_302_000.0, 7_604_000.0), told(0.15, -0.08, 0.38)
    assert figure(asked[0], "saving", between=" per period") == (
        "7.48 million per period (90 % NI: 7.30–7.60)"
    )
    assert figure(asked[1], "saving", "confidence") == "0.15 (90 % CI: -0.08 to 0.38)"
    assert figure(told(73_500.0, 73_000.0, 74_000.0, noise=True), "saving") == (
        "73,500 (90 % NI: 73,000–74,000, mostly noise)"
    )


def test_a_sentence_that_cannot_be_made_hides_no_result() -> None:
    assert stored_headline({"kind": "rehearsal"}, {"no rows": 1}) is None
    assert _read(b'{"no rows": 1}', {"kind": "rehearsal"}) == ({"no rows": 1}, [], [], [])
    assert headlines_of({"kind": "of the future"}, {"answer": 1}) == []
    assert stored_headline({"kind": "of the future"}, {"answer": 1}) is None


def test_people_read_both_policies_and_the_difference() -> None:
    ends = {
        "policy_value": (0.41, 0.87),
        "behaviour_value": (0.47, 0.53),
        "difference": (-0.08, 0.38),
    }
    values = {name: {"lower": low, "upper": high} for name, (low, high) in ends.items()}
    said = {"level": 0.9, "values": values, "noise_dominates": {}, "mostly_noise": False}
    result = {
        "policy_value": 0.65,
        "behaviour_value": 0.5,
        "difference": 0.15,
        "uncertainty": said,
        "tables": [],
    }
    result |= {
        "clipped_mass": 0.02,
        "robust_bounds": values["policy_value"],
        "clipped_value": {"lower": 0.5, "upper": 0.8},
        "clipped_difference": {"lower": 0.01, "upper": 0.29},
    }
    first, second, third = headlines_of({"kind": "off_policy_evaluation"}, result)
    assert first.text == (
        "Target policy: 0.65 (90 % CI: 0.41–0.87). Behaviour policy: 0.500 (0.470–0.530)"
    )
    for policy in ("treat when lactate > 2", "treat when " + "lactate > 2 and " * 9 + "age > 65"):
        named = headlines_of({"kind": "off_policy_evaluation"}, {**result, "target_policy": policy})
        assert len(named[0].text) <= 120
        assert any(policy in one.text for one in named)
        assert not any("…" in one.text for one in named)
    assert second.text == "Target minus behaviour: +0.15 (90 % CI: -0.08 to 0.38)"
    assert second.good_for == "Sign undetermined: clipped weights could reverse it."
    assert third.text == (
        "Clipping removed some 2 % of the importance weights; the interval allows for it. With "
        "clipped weights alone: 0.5–0.8 (90 % CI), difference 0.01–0.29 (90 % CI)"
    )
    result["clipped_difference"] = {"lower": -0.05, "upper": 0.29}  # noise alone hides the sign
    second = headlines_of({"kind": "off_policy_evaluation"}, result)[1]
    assert second.good_for == "Sign undetermined."
    for ends, told in (((0.0, 0.07), "at most 7 % of"), ((0.01, 0.03), "1–3 % of")):
        values["clipped_mass"] = dict(zip(("lower", "upper"), ends, strict=True))
        assert (
            f"Clipping removed {told} the importance weights"
            in headlines_of({"kind": "off_policy_evaluation"}, result)[2].text
        )
    bare = {name: one for name, one in result.items() if name != "uncertainty"}
    (first, _, third) = headlines_of({"kind": "off_policy_evaluation"}, bare)
    assert "Target policy: 0.65. Behaviour policy: 0.5" in first.text
    assert third.text.endswith("the target policy is worth 0.41–0.87 (90 % CI)")
    for ends in ({"lower": 0.0, "upper": 0.0}, None):
        values.pop("clipped_mass", None)
        if ends:
            values["clipped_mass"] = ends
        whole = {**result, "clipped_mass": 0.0}
        for name in ("clipped_value", "clipped_difference"):
            del whole[name]
        assert len(headlines_of({"kind": "off_policy_evaluation"}, whole)) == 2


def test_an_earlier_result_is_told_with_the_ends_that_allow_for_clips() -> None:
    """1,631 made-up patients of a rule that few of them were treated by: its interval was of
    clipped weights, far from the truth of 2.05, and the difference, truly -0.1, seemed to have a
    sign and a size."""
    ends = {
        "policy_value": (0.89, 1.88),
        "behaviour_value": (2.03, 2.13),
        "difference": (-1.17, -0.21),
    }
    values = {name: {"lower": low, "upper": high} for name, (low, high) in ends.items()}
    values["clipped_mass"] = {"lower": 0.482, "upper": 0.712}
    said = {"level": 0.9, "values": values, "noise_dominates": {}, "mostly_noise": False}
    result: dict[str, Any] = {
        "policy_value": 1.43,
        "behaviour_value": 2.08,
        "difference": -0.65,
        "covers": "",
        "tables": [],
    }
    result |= {
        "clipped_mass": 0.597,
        "robust_bounds": {"lower": 0.291, "upper": 3.97},
        "uncertainty": said,
    }
    problem = {"kind": "off_policy_evaluation", "discount": 1}
    first, second, third = headlines_of(problem, result)
    assert first.text.startswith("Target policy: 1.4 (90 % CI: 0.3–4.0). Behaviour policy: ")
    assert second.text.endswith("-0.7 (90 % CI: -1.8 to 1.9)")
    assert first.good_for == "Nonzero; size uncertain."
    assert second.good_for == "Sign undetermined: clipped weights could reverse it."
    assert third.text == (
        "Clipping removed 48.2–71.2 % of the importance weights; the interval allows for it. With "
        "clipped weights alone: 0.89–1.88 (90 % CI), difference -1.17 to -0.21 (90 % CI)"
    )
    (chart,) = charts_of(problem, {}, result)
    rows = {row[0]: row[1:] for row in chart.table.rows}
    assert rows["target policy"] == ("1.43", "0.291", "3.97")
    assert rows["target policy, clipped weights"] == ("1.43", "0.89", "1.88")
    del values["behaviour_value"]
    _, second, _ = headlines_of(problem, result)
    assert second.text == "Target minus behaviour: -0.65"


def test_what_has_not_settled_says_so_first() -> None:
    """Also of agents apart, whose optimum the server does not know."""
    problem = {"kind": "coupled_qp"}
    local = {
        "rounds": 3,
        "transcript": "ab",
        "status": "iteration_limit",
        "objective": 2.5,
        "tables": [],
    }
    assert stored_headline(problem, local) == "Not optimal. Total cost: 2.5 (3 rounds)"
    apart = {name: value for name, value in local.items() if name != "objective"}
    (said,) = headlines_of(problem, apart)
    assert said.text == "Not converged after 3 rounds; not optimal"
    assert stored_headline(problem, apart) == said.text
    said = headlines_of(problem, {**apart, "status": "converged"})[0]
    assert said.text == (
        "Converged in 3 rounds; each agent holds its part of the optimum if all followed the "
        "protocol"
    )
    regularized = headlines_of({**problem, "method": "rpds"}, {**apart, "status": "converged"})[0]
    assert "part of the regularized optimum" in regularized.text
    silent = {name: value for name, value in apart.items() if name != "status"}
    assert headlines_of(problem, silent)[0].text == ("3 rounds completed; convergence not checked")


def test_agents_constraints_are_kept_broken_or_open() -> None:
    problem = {"kind": "multi_agent", "constraints": ["a - 1", "b - 1", "a + b - 1"]}
    ends = {"lower": [-3.0, 0.5, -1.0], "upper": [-1.0, 2.0, 1.0]}
    said = {
        "level": 0.9,
        "values": {"noisy_values": ends},
        "noise_dominates": {},
        "mostly_noise": False,
    }
    result = {
        "noisy_values": [-2.0, 1.0, 0.1],
        "average_multipliers": [0.0, 4.0, 1.5],
        "uncertainty": said,
    }
    first, second = headlines_of(problem, result)
    assert first.text == (
        "1 of 3 shared constraints holds on average (90 % NI each); 1 violated; 1 undetermined"
    )
    # At a saddle point a constraint with a multiplier is at its limit; this one is violated.
    assert second.text == "Largest multiplier: 4 (b - 1 ≤ 0); not settled"
    near = headlines_of(problem, {**result, "average_multipliers": [0.0, 0.0, 1.5]})[1]
    assert near.text == "Largest multiplier: 1.5 (a + b - 1 ≤ 0)"
    slack = headlines_of(problem, {**result, "average_multipliers": [0.5, 0.0, 0.0]})[1]
    assert slack.text == "Largest multiplier: 0.5 (a - 1 ≤ 0); not settled"
    free = headlines_of(problem, {**result, "average_multipliers": [0.0, 0.0, 0.0]})[1]
    assert free.text == (
        "All released multipliers are 0, yet a constraint is violated: not settled"
    )
    ends["lower"][1] = -0.5
    free = headlines_of(problem, {**result, "average_multipliers": [0.0, 0.0, 0.0]})[1]
    assert free.text == "All released multipliers are 0"
    for one in (first, second, near, slack, free):
        assert not re.search("converged|optim", one.text + one.good_for)
        assert "settled" not in one.text.replace("not settled", "")
        assert "settled" not in one.good_for.replace("settled is unknown", "")


@pytest.mark.parametrize(
    ("lower", "upper", "says"),
    [
        (-3.0, -1.0, "The shared constraint holds on average (90 % NI)"),
        (0.5, 2.0, "The shared constraint is violated on average (90 % NI)"),
        (-1.0, 1.0, "The shared constraint is undetermined on average (90 % NI)"),
    ],
)
def test_one_constraint_is_said_by_itself(lower: float, upper: float, says: str) -> None:
    said = {
        "level": 0.9,
        "values": {"noisy_values": {"lower": [lower], "upper": [upper]}},
        "noise_dominates": {},
        "mostly_noise": False,
    }
    result = {"noisy_values": [0.1], "average_multipliers": [0.0], "uncertainty": said}
    problem = {"kind": "multi_agent", "constraints": ["a - 1"]}
    assert headlines_of(problem, result)[0].text == says


def test_a_rehearsal_names_the_least_epsilon_that_is_enough() -> None:
    row = {"quantity": "saving", "size": 10.0, "error": 0.1, "method": "moments"}
    rows = [
        {**row, "epsilon": epsilon, "error_of_nine_in_ten": 2 / epsilon}
        for epsilon in (4, 0.5, 1, 2)
    ]
    of_loads = {"kind": "rehearsal", "problem": {"kind": "dr_ensemble"}}
    (enough,) = headlines_of(of_loads, {"rows": rows, "data": "synthetic"})
    assert (
        enough.text
        == "Nine runs in ten come within 10 % of saving from epsilon 2 on, with the method moments"
    )
    (best,) = headlines_of(of_loads, {"rows": rows[1:3], "data": "synthetic"})
    near = "No epsilon brings saving within 10 %; nine runs in ten: ± 2 of about 10"
    assert best.text == f"{near} (epsilon 1, moments)"
    costs = [
        {
            **row,
            "quantity": "cost_to_go",
            "method": "dp_lsw",
            "epsilon": 1,
            "error_of_nine_in_ten": 2.0,
        }
    ]
    (words,) = headlines_of(of_loads, {"rows": costs, "data": "synthetic"})
    assert words.text.startswith("No epsilon brings expected cost by first state within 10 %")
    assert words.text.endswith("(epsilon 1, dp lsw)")
    assert headlines_of(of_loads, {"rows": [], "data": ""})[0].text.startswith("No method")
