"""Advice on pages calls fields as the forms do."""

from __future__ import annotations

import re

import pytest

from discreet.dashboard.labels import as_labelled, place
from discreet.installation import local
from discreet.problems import KINDS


@pytest.mark.parametrize(
    ("sentence", "on_a_page"),
    [
        (
            "asked with objective=user_equilibrium, also",
            "asked with “Objective: User equilibrium”, also",
        ),
        ("`return_bounds` that are known", "“Return bounds” that are known"),
        ("from a public max_total of the dataset", "from a public “Max total” of the dataset"),
        (
            "method (auto) is importance_sampling, since",
            "method (auto) is importance sampling, since",
        ),
        ("narrower `edges`, or a `power` of", "narrower “Edges”, or a “Power” of"),
        ("the interval of policy_value holds", "the interval of “Value of the policy” holds"),
        ("`discreet rehearse` tries it", "`discreet rehearse` tries it"),
        ("what job_a1_b2 released at /v1/job_lists", "what job_a1_b2 released at /v1/job_lists"),
        ("delta=1e-6 and no_such_field", "delta=1e-6 and no_such_field"),
    ],
)
def test_fields_are_called_as_forms_call_them(sentence: str, on_a_page: str) -> None:
    assert as_labelled(sentence) == on_a_page


def test_places_of_what_is_wrong_are_words() -> None:
    assert place("/privacy/accuracy/around") == "Accuracy, around"
    assert place("/problem/limits/feeder/0") == "Limits, feeder, row 1"
    assert place("") == "The job"


@pytest.mark.parametrize("kind", KINDS)
def test_no_advice_on_a_page_holds_the_raw_name_of_a_field(kind: str) -> None:
    advice = local.plan(KINDS[kind].example())["plan"]["advice"]
    said = [as_labelled(sentence) for sentence in advice]
    assert not [one for one in said if re.search(r"(?<![\w/])[a-z]+(_[a-z]+)+", one)]
