"""What a node of the cluster runs in Dask's worker: it starts a helper, and waits for its end.

Of discreet only this file is loaded there. The helper is a process of its own, since a sandbox is
forked from a process without threads, and may be another user's: what Dask's worker can read is
open to whoever may send tasks to the cluster. It ends when its standard input does, so with
Dask's worker.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys

COMMAND = "DISCREET_CLUSTER_HELPER"
NAME = re.compile(r"job_[0-9a-z]{26}")


def help_with(job_id: str, attempt: int, version: str) -> None:
    """Read shares of this attempt at a job until its release is over.

    ValueError, before anything is started, for what is no such job, and for another version than
    this node's; RuntimeError where no helper runs here.
    """
    if NAME.fullmatch(job_id) is None or type(attempt) is not int or attempt < 1:
        raise ValueError("this is no attempt at a job")
    ours = importlib.metadata.version("discreet")
    if version != ours:
        raise ValueError(f"this node has discreet {ours}, whoever asks has {version}")
    given = shlex.split(os.environ.get(COMMAND, ""))
    command = given or [sys.executable, "-P", "-m", "discreet", "helper"]
    with subprocess.Popen(
        [*command, job_id, str(attempt)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as helper:
        status = helper.wait()
    if status != 0:
        raise RuntimeError("the helper did not run: its log, on this node, says why")
