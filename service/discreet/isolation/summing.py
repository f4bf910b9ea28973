"""The children that sum a content by parts, and the one that adds noise to what they found.

    share    reads its share of the sealed contents, part by part, and answers with integer sums
    release  adds up the sums of all shares and adds noise, once (`solving`)

The sums of a share are as private as the content. Three processes see them: the child that made
them; the worker, which could open the content itself and hands them on unread, from one private
socket to another; and the child that adds noise. They are never stored, logged or counted.

A share's child is given a descriptor of the sealed contents and the keys that open these and
nothing else. It adds no noise, and answers with nothing but sums.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from discreet.isolation.children import read_job
from discreet.isolation.frames import receive, send
from discreet.isolation.spooled import ask_ahead, in_memory, opened
from discreet.isolation.tasks import Task

NeedsOfContents = Callable[[int, int, int], None]
"""Called with the number of a content and the first and last of its sealed chunks before these are
read."""


def noise_of(simulation: bool, seed: int | None) -> Any:
    """The noise of a child's release or session, from its beginning: the one place where a child
    gets any."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415

    if not simulation:
        return Noise.secure()
    return Noise.seeded(secrets.randbits(63) if seed is None else seed)


def share(task: Task) -> None:
    """Answer with the sums of a share. Errors are not reported: they may depend on the data.

    The header is that of a release, with `contents`, each `{name, data_key, offset, sealed_bytes}`
    in the file of the first descriptor, `share` (number and of how many), and `part_bytes`. With
    `fetched` the file is empty at first: the child asks for chunks (`{need: [content, first,
    last]}`), and reads them once they are answered.
    """
    from discreet.problems.contents import pack  # noqa: PLC0415

    needs = _asking(task.channel) if task.header.get("fetched") else None
    sums = sums_of_share(task.header, task.descriptors[0], needs)
    send(task.channel, {"done": True}, pack(sums))


def _asking(channel: socket.socket) -> NeedsOfContents:
    there: set[tuple[int, int]] = set()

    def needs(content: int, first: int, last: int) -> None:
        wanted = {(content, chunk) for chunk in range(first, last + 1)}
        if not wanted <= there:
            send(channel, {"need": [content, first, last]})
            receive(channel)
            there.update(wanted)

    return needs


def sums_of_share(
    header: Mapping[str, Any], descriptor: int, needs: NeedsOfContents | None = None
) -> dict[str, Any]:
    """Integer sums over the units of a share; in a simulation, whose data are public, also those of
    what it shows of the data."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems.parts import add, share_of  # noqa: PLC0415

    problem, public, plan = read_job(header)
    contents = _contents(header, descriptor, needs)
    total: dict[str, Any] = {}
    place, shares = header["share"]
    for part in share_of(contents, place, shares, header["part_bytes"]):
        add(total, problem.part_sums(public, plan, part))
        if header["simulation"]:
            add(total, problem.diagnose(public, plan, part, Noise.seeded(0)))
    return total


def release_of_shares(
    header: Mapping[str, Any], payload: bytes | bytearray, noise: Any
) -> dict[str, Any]:
    """What the mechanism releases of the sums of all shares, of which the payload holds each behind
    its length; in a simulation, with what it shows of the data."""
    from discreet.problems.contents import unframed, unpack  # noqa: PLC0415
    from discreet.problems.parts import add  # noqa: PLC0415

    problem, public, plan = read_job(header)
    total: dict[str, Any] = {}
    for sums in unframed(payload):
        add(total, unpack(sums))
    shown = {name: total.pop(name) for name in list(total) if name.startswith("true_")}
    return {**problem.release_sums(public, plan, total, noise), **shown}


def _contents(
    header: Mapping[str, Any], descriptor: int, needs: NeedsOfContents | None = None
) -> list[Callable[[], Any]]:
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.parts import StoredContent  # noqa: PLC0415

    records = DATASETS[header["kind"]].RECORDS
    found: list[Callable[[], Any]] = []
    for place, one in enumerate(header["contents"]):
        fetch = None if needs is None else partial(needs, place)
        ahead = None if fetch is None else partial(ask_ahead, one, fetch)
        found.append(partial(StoredContent, opened(one, descriptor, fetch), records, ahead))
    return found


def rehearse(kind: str) -> None:
    """Sum the example of a kind in two shares, so that what this needs is imported and compiled.
    Does nothing for a kind without such releases."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.base import read_example  # noqa: PLC0415
    from discreet.problems.contents import framed, pack  # noqa: PLC0415

    problem, dataset, budget = read_example(KINDS[kind])
    if dataset is None or (plan := problem.plan(dataset.public, budget)).parts_by is None:
        return
    header = {
        "kind": kind,
        "problem": problem.model_dump(mode="json"),
        "public": dataset.public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "simulation": True,
        "part_bytes": 1,
    }
    with in_memory(pack(dataset.rows())) as (content, descriptor):
        header["contents"] = [content]
        shares = [sums_of_share({**header, "share": [one, 2]}, descriptor) for one in range(2)]
    release_of_shares(header, framed(map(pack, shares)), Noise.seeded(0))
