"""The child that samples a stored content: it draws which units each step takes, reads those from
the sealed contents, and answers what the mechanism releases.

It is given a descriptor of the sealed content and the key that opens it, and reads the whole of it
in order, as often as what it has in memory is to change: neither where it reads nor how much at a
time depends on what was drawn. How often it does so goes with how much is drawn in all, as does the
time that it takes, which is padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.isolation.jobs import read_job
from discreet.isolation.spooled import in_memory, opened


def release_of_samples(header: Mapping[str, Any], descriptor: int, noise: Any) -> dict[str, Any]:
    """What the mechanism releases of the content of a header (`summing.share`) that lies in the
    file of `descriptor`. `window_bytes` of the header, or what the kind says, are in memory at
    once."""
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.parts import StoredContent  # noqa: PLC0415
    from discreet.problems.sampled import Records  # noqa: PLC0415

    problem, public, plan = read_job(header)
    (content,) = header["contents"]
    stored = StoredContent(opened(content, descriptor), DATASETS[header["kind"]].RECORDS)
    window = header.get("window_bytes") or problem.window_bytes(public, plan)
    released: dict[str, Any] = problem.release_sampled(public, plan, Records(stored, window), noise)
    return released


def rehearse(kind: str) -> None:
    """Sample the worst cases of a kind, so that what this needs is imported and compiled. Does
    nothing for a kind without such releases."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.contents import pack  # noqa: PLC0415

    for case in KINDS[kind].worst_cases():
        if case.plan.sampled_by is None:
            continue
        with in_memory(pack(case.left)) as (content, descriptor):
            header = {
                "kind": kind,
                "problem": case.problem.model_dump(mode="json"),
                "public": case.public.model_dump(mode="json"),
                "plan": case.plan.model_dump(mode="json"),
                "contents": [content],
                "window_bytes": 1,
            }
            for noise in (Noise.seeded(0), Noise.secure()):
                release_of_samples(header, descriptor, noise)
