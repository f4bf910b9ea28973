"""A routing policy as it is published: as JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.problems.results import Output
from discreet.solvers.traffic.traffic_assignment import Policy


def policy_output(policy: Policy, classes: Sequence[str] = ()) -> Output:
    """The field of a result; with `classes` of users one for each of them."""
    return Output(
        lambda: policy_json(policy, classes),
        numbers=int(policy.links.size + policy.share.size + 2 * policy.origin.size),
        table=lambda: policy_table(policy, classes),
    )


def policy_json(policy: Policy, classes: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Its pairs; with `classes` of users those of the first, then those of the next."""
    size = policy.origin.size // max(1, len(classes))
    links = policy.links.tolist()
    path_start = policy.path_start.tolist()
    pair_start = policy.pair_start.tolist()
    share = policy.share.tolist()
    return [
        {
            **({"user_class": classes[pair // size]} if classes else {}),
            "origin": origin + 1,
            "destination": destination + 1,
            "paths": [
                {"links": links[path_start[path] : path_start[path + 1]], "share": share[path]}
                for path in range(pair_start[pair], pair_start[pair + 1])
            ],
        }
        for pair, (origin, destination) in enumerate(
            zip(policy.origin.tolist(), policy.destination.tolist(), strict=True)
        )
    ]


def policy_table(policy: Policy, classes: Sequence[str] = ()) -> pa.Table:
    """One row per path: origin, destination, share, links; with `classes` of users the class
    first."""
    paths_of_pair = np.diff(policy.pair_start)
    own = {}
    if classes:
        each = np.repeat(np.arange(len(classes)), policy.origin.size // len(classes))
        names = pa.array(list(classes))
        own["user_class"] = names.take(pa.array(np.repeat(each, paths_of_pair)))
    return pa.table(
        {
            **own,
            "origin": np.repeat(policy.origin + 1, paths_of_pair),
            "destination": np.repeat(policy.destination + 1, paths_of_pair),
            "share": policy.share,
            "links": pa.LargeListArray.from_arrays(policy.path_start, policy.links),
        }
    )
