"""Names of people's making: one rule on every surface, and what a spreadsheet makes of them."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from discreet.problems.datasets import DatasetSettings
from discreet.problems.off_policy_evaluation.public import FeatureName, PolicyName
from discreet.problems.road_networks.network import Label
from discreet.problems.routing.public import ClassName
from discreet.problems.sources import BlockName
from discreet.usecases import requests
from discreet_client import calls
from discreet_client.errors import RoundedDown
from discreet_client.flows import link_flows
from discreet_client.names import spreadsheet_cell, unseen
from tests import bodies

SHOWN = (
    "Zürich – Süd (2026)",
    "می\u200cخواهم",  # a joiner within a word
    "👨\u200d👩\u200d👧",
    "क्\u200dष",
    "東京\u3000駅",
    "naïve № 5 ≥ 3 €",
    "❤\ufe0f",
)
HIDDEN = {
    "trips\u202eslx.exe": "\u202e",
    "a\nb": "\n",
    "a\tb": "\t",
    "a\x1b[31mb": "\x1b",
    "a\x7fb": "\x7f",
    "a\x85b": "\x85",
    "zero\u200bwidth": "\u200b",
    "ad\u200cmin": "\u200c",
    "ad\u200dmin": "\u200d",
    "soft\u00adhyphen": "\u00ad",
    "\ufeffbom": "\ufeff",
    "a\u2066b\u2069": "\u2066",
    "a\u2028b": "\u2028",
    "tag\U000e0041": "\U000e0041",
    "variant\U000e0100": "\U000e0100",
    "filler\u3164": "\u3164",
    "blank\u2800": "\u2800",
    "private\ue000": "\ue000",
    "nobody\u0378": "\u0378",
}


def _dataset(name: str) -> Any:
    return DatasetSettings.model_validate({"name": name, "cap": {"epsilon": 1, "delta": 0}})


def _of(model: Any, **rest: Any) -> Callable[[str], Any]:
    return lambda name: model.model_validate({"name": name, **rest})


def _type(given: Any) -> Callable[[str], Any]:
    return TypeAdapter(given).validate_python


SURFACES: dict[str, Callable[[str], Any]] = {
    "dataset": _dataset,
    "network": _of(requests.NetworkRequest, network=bodies.network()),
    "tenant": _of(requests.TenantRequest),
    "block": _type(BlockName),
    "zone": _type(Label),
    "class": _type(ClassName),
    "feature": _type(FeatureName),
    "policy": _type(PolicyName),
    "reason": _type(Annotated[str, requests.BudgetRequestRequest.model_fields["reason"]]),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_no_name_holds_what_cannot_be_seen(surface: str) -> None:
    """A dataset was called `trips…slx.exe`, which reads `exe.xls`."""
    take = SURFACES[surface]
    for name in HIDDEN:
        with pytest.raises(ValidationError):
            take(name)
    for name in SHOWN:
        take(name)


@pytest.mark.parametrize("name", HIDDEN)
def test_the_letter_that_cannot_be_seen_is_named(name: str) -> None:
    assert unseen(name) == HIDDEN[name]
    with pytest.raises(ValidationError, match=f"U\\+{ord(HIDDEN[name]):04X} is invisible"):
        _dataset(f"x{name}x")


def test_what_everybody_reads_is_a_name() -> None:
    assert [unseen(name) for name in SHOWN] == [None] * len(SHOWN)


def test_a_name_is_no_formula_in_a_spreadsheet() -> None:
    evil = ['=HYPERLINK("http://x","y")', "+1+1", "-2+3", '@SUM("a")', " =1", "＝1", "-5", "plain"]
    network = {**bodies.network(len(evil)), "node_names": evil}
    result = {"link_flows": [-1.5] * len(network["links"])}
    for form in ("csv", "gmns"):
        text = link_flows(result, network, form).decode()
        cells = {cell for row in csv.reader(io.StringIO(text)) for cell in row}
        formulas = {cell for cell in cells if cell.lstrip()[:1] in tuple("=+@＝")}
        assert formulas == set()
        assert "-1.5" in cells  # numbers stay numbers
    assert [spreadsheet_cell(one) for one in (-5, -5.0, None, "-5", "+1e3", "-,5", "")] == [
        *(-5, -5.0, None, "-5", "+1e3", "-,5", ""),
    ]
    assert spreadsheet_cell("-a") == "'-a"
    assert spreadsheet_cell("\t=1") == "'\t=1"


# Budgets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "sent"),
    [
        ("epsilon", 1 / 3, "0.333333333"),
        ("epsilon", 2 / 3, "0.666666666"),
        ("epsilon", Fraction(1, 3), "0.333333333"),
        ("epsilon", Decimal("0.9999999999"), "0.999999999"),
        ("delta", 1e-6 / 3, "3.33333333333E-7"),
        ("rho", 1 / 7e5, "0.000001428571428571"),
    ],
)
def test_a_budget_between_the_services_steps_is_rounded_down_and_said(
    name: str, given: Any, sent: str
) -> None:
    with pytest.warns(RoundedDown, match=f"{name} .* the service counts in steps of 1e-"):
        body = calls.job_body({"problem": {}}, **{name: given})
    assert body["privacy"][name] == Decimal(sent)
    assert body["privacy"][name] <= Decimal(str(float(given)))


def test_other_budgets_are_sent_as_they_are() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (0.1, 1, 3, Decimal("0.123456789"), 1e-10, 0.0, float("nan"), "auto"):
            body = calls.job_body({"problem": {}}, epsilon=value)
            assert body["privacy"]["epsilon"] is value
    with pytest.warns(RoundedDown):
        assert calls.ladder(None, [0.1, 1 / 3]) == [0.1, Decimal("0.333333333")]


def test_seeds_are_numbers_that_every_client_can_say() -> None:
    field = requests.RehearsalRequest.model_fields["seed"]
    take = _type(Annotated[int, field])
    assert take(2**53 - 1) == 2**53 - 1
    with pytest.raises(ValidationError):
        take(2**53)
