"""What the children of workers and sessions do: releases, post-processing, and rounds of federated
sessions."""

from __future__ import annotations

import secrets
import socket
import traceback
from collections.abc import Mapping
from typing import Any

from discreet.isolation import sampling, summing
from discreet.isolation.children import load_compiler, read_job
from discreet.isolation.frames import frame, receive, send
from discreet.isolation.tasks import Step, Task


def warm_up() -> None:
    """Run every kind's example once: what children need is then imported and compiled, and they
    open no files."""
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.answers import stored_headline  # noqa: PLC0415
    from discreet.problems.base import rehearse  # noqa: PLC0415
    from discreet.problems.charts import charts_module  # noqa: PLC0415
    from discreet.problems.federation import FederatedProblem  # noqa: PLC0415

    load_compiler()
    for name, kind in KINDS.items():
        join_example(name)
        summing.rehearse(name)
        sampling.rehearse(name)
        result = rehearse(kind)
        published = result.to_json()
        encode(published, result.tables(every=True))
        stored_headline(kind.example()["problem"], published)
        charts_module(name)  # by which a rehearsal names rows
        if issubclass(kind, FederatedProblem):
            kind.rehearse_session()


def join_example(kind: str) -> None:
    """Join two blocks of a kind that has them, so that what this needs is compiled."""
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.base import read_example  # noqa: PLC0415
    from discreet.problems.contents import framed, pack  # noqa: PLC0415
    from discreet.problems.sources import DatasetInBlocks  # noqa: PLC0415

    model = KINDS[kind].Dataset
    if model is not None and issubclass(model, DatasetInBlocks):
        _, dataset, _ = read_example(KINDS[kind])
        assert dataset is not None
        join(kind, dataset.public.model_dump(mode="json"), framed([pack(dataset.rows())] * 2))


def release(task: Task) -> None:
    """Answer what the mechanism releases about the content. Errors are not reported: that would
    be a release."""
    from discreet.problems.contents import pack, unpack  # noqa: PLC0415

    header = task.header
    seed = secrets.randbits(63) if header["seed"] is None else header["seed"]
    noise = summing.noise_of(header["simulation"], seed)
    if header.get("shares"):
        released = summing.release_of_shares(header, task.payload, noise)
        send(task.channel, {"done": True}, pack(released))
        return
    if header.get("contents"):
        released = sampling.release_of_samples(header, task.descriptors[0], noise)
        send(task.channel, {"done": True}, pack(released))
        return
    problem, public, plan = read_job(header)
    if header.get("block") is None:
        content: Any = unpack(task.payload) if task.payload else {}
    else:
        content = join(header["kind"], header["block"], task.payload)
    released = problem.release(public, plan, content, noise)
    if header["simulation"]:
        released |= problem.diagnose(public, plan, content, summing.noise_of(True, seed))
    send(task.channel, {"done": True}, pack(released))


def join(kind: str, block: Any, payload: bytes | bytearray) -> Any:
    """The contents of blocks as one; each comes behind its length. `block`: the public part of
    one."""
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.contents import unframed, unpack  # noqa: PLC0415

    model: Any = DATASETS[kind]
    return model.joined(model.read_public(block), [unpack(part) for part in unframed(payload)])


def finish(task: Task) -> None:
    """Answer progress, tables and the result, or what went wrong: that follows from what was
    released."""
    try:
        finish_on(task.channel, task.header, task.payload)
    except Exception as error:
        send(task.channel, {"error": trace(error)})
        raise


def read_released(header: dict[str, Any], payload: bytes) -> list[tuple[float, Any]]:
    """What was released, once or by several jobs, each with its weight."""
    from discreet.problems.contents import unpack  # noqa: PLC0415

    parts, start = [], 0
    for weight, size in header.get("parts") or [[1.0, len(payload)]]:
        parts.append((weight, unpack(payload[start : start + size])))
        start += size
    return parts


