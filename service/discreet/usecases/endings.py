"""Why a job failed and what was charged for it: every code, its sentence, and the one place that
ends a failed job.

A code is a promise to whoever reads it, so it is never used for anything else. Sentences are fixed:
an error made from private data would be a release. What was charged is not guessed from the code;
it is read from the ledger, in the transaction that settles the job, and told after the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems import KINDS
from discreet.storage import jobs, ledger

FAILURES: Mapping[str, str] = {
    # Before data are touched
    "child_not_started": "the worker's machine could not start a process for the solver",
    "not_isolated": "the worker's machine cannot isolate a solver as far as its settings demand",
    "content_unavailable": "the dataset's content could not be read: its storage did not answer, "
    "was full or refused access, or the worker has no room for what the dataset's bounds allow",
    "content_unreadable": "the stored content of the dataset cannot be decrypted: it was changed "
    "or is missing",
    "content_differs": "what lies at the dataset's place is not the content that was registered, "
    "or it changed while it was read",
    "content_missing": "nothing lies at the dataset's place any more",
    "place_unreadable": "the dataset's place could not be read: it did not answer or let nobody "
    "in, or the operator's file of places could not be read",
    "place_forbidden": "the dataset's place may not be read any more: the operator's file of "
    "places does not allow it, or what is there is not read",
    "too_many_failed_reads": "so many reads of places failed for this tenant within a day "
    "(place_failures) that rows of databases are not read again for now",
    "content_not_read": "the process that reads the dataset's content from its place did not "
    "start, or ended without an answer",
    "master_key_unknown": "the content or the stored release is sealed under a master key that "
    "this worker does not have",
    "data_erased": "the dataset was erased before the job could start",
    "first_release_gone": "the release to be asked again is gone: it was erased meanwhile, with "
    "its dataset or at the end of the operator's retention period",
    "first_release_altered": "the release to be asked again, or its certificate, is not as it was "
    "published",
    "first_signing_key_unknown": "the certificate of the job to be asked again is not signed by a "
    "known key",
    "job_altered": "the stored job is not as it was accepted: its rows were changed outside the "
    "service",
    "job_outdated": "the job was accepted by another version of the service, whose requests this "
    "version does not support",
    "object_altered": "a public object that it names, such as a network, was changed or is missing",
    "wait_over": "the budget that it waited for was not freed in time: what is left is held for "
    "the owners of shares",
    "wait_spent": "the budget that it waited for was meanwhile spent by others",
    "wait_overtaken": "the budget that it waited for is promised to smaller jobs ahead of it",
    "wait_late": "it was not decided in the time that it may wait: no worker was running",
    "wait_left": "the principal who asked for it no longer has access",
    # The step on the data: one code, whatever happened
    "solver_failed": "the step on the data ended without a result; only operators see why, since "
    "the reason may reveal something about the data",
    # Post-processing, which sees only what was released
    "result_memory_limit": "computing the result from the release took more memory than a step "
    "may use",
    "result_cpu_limit": "computing the result from the release took more processor time than a "
    "step may use",
    "result_wall_limit": "computing the result from the release took longer than a step may",
    "result_crashed": "the process that computed the result from the release was ended by a signal",
    "result_failed": "an error in the service ended the process that computed the result from the "
    "release",
    "release_unreadable": "the job's stored release can no longer be decrypted: it was changed, "
    "or its key is gone",
    # Anywhere
    "worker_lost": "the workers that ran the job ended or were silent for too long, as often as a "
    "job may fail",
    "restored": "the service was restored from a backup while this job had not ended; it may have "
    "run meanwhile",
    # Sessions of agents
    "roster_unsigned": "nobody signed the roster in the time that the job's terms allow",
    "agents_absent": "too few agents had accepted the roster when the time to join was over",
    "agent_declined": "an agent declined to take part",
    "agent_missing": "an agent sent nothing usable before the round's deadline, and the job's "
    "terms are `abort`",
    "quorum_lost": "fewer agents than the quorum sent something usable before the round's deadline",
    "session_failed": "the session did not run within its limits, as often as it may fail",
}

NOTHING = "nothing was charged"
NOTHING_RESERVED = "nothing was reserved for it, and nothing charged"
IN_FULL = "its full price was charged, since data were touched"


def all_failures() -> dict[str, str]:
    """Every code that a job may fail with, those of the kinds among them, and its sentence."""
    found = dict(FAILURES)
    for kind in KINDS.values():
        found |= getattr(kind, "failures", {})
    return found


async def fail(
    connection: Any, job_id: str, code: str, actor: str, *, about: str | None = None
) -> bool:
    """Settle a job that this transaction holds, and end it as failed; whether it was charged.
    `about` names what the sentence is of, which is public."""
    await ledger.settle(connection, job_id, actor)
    entries = {entry["kind"] for entry in await ledger.reservation(connection, job_id)}
    charge = IN_FULL if "commit" in entries else NOTHING if entries else NOTHING_RESERVED
    said = all_failures()[code] + ("" if about is None else f": {about}")
    await jobs.end(connection, job_id, "failed", error=(code, f"{said}; {charge}"))
    return "commit" in entries
