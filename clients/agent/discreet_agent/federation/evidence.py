"""Checks the section `cryptographic` of a certificate, whatever the protocol: who has signed a
session of encrypted sums or of a computation on shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet_agent import secure_sum
from discreet_agent.mpc import evidence as on_shares
from discreet_agent.mpc.terms import PROTOCOL


def unsigned(section: Mapping[str, Any]) -> list[str]:
    """Agents (Ed25519 keys in hex) who have not signed what the section says; empty when all have.
    Raises secure_sum.Unacceptable when it cannot be read. The caller must know whose keys these
    are."""
    return (
        on_shares.unsigned(section)
        if section.get("protocol") == PROTOCOL
        else secure_sum.unsigned(section)
    )
