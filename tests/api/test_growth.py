"""Refusals cost in proportion to what is refused, for every call of the contract; `make hostile`
sends more of it."""

from __future__ import annotations

import json

import pytest

from discreet.api.contract import contract
from tests.conftest import Installation
from tests.hostile import contract as walk

SIZE = 8_000


def test_every_call_with_a_body_is_walked() -> None:
    walked = {(wrong.path, wrong.method) for wrong in walk.wrongs()}
    for path, calls in json.loads(contract())["paths"].items():
        for method, call in calls.items():
            assert (path, method) in walked or ("{" not in path and "requestBody" not in call)


@pytest.mark.long
def test_refusals_cost_in_proportion(api_only: Installation) -> None:
    found = [walk.grow(api_only, wrong, SIZE) for wrong in walk.wrongs()]
    assert len(found) > 300
    assert [
        (one.wrong.name, one.seconds, one.ratio, one.told) for one in found if not one.held
    ] == []
