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

from discreet.isolation.children import read_job
from discreet.isolation.spooled import in_memory, opened

PART_BYTES = 8 << 20
"""Of contents that are put in one order, as much is read at once."""


def release_of_samples(header: Mapping[str, Any], descriptor: int, noise: Any) -> dict[str, Any]:
    """What the mechanism releases of the contents of a header (`summing.share`) that lie in the
    file of `descriptor`, as one. In memory at once are `window_bytes` of the header, or what the
    kind says."""
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.parts import (  # noqa: PLC0415
        JoinedContent,
        Records,
        StoredContent,
    )

    problem, public, plan = read_job(header)
    records = DATASETS[header["kind"]].RECORDS
    stored: Any = [StoredContent(opened(one, descriptor), records) for one in header["contents"]]
    if len(stored) == 1:
        (stored,) = stored
    else:
        stored = JoinedContent(stored, problem.unit_keys, records, PART_BYTES)
    window = header.get("window_bytes") or problem.window_bytes(public, plan)
    released: dict[str, Any] = problem.release_sampled(public, plan, Records(stored, window), noise)
    return released


def rehearse(kind: str) -> None:
    """Sample the worst cases of a kind, so that what this needs is imported and compiled. Does
    nothing for a kind without such releases."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.contents import pack  # noqa: PLC0415

    sampled = (case for case in KINDS[kind].worst_cases() if case.plan.sampled_by is not None)
    for number, case in enumerate(sampled):
        with in_memory(pack(case.left)) as (content, descriptor):
            header = {
                "kind": kind,
                "problem": case.problem.model_dump(mode="json"),
                "public": case.public.model_dump(mode="json"),
                "plan": case.plan.model_dump(mode="json"),
            }
            # In several windows, and then in one, which is faster.
            size = sum(array.nbytes for array in case.left.values()) // (1 if number else 4)
            for contents, noise in (
                ([content], Noise.seeded(0)),
                ([content, content], Noise.secure()),  # of several blocks
            ):
                asked = {**header, "contents": contents, "window_bytes": max(1, size)}
                release_of_samples(asked, descriptor, noise)
