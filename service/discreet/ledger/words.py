"""The kinds of entries of the ledger, in words for people."""

from __future__ import annotations

ENTRIES = {
    "open": (
        "Account opened",
        "{actor} opened this account with a cap. The cap is the most that may ever be spent.",
    ),
    "grant": ("Cap changed", "{actor} set another cap. What was spent stays spent."),
    "reserve": (
        "Price reserved",
        "{actor} submitted a job. Its whole price was set aside before any data were touched, so "
        "that nothing else can spend it.",
    ),
    "data_touched": (
        "Data touched",
        "A worker is about to hand private data to the job’s mechanism. From here on the job is "
        "charged in full, whether it succeeds or not.",
    ),
    "commit": (
        "Price charged",
        "The job ended after data were touched. Its price is spent for good.",
    ),
    "release": (
        "Reservation given back",
        "The job ended before any data were touched. Nothing was spent.",
    ),
}
"""Title and meaning of each kind of entry."""
