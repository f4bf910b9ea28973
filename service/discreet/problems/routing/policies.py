"""A routing policy as it is published: as JSON and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from discreet.solvers.traffic.traffic_assignment import (
    Policy,
)


def policy_json(policy: Policy) -> list[dict[str, Any]]:
    links = policy.links.tolist()
    path_start = policy.path_start.tolist()
    pair_start = policy.pair_start.tolist()
    share = policy.share.tolist()
    return [
        {
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


def policy_table(policy: Policy) -> pa.Table:
    """One row a path: origin, destination, share, links."""
    paths_of_pair = np.diff(policy.pair_start)
    return pa.table(
        {
            "origin": np.repeat(policy.origin + 1, paths_of_pair),
            "destination": np.repeat(policy.destination + 1, paths_of_pair),
            "share": policy.share,
            "links": pa.LargeListArray.from_arrays(policy.path_start, policy.links),
        }
    )
