"""Whether a result is the one that its certificate was signed for.

This compares digests only. Whether the certificate itself is signed, and by whom, is checked by
`Client.verify_certificate`, or without a server by `discreet certificate verify`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from discreet_agent import canonical
from discreet_client.errors import ResultAltered


def binds_result(certificate: Mapping[str, Any]) -> bool:
    """Whether the certificate holds the digest of a result; those of older services do not."""
    return "result_digest" in certificate


def require_result(certificate: Mapping[str, Any], result: Any) -> None:
    """Raises ResultAltered when the certificate binds another result than this one (the JSON member
    `result`)."""
    if binds_result(certificate) and canonical.digest(result) != certificate["result_digest"]:
        raise ResultAltered("the result is not the one that its certificate was signed for")


def require_table(certificate: Mapping[str, Any], name: str, parquet: bytes) -> None:
    """Raises ResultAltered when the certificate binds another table of this name than this Parquet
    file."""
    if binds_result(certificate) and hashlib.sha256(parquet).hexdigest() != certificate[
        "tables"
    ].get(name):
        raise ResultAltered(
            f"the table {name!r} is not the one that its certificate was signed for"
        )


def charged_accounts(entry: Mapping[str, Any]) -> list[str]:
    """The accounts that a certificate's `ledger_entry` charged: its own, or, where the entry is
    about blocks of a source, that of each block."""
    return (
        [
            f"{entry['account']}.{number}"
            for first, last in entry["blocks"]
            for number in range(first, last + 1)
        ]
        if "blocks" in entry
        else [entry["account"]]
    )
