"""The section of the documentation that explains each page."""

from __future__ import annotations

from discreet.dashboard import handbook

PARAGRAPHS = {
    "admin.html": "dashboard#administration",
    "audit.html": "dashboard#the-audit",
    "budget.html": "dashboard#budgets",
    "budgets.html": "dashboard#budgets",
    "certificate.html": "dashboard#a-job-and-its-answer",
    "changes.html": "dashboard#changes",
    "compare.html": "dashboard#two-jobs-side-by-side",
    "compare_choose.html": "dashboard#two-jobs-side-by-side",
    "dataset.html": "dashboard#datasets",
    "dataset_content.html": "dashboard#registering-a-dataset",
    "dataset_correct.html": "dashboard#correcting-a-dataset",
    "dataset_delete.html": "dashboard#deleting-a-dataset",
    "dataset_new.html": "dashboard#registering-a-dataset",
    "datasets.html": "dashboard#datasets",
    "entry.html": "dashboard#the-ledger",
    "help.html": "index#all-pages",
    "help_search.html": "index#all-pages",
    "job.html": "dashboard#a-job-and-its-answer",
    "job_new.html": "dashboard#a-new-job",
    "jobs.html": "dashboard#jobs",
    "ledger.html": "dashboard#the-ledger",
    "login.html": "dashboard#logging-in",
    "login_link.html": "dashboard#logging-in",
    "logged_out.html": "dashboard#logging-in",
    "network.html": "dashboard#networks",
    "network_new.html": "dashboard#a-network-from-files",
    "networks.html": "dashboard#networks",
    "operations.html": "dashboard#operations",
    "problem.html": "dashboard#when-something-is-refused",
    "signed_in.html": "dashboard#logging-in",
    "source.html": "sources#what-is-guaranteed",
    "sources.html": "sources#what-a-source-says",
    "results/policy.html": "dashboard#charts",
}
"""By template: a page of `docs/` and the anchor of a heading on it."""


def of(template: str) -> str:
    """The address of the section that explains what this template shows."""
    name, _, anchor = PARAGRAPHS[template].partition("#")
    return f"{handbook.address(name)}#{anchor}"


def of_fields(kind: str) -> str:
    """The address of the section that explains the fields of a kind's problem and data."""
    return f"{handbook.address(f'problems/{kind}')}#request"
