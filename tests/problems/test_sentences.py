"""Every sentence of every kind and outcome: its length, its unit, the kind of its interval."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from discreet.cli import showing
from discreet.problems import JOBS
from discreet.problems.answers import headlines_of, stored_headline
from discreet.problems.results import LONGEST
from discreet_client import intervals
from tests import sentences
from tests.sentences import OUTCOMES, Outcome

UNITS = re.compile(
    r"per period|per meter|per load|kWh|kW|together|%|of \d|rounds|\d (state|link|feature)|minutes"
    r"|State values|multiplier|Total cost|Target|uses|saves|average|epsilon"
)
"""What a figure is of: a unit, or the noun that it counts. Rewards and agents' costs have the unit
of the user's own data."""


def test_every_kind_has_outcomes_and_one_page_has_them_all() -> None:
    assert {one.kind for one in OUTCOMES} == set(JOBS)
    page = sentences.page()
    for one in OUTCOMES:
        assert f"**{one.name}**" in page
        for said in headlines_of(one.problem, one.result):
            assert intervals.spelt_out(said.text) in page


@pytest.mark.parametrize("one", OUTCOMES, ids=lambda one: f"{one.kind}: {one.name}")
def test_a_sentence_is_short_and_names_its_interval(one: Outcome) -> None:
    found = headlines_of(one.problem, one.result)
    assert found
    for said in found:
        clipped = "With clipped weights alone" in said.text  # two sentences
        assert len(said.text) <= LONGEST or clipped, (len(said.text), said.text)
        assert len(said.good_for) <= LONGEST, said.good_for
        assert not said.text.endswith("."), said.text
        assert ". " not in said.text or clipped or said.text.startswith("Target policy")
        assert "…" not in said.text or one.kind == "multi_agent"  # a constraint of the user's own
        # An interval is two ends, or one beside "at least"; each says its kind.
        assert not re.search(r"\d to -?\d[\d.,]*, 90 %", said.text), said.text
        assert "90 % interval" not in said.text, said.text
        for named in re.findall(r"\(90 %[^)]*\)", said.text):
            assert re.match(r"\(90 % (NI|NI with bins|CI)(: |\)| each\))", named), said.text
        if said.figure:
            assert UNITS.search(said.text), said.text
    stored = stored_headline(one.problem, one.result)
    assert stored is not None
    assert stored.removeprefix("Not optimal. ") == found[0].text
    assert "…" not in stored or one.kind == "multi_agent"


def test_a_result_that_states_an_interval_says_it_in_its_answer() -> None:
    """The kind comes from the result: of another one the sentence says another."""
    (one,) = [one for one in OUTCOMES if one.name == "people"]
    assert "(90 % CI: 0.72–0.87)" in headlines_of(one.problem, one.result)[0].text
    (plain,) = [one for one in OUTCOMES if (one.kind, one.name) == ("routing", "answered")]
    said = plain.result["uncertainty"]
    for kind, name in (("noise", "NI"), ("noise_and_bins", "NI with bins"), ("confidence", "CI")):
        told = {**said, "kinds": {"total_travel_time": kind}}
        text = headlines_of(plain.problem, {**plain.result, "uncertainty": told})[0].text
        assert f"(90 % {name}: 73,500–77,400)" in text
        assert name not in intervals.spelt_out(text)


def test_lists_show_every_answer_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line wraps it; the style of pages cuts nothing, however narrow they are."""
    job = {"id": "job_1", "state": "succeeded", "created_at": "2026-11-29T18:00:00Z"}
    found = {stored_headline(one.problem, one.result): one.kind for one in OUTCOMES}
    showing.show_jobs(
        [
            {**job, "kind": kind, "price": {"epsilon": 1.0}, "headline": said}
            for said, kind in found.items()
        ]
    )
    listed = " ".join(capsys.readouterr().out.split())
    for said in found:
        assert str(said) in listed
    style = Path(showing.__file__).parents[1] / "dashboard" / "static" / "style.css"
    rules = [rule for rule in style.read_text().split("}") if ".said {" in rule]
    assert rules
    assert not any("clamp" in rule or "ellipsis" in rule for rule in rules)
