"""Certificates of what was asked again, as strangers may write them."""

from __future__ import annotations

from typing import Any

import pytest

from discreet.ledger.certificates import check_followed

FOLLOWS = {"follows_from": {"releases": [{"job": "job_first"}]}}


@pytest.mark.parametrize("nothing", [None, {}, {"releases": []}, {"releases": [{"job": []}]}])
def test_a_certificate_that_follows_from_nothing_does_not_hold(nothing: Any) -> None:
    assert [one.holds for one in check_followed({"follows_from": nothing})] == [False]
    assert check_followed({}) == []


def test_first_certificates_of_any_form_are_looked_at() -> None:
    assert [one.holds for one in check_followed(FOLLOWS, [{}, {"job": []}])] == [False, None]
    # The certificate of another job was given: whoever gave it thinks that it was looked at.
    assert [one.holds for one in check_followed(FOLLOWS, [{"job": "job_other"}])] == [None, False]
    assert [one.holds for one in check_followed(FOLLOWS, [{"job": "job_first"}])] == [False]
