"""Variables of the environment that look like settings and are none."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from discreet.settings import Settings

BESIDE_SETTINGS = (
    "CREDENTIALS",
    "FAULTS",
    "FAULTS_LOG",
    "FAULTS_SEED",
    "FAULTS_SWITCH",
    "KEY",
    "TOKEN",
    "URL",
)
"""Variables of clients, of kept systemd credentials, and of the tests of faults."""


def unused_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable DISCREET_… that is unknown and so has no effect: misspelt, or
    of an older version."""
    known = {"DISCREET_" + name.upper() for name in (*Settings.model_fields, *BESIDE_SETTINGS)}
    strangers = sorted(
        name
        for name in environment
        if name.upper().startswith("DISCREET_") and name.upper() not in known
    )
    sentences = []
    for name in strangers:
        near = get_close_matches(name.upper(), known, 1, 0.8)
        hint = f"; did you mean {near[0]}?" if near else ""
        sentences.append(f"{name} is not a setting of this version and has no effect{hint}")
    return sentences
