"""Whether a result is the one that its certificate was signed for.

This compares digests; that the certificate itself is signed, and by whom, says
`Client.verify_certificate`, or with no server `discreet certificate verify`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from discreet_client import canonical
from discreet_client.errors import ResultAltered


def binds_result(certificate: Mapping[str, Any]) -> bool:
    """Whether the certificate carries the digest of a result; those of older services do not."""
    return "result_digest" in certificate


def require_result(certificate: Mapping[str, Any], result: Any) -> None:
    """ResultAltered when the certificate binds another result than this one (the JSON member
    `result`)."""
    if binds_result(certificate) and canonical.digest(result) != certificate["result_digest"]:
        raise ResultAltered("the result is not the one that its certificate was signed for")


def require_table(certificate: Mapping[str, Any], name: str, parquet: bytes) -> None:
    """The same of a table, as the bytes of its Parquet file."""
    if binds_result(certificate) and hashlib.sha256(parquet).hexdigest() != certificate[
        "tables"
    ].get(name):
        raise ResultAltered(
            f"the table {name!r} is not the one that its certificate was signed for"
        )


def charged_accounts(entry: Mapping[str, Any]) -> list[str]:
    """The accounts that an entry of `ledger_entry` charged: its own, or, where it stands in the
    chain of a source, that of each of its blocks."""
    return (
        [
            f"{entry['account']}.{number}"
            for first, last in entry["blocks"]
            for number in range(first, last + 1)
        ]
        if "blocks" in entry
        else [entry["account"]]
    )
