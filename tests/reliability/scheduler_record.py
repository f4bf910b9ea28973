"""A preload of Dask's scheduler: what tasks it was sent and what came back of them, one JSON object
a line, in the file that RECORD names."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin


class Record(SchedulerPlugin):  # type: ignore[misc]
    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def transition(
        self, key: str, start: str, finish: str, *_: Any, stimulus_id: str, **more: Any
    ) -> None:
        task = self._scheduler.tasks[key].run_spec
        noted: dict[str, Any] = {"task": key, "from": start, "to": finish}
        if finish == "waiting":
            noted |= {
                "runs": f"{task.func.__module__}.{task.func.__qualname__}",
                "arguments": list(task.args),
                "named": dict(task.kwargs),
                "bytes": len(pickle.dumps(task)),
                "annotations": self._scheduler.tasks[key].annotations,
            }
        if finish == "memory":
            noted["result"] = more["typename"]
        with Path(os.environ["RECORD"]).open("a") as record:
            print(json.dumps(noted), file=record)


def dask_setup(scheduler: Any) -> None:
    scheduler.add_plugin(Record(scheduler))
