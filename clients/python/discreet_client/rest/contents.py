"""The forms of datasets' contents by kind, which `discreet_client.forms` explains."""
# Made from openapi/openapi.json by `make sdk`.

from __future__ import annotations

from discreet_client.forms import Forms

CONTENTS: dict[str, Forms] = {
    "dr_ensemble": {
        "fields": ["power", "trajectories", "transitions"],
        "arrays": [
            {"axes": ["participant", "step"], "integers": True, "value": "state"},
            {"axes": ["from", "to"], "sparse": True, "value": "probability"},
        ],
    },
    "multi_agent": {"fields": ["initial", "objectives"], "arrays": []},
    "off_policy_evaluation": {"fields": ["transitions"], "arrays": []},
    "routing": {
        "fields": ["trips"],
        "arrays": [
            {
                "axes": ["period", "origin", "destination"],
                "first": [0, 1, 1],
                "sparse": True,
                "value": "count",
            }
        ],
    },
}
