"""What every kind answers, in each of its outcomes, as one page for an editor.

    python -m tests.sentences > sentences.md

`OUTCOMES` has a problem and a result of each outcome; those of private data are written down here,
so that the page needs no solver. `tests/problems/test_sentences.py` checks lengths, units and
intervals of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from discreet.problems.answers import headlines_of, stored_headline
from discreet_client import intervals

Json = dict[str, Any]


class Outcome(NamedTuple):
    """A result whose sentences differ from those of the others of its kind."""

    kind: str
    name: str
    problem: Json
    result: Json


def uncertain(
    ends: Mapping[str, Any], kind: str = "noise", kinds: Json | None = None, **marked: Any
) -> Json:
    """The field `uncertainty`: `ends` are pairs by field, `marked` is `noise_dominates`."""
    return {
        "level": 0.9,
        "values": {name: {"lower": low, "upper": high} for name, (low, high) in ends.items()},
        "kinds": {**dict.fromkeys(ends, kind), **(kinds or {})},
        "noise_dominates": marked,
        "mostly_noise": bool(marked.pop("mostly_noise", False)),
    }


def _routing() -> list[Outcome]:
    network = {"nodes": 2, "links": [{"tail": 1, "head": 2}], "time_unit": "minutes"}
    problem = {"kind": "routing", "objective": "system_optimum", "network": network}
    law = "Link time (BPR): free-flow time × (1 + 0.15 (flow/capacity)⁴)"
    ends = {"total_travel_time": (73_512.0, 77_431.0)}
    plain = {"total_travel_time": 75_612.0, "latency_law": law, "uncertainty": uncertain(ends)}
    streets = [f"{name} (Inn → Mill)" for name in ("Main", "Long Bridge", "Sternstraße")]
    closed = {
        **plain,
        "closed": streets,
        "total_travel_time_change": 10_512.0,
        "uncertainty": uncertain({**ends, "total_travel_time_change": (8_712.0, 12_231.0)}),
    }
    many = [f"Street of a very long name indeed {place} (Inn → Mill)" for place in range(9)]
    lost = uncertain({}, total_travel_time=True, link_flows=[True, True, False], mostly_noise=True)
    tolled = {**network, "links": [{"tail": 1, "head": 2, "fixed_cost": 0.5}]}
    large = {name: 1e8 * one for name, one in (("lower", 735.0), ("upper", 774.0))}
    return [
        Outcome("routing", "answered", problem, plain),
        Outcome("routing", "user equilibrium", {**problem, "objective": "user_equilibrium"}, plain),
        Outcome("routing", "a stored network", {**problem, "network": "net_1"}, plain),
        Outcome("routing", "closure", problem, closed),
        Outcome("routing", "closure of many streets", problem, {**closed, "closed": many}),
        Outcome(
            "routing",
            "closure of unknown sign",
            problem,
            {
                **closed,
                "uncertainty": uncertain({**ends, "total_travel_time_change": (-300.0, 900.0)}),
            },
        ),
        Outcome(
            "routing",
            "large costs with tolls and a closure",
            {**problem, "network": tolled},
            {
                **closed,
                "total_travel_time": 7.56e10,
                "uncertainty": uncertain({"total_travel_time": (large["lower"], large["upper"])}),
            },
        ),
        Outcome("routing", "mostly noise", problem, {**plain, "uncertainty": lost}),
        Outcome("routing", "routes alone", problem, {"unit_flows": [[1.0]], "latency_law": law}),
        Outcome(
            "routing",
            "flows that are not determined",
            problem,
            {**plain, "link_flows": [1.0, 2.0, 3.0], "undetermined_links": [0, 1]},
        ),
        Outcome(
            "routing",
            "simulation",
            problem,
            {
                **plain,
                "true_total_travel_time": 77_880.0,
                "true_best_total_travel_time": 75_600.0,
            },
        ),
    ]


def _loads() -> list[Outcome]:
    problem = {"kind": "dr_ensemble", "price": [0.1, 0.2]}
    states = {"power": [0, 3], "edges": [0, 1, 5], "participants": 200, "step_seconds": 1800}
    saved = {"saving": (8.96, 10.8), "event_saving": (5.1, 6.3), "rebound": (-6.6, -5.4)}
    ends = {
        **saved,
        "expected_power": ([0.5, 0.1], [1.0, 0.3]),
        "default_power": ([0.5, 0.25], [1.0, 4.0]),
    }
    bins = dict.fromkeys(("event_saving", "rebound"), "noise_and_bins")
    result = {
        "signal": [[0.0, 1.0]],
        "saving": 9.8,
        "default_power": [0.75, 1.35],
        "expected_power": [0.75, 0.2],
        "states": states,
        "transitions": [[1.0]],
        "energy_ratio": 0.81,
        "event": [34, 35, 36],
        "event_saving": 5.7,
        "rebound": -6.0,
        "uncertainty": uncertain(ends, kinds=bins, transitions=[[True], [False]]),
    }
    lost = uncertain({}, saving=True, transitions=[[True], [True]], mostly_noise=True)
    kept = (
        "By the released transitions the load of all 12,000 stays within its limits and changes by "
        "at most 1,240 kW a step. The limits cost each load 0.3 of its saving"
    )
    broken = (
        "Limits cannot be kept: at step 3 the load of all 200 is 450.1 kW (limit 300 kW; 4 more "
        "exceed theirs). 280 kW could be reached there, but not with the other limits "
        "and steps"
    )
    few = {"power": [0, 3]}
    return [
        Outcome("dr_ensemble", "saves", problem, result),
        Outcome("dr_ensemble", "loads of no length of step", problem, {**result, "states": few}),
        Outcome(
            "dr_ensemble",
            "sign unknown",
            problem,
            {**result, "uncertainty": uncertain({**ends, "saving": (-1.0, 12.0)}, kinds=bins)},
        ),
        Outcome(
            "dr_ensemble",
            "limits kept at a loss",
            problem,
            {
                **result,
                "saving": -3.0,
                "limits": {"kept": True, "says": kept},
                "uncertainty": uncertain({**ends, "saving": (-5.0, -1.04)}, kinds=bins),
            },
        ),
        Outcome(
            "dr_ensemble",
            "limits that cannot be kept",
            problem,
            {**result, "limits": {"kept": False, "says": broken}},
        ),
        Outcome("dr_ensemble", "no control", problem, {**result, "signal": [[0.0, 0.0]]}),
        Outcome("dr_ensemble", "mostly noise", problem, {**result, "uncertainty": lost}),
        Outcome(
            "dr_ensemble",
            "simulation",
            problem,
            {**result, "achieved_saving": 9.5, "true_saving": 10.1},
        ),
    ]


def _policies() -> list[Outcome]:
    problem = {"kind": "off_policy_evaluation", "discount": 1}
    people = {
        "policy_value": 0.79,
        "behaviour_value": 0.41,
        "difference": 0.38,
        "clipped_mass": 0.04,
        "target_policy": "always treat",
        "clipped_value": {"lower": 0.75, "upper": 0.85},
        "clipped_difference": {"lower": 0.34, "upper": 0.43},
    }
    ends = {
        "policy_value": (0.72, 0.87),
        "behaviour_value": (0.39, 0.43),
        "difference": (0.31, 0.46),
        "clipped_mass": (0.03, 0.05),
    }
    told = {**people, "uncertainty": uncertain(ends, "confidence")}
    states = {"values": [0.1, 0.9, 0.5], "weights": [0.1, 0.9, 0.5]}
    of_states = {"values": ([0.0, 0.8, 0.4], [0.2, 1.0, 0.6])}
    return [
        Outcome("off_policy_evaluation", "people", problem, told),
        Outcome(
            "off_policy_evaluation",
            "people, sign lost by clips",
            {**problem, "discount": 0.95},
            {
                **told,
                "uncertainty": uncertain({**ends, "difference": (-0.1, 0.5)}, "confidence"),
            },
        ),
        Outcome(
            "off_policy_evaluation",
            "from a start",
            problem,
            {
                **states,
                "policy_value": 0.68,
                "uncertainty": uncertain({**of_states, "policy_value": (0.22, 0.73)}),
            },
        ),
        Outcome(
            "off_policy_evaluation",
            "states",
            problem,
            {**states, "uncertainty": uncertain(of_states, values=[False, True, False])},
        ),
        Outcome(
            "off_policy_evaluation",
            "a function of features",
            problem,
            {
                "weights": [0.1, 0.9, 0.5],
                "uncertainty": uncertain(
                    {"weights": ([0.0] * 3, [1.0] * 3)}, weights=[False, False, False]
                ),
            },
        ),
    ]


def _agents() -> list[Outcome]:
    problem = {"kind": "multi_agent", "constraints": ["a - 1", "b - 1", "a + b - 1"]}
    values = {"noisy_values": ([-3.0, -2.0, -1.0], [-1.0, -0.5, 1.0])}
    result = {
        "noisy_values": [-2.0, -1.0, 0.1],
        "average_multipliers": [0.0, 0.0, 3.31],
        "uncertainty": uncertain(values),
    }
    broken = {"noisy_values": ([-3.0, 0.5, -1.0], [-1.0, 2.0, 1.0])}
    long = ["+".join(["a * a"] * 40)] * 3
    qp = {"kind": "coupled_qp"}
    rounds = {"rounds": 150, "transcript": "ab"}
    shares = {**qp, "protocol": "mpc"}
    return [
        Outcome("multi_agent", "undetermined", problem, result),
        Outcome(
            "multi_agent",
            "violated",
            {**problem, "constraints": long},
            {
                **result,
                "average_multipliers": [0.0, 4.0, 1.5],
                "uncertainty": uncertain(broken),
            },
        ),
        Outcome(
            "multi_agent",
            "violated at no multiplier",
            problem,
            {
                **result,
                "average_multipliers": [0.0, 0.0, 0.0],
                "uncertainty": uncertain(broken),
            },
        ),
        Outcome(
            "multi_agent",
            "without intervals",
            problem,
            {"noisy_values": [-2.0, 1.0, 0.1], "average_multipliers": [0.0, 0.0, 0.0]},
        ),
        Outcome("coupled_qp", "a job", qp, {**rounds, "status": "converged", "objective": 2.5}),
        Outcome(
            "coupled_qp",
            "a job that did not converge",
            qp,
            {**rounds, "status": "iteration_limit", "objective": 2.5},
        ),
        *(
            Outcome("coupled_qp", f"agents apart, {name}", asked, {**rounds, **status})
            for name, asked, status in (
                ("converged", qp, {"status": "converged"}),
                ("regularized", {**qp, "method": "rpds"}, {"status": "converged"}),
                ("not converged", qp, {"status": "iteration_limit"}),
                ("not asked", qp, {}),
                ("shares", shares, {"status": "converged"}),
                ("shares, not converged", shares, {"status": "iteration_limit"}),
                ("shares, infeasible", shares, {"status": "infeasible"}),
                ("shares, not asked", shares, {}),
            )
        ),
    ]


def _rehearsals() -> list[Outcome]:
    problem = {"kind": "rehearsal", "problem": {"kind": "dr_ensemble"}}
    row = {"quantity": "cost_to_go", "size": 10.0, "error": 0.1, "method": "moments"}
    data = "synthetic trajectories of the public shape"
    rows = [
        {**row, "epsilon": epsilon, "error_of_nine_in_ten": 2 / epsilon} for epsilon in (0.5, 1, 4)
    ]
    return [
        Outcome("rehearsal", "enough", problem, {"rows": rows, "data": data}),
        Outcome("rehearsal", "never enough", problem, {"rows": rows[:2], "data": data}),
        Outcome("rehearsal", "nothing tried", problem, {"rows": [], "data": data}),
    ]


OUTCOMES = [*_routing(), *_loads(), *_policies(), *_agents(), *_rehearsals()]


def page() -> str:
    """All sentences as Markdown: as terminals and lists have them, then spelt out as pages do."""
    lines = ["# Sentences of results", ""]
    for kind in dict.fromkeys(one.kind for one in OUTCOMES):
        lines += [f"## {kind}", ""]
        for one in OUTCOMES:
            if one.kind != kind:
                continue
            lines += [f"**{one.name}**", "", f"- list: {stored_headline(one.problem, one.result)}"]
            for said in headlines_of(one.problem, one.result):
                unit = f" In {said.unit}." if said.unit else ""
                noted = f" *{said.good_for}{unit}*" if said.good_for or unit else ""
                lines.append(f"- page: {intervals.spelt_out(said.text)}.{noted}")
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page())
