"""What pages say of a submitted problem."""

from __future__ import annotations

from typing import Any

import pytest

from discreet.dashboard.submissions import as_text
from discreet.storage.tenants import Principal
from discreet.usecases.jobs import problem_view

PROBLEM: dict[str, Any] = {
    "kind": "coupled_qp",
    "operator": {"c": [1.25, 3.5], "d": [-7.75]},
    "agents": {"count": 3, "coupled": 2, "constraints": 1},
}


@pytest.mark.parametrize(
    ("own", "protocol", "told"),
    [(True, "federated", True), (False, "federated", False), (False, "job", True)],
)
def test_what_the_operator_holds_is_shown_to_nobody_else(
    own: bool, protocol: str, told: bool
) -> None:
    """The coefficients c and d of a session are the operator's; in a job of one process they are
    declared public."""
    row = {"principal": "submitter", "problem": {**PROBLEM, "protocol": protocol}}
    viewer = Principal("ten_1", "submitter" if own else "somebody", "analyst", "key_1")
    text = as_text(problem_view(row, viewer))
    assert ("3.5" in text) == told
    assert '"count": 3' in text