def finish_on(channel: socket.socket, header: dict[str, Any], payload: bytes) -> None:
    """Post-process what was released, in this process, and send what comes of it: tables, and the
    result with its headline, which says nothing that the result does not."""
    from discreet.problems.answers import stored_headline  # noqa: PLC0415
    from discreet.problems.reuse import combine, gain  # noqa: PLC0415

    problem, public, plan = read_job(header)
    parts = read_released(header, payload)
    released = parts[0][1] if len(parts) == 1 else combine(problem, plan, parts)
    result = problem.finish(
        public,
        plan,
        released,
        lambda step, total: channel.sendall(frame({"progress": [step, total]})),
    )
    if len(parts) > 1:
        result = result.beside("combined", gain(plan, [weight for weight, _ in parts]))
    published = result.to_json()
    body, tables = encode(published, result.tables())
    for name, parquet in tables.items():
        send(channel, {"table": name}, parquet)
    send(channel, {"done": True, "headline": stored_headline(header["problem"], published)}, body)


def trace(error: BaseException) -> str:
    """Where an error was raised, without lines of source: they lie in files, which a child cannot
    open."""
    places = [
        f"  {frame.f_code.co_filename}:{line}, {frame.f_code.co_qualname}"
        for frame, line in list(traceback.walk_tb(error.__traceback__))[-20:]
    ]
    return "\n".join([*places, f"{type(error).__name__}: {error}"])


def session(task: Task) -> None:
    """Run one federated session until the coordinator closes the channel: a frame asks, a frame
    answers.

    `header["state"]` says that the payload is a state to go on from.
    """
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.contents import pack  # noqa: PLC0415
    from discreet.problems.federation import Member, SessionFailed  # noqa: PLC0415
    from discreet.problems.plans import Plan  # noqa: PLC0415

    channel, header = task.channel, task.header
    problem: Any = KINDS[header["kind"]].model_validate(header["problem"])
    members = [
        Member(one["fingerprint"], one["name"], bytes.fromhex(one["key"]), one["announcement"])
        for one in header["agents"]
    ]
    session = problem.open_session(Plan.model_validate(header["plan"]), members)
    session.roster_digest = bytes.fromhex(header["roster"])
    seed = header["seed"]
    simulated = None if seed is None else seed + header["round"]
    noise = summing.noise_of(seed is not None, simulated)

    def tell(header: dict[str, Any], kept: bytes, broadcast: bytes) -> None:
        """What the coordinator is told after an opening or a step. What is delivered comes last,
        each text once, however many agents get it; the header has the lengths, and the place of
        each agent's."""
        texts: dict[bytes, int] = {}
        told = sorted(session.deliveries().items())
        places = [(agent, texts.setdefault(text, len(texts))) for agent, text in told]
        header |= {
            "state": len(kept),
            "broadcast": len(broadcast),
            "delivered": [len(text) for text in texts],
            "deliveries": places,
        }
        channel.sendall(frame(header, b"".join([kept, broadcast, *texts])))

    if header["state"]:
        session.restore(task.payload)
        tell({"rounds": session.rounds}, b"", b"")
    else:
        broadcast = session.opening(noise)
        tell({"rounds": session.rounds}, session.state(), broadcast)
    while True:
        try:
            asked, payload = receive(channel)
        except EOFError:
            return
        if "release" in asked:
            channel.sendall(frame({"released": True}, pack(session.released())))
            return
        number = asked["round"]
        messages, start = {}, 0
        for agent, size in asked["messages"]:
            messages[agent] = payload[start : start + size]
            start += size
        faults = {agent: session.fault(number, agent, body) for agent, body in messages.items()}
        usable = {agent: body for agent, body in messages.items() if not faults[agent]}
        if len(usable) < asked["least"]:
            channel.sendall(
                frame({"short": {agent: fault for agent, fault in faults.items() if fault}})
            )
            continue
        try:
            broadcast = session.step(number, usable, noise)
        except SessionFailed as failure:
            channel.sendall(frame({"failed": failure.code, "blamed": failure.blamed}))
            return
        tell({"done": session.done, "used": sorted(usable)}, session.state(), broadcast)


def encode(
    published: Mapping[str, Any], large: Mapping[str, Any]
) -> tuple[bytes, dict[str, bytes]]:
    """The result as canonical JSON, whose digest the certificate carries, and its large fields as
    Parquet."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    from discreet_agent import canonical  # noqa: PLC0415

    body = canonical.dumps(published)
    tables = {}
    for name, table in large.items():
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        tables[name] = sink.getvalue().to_pybytes()
    return body, tables


STEPS: Mapping[str, Step] = {
    "share": summing.share,
    "release": release,
    "finish": finish,
    "session": session,
}
