"""The fields of a rehearsal's result."""

from __future__ import annotations

from typing import Annotated, Any, Required

from discreet.problems.results import ResultFields, shown

ROWS = (
    "method",
    "epsilon",
    "delta",
    "quantity",
    "size",
    "error",
    "error_of_nine_in_ten",
    "half_width",
    "mostly_noise",
    "no_better_than_zero",
    "runs",
    "farthest",
    "farthest_error",
)


class RehearsalResult(ResultFields, total=False):
    """What the numbers of a problem's answer would be worth, on synthetic data."""

    data: Required[Annotated[str, shown("What the runs were made on", title="Data")]]
    rows: Required[
        Annotated[
            list[dict[str, Any]],
            shown(
                "By method, epsilon and quantity: `size` of the quantity, `error` of the middle "
                "run and of nine in ten, `half_width` of its interval (null without one), the "
                "share of runs that were `mostly_noise`, whether 0 would have been about as good "
                "an answer (`no_better_than_zero`), `runs`; of arrays the mean over their "
                "numbers, and `farthest`, which of their rows is farthest off in the middle run, "
                "with `farthest_error` (null of a single row)",
                title="Errors",
            ),
        ]
    ]
    refused: Required[
        Annotated[
            list[dict[str, Any]],
            shown("Methods and epsilons for which no plan could be made, with `why`"),
        ]
    ]
    reference_epsilon: Required[
        Annotated[
            float,
            shown(
                "Errors are distances to the answer at this epsilon", title="Compared with epsilon"
            ),
        ]
    ]
