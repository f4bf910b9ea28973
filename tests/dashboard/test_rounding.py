"""Figures are never rounded in the spender's favour, and events are told in words."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.dashboard import rounding, words
from discreet.privacy.attacks.examples import examples
from discreet.privacy.events import REGISTRY

FIGURES = st.one_of(
    st.decimals(min_value=0, max_value=1000, places=9),
    st.decimals(min_value=0, max_value=1, places=18),
)


@given(FIGURES)
def test_up_is_never_less_and_down_never_more(figure: Decimal) -> None:
    assert Decimal(rounding.down(figure)) <= figure <= Decimal(rounding.up(figure))
    assert Decimal(rounding.exact(figure)) == figure
    for shown in (rounding.up(figure), rounding.down(figure)):
        assert abs(Decimal(shown) - figure) <= figure * Decimal(
            "0.001"
        )  # four digits say that much


@given(st.integers(0, 10**12))
def test_what_the_api_says_as_a_float_is_the_ledgers_integer(units: int) -> None:
    """The API's figure is the double nearest to the ledger's decimal; its shortest text is that
    decimal again."""
    figure = float(rounding.epsilon(units))
    assert Decimal(rounding.exact(figure)) == rounding.epsilon(units)


@pytest.mark.parametrize(
    ("figure", "up", "down"),
    [
        (0.1, "0.1", "0.1"),
        (0.100000001, "0.1001", "0.1"),
        (9.9999999, "10", "9.999"),
        (123.456789, "123.5", "123.4"),
        (0, "0", "0"),
        (0.0, "0", "0"),
        (1e-6, "1e-6", "1e-6"),
        (0.00012345678, "1.235e-4", "1.234e-4"),
        (Decimal("0.000000000000000001"), "1e-18", "1e-18"),
        (0.001, "0.001", "0.001"),
    ],
)
def test_as_people_read_it(figure: object, up: str, down: str) -> None:
    assert (rounding.up(figure), rounding.down(figure)) == (up, down)


@pytest.mark.parametrize("name", sorted(examples()))
def test_every_mechanism_has_words(name: str) -> None:
    """Its own words, its scale, its norm: no figure is told by a code name."""
    event = examples()[name].model_dump(mode="json")
    assert event["norm"] in words.NORMS
    said = " ".join(words.event(event))
    assert REGISTRY[name].published in said
    assert rounding.down(event["scale"]) in said
    assert event["neighbours"] in said
    if "charged_epsilon" in event:
        assert rounding.up(rounding.epsilon(event["charged_epsilon"])) in said
