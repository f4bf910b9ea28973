"""The filters, on integers."""

from __future__ import annotations

from discreet.privacy.filters import Cap, admits, largest_epsilon
from discreet.privacy.units import Price


def test_the_sixth_five_thousandth_of_three_hundredths_is_admitted_exactly() -> None:
    cap, price, total = Cap(30_000_000, 0), Price.pure(5_000_000), Price.zero()
    for _ in range(6):
        assert admits(total.columns(), price, cap) == ["basic"]
        total = total + price
    assert admits(total.columns(), price, cap) == []
    assert largest_epsilon(total.columns(), cap) == 0
