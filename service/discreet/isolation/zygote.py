"""The zygote: a process with everything imported and compiled that forks one isolated child a step.

A fresh interpreter would spend seconds on imports for a release of milliseconds. The zygote holds no data, no secrets,
no database address and no random state: a child draws its own from the operating system. Each child is confined
before it reads its first byte, and dies with the zygote, which dies with its worker.

Protocol on the control socket: when it is ready the zygote says in one JSON message how well its children are shut in.
Then the worker sends the limits as JSON with one end of a socket pair; the zygote answers `c` with two descriptors: of
the child's process (pidfd), by which the worker kills it, and of a pipe that tells how the child ended (JSON: wait
status and processor time); or `n` and a sentence when the machine gives no process.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import secrets
import select
import signal
import socket
import sys
import traceback
from dataclasses import asdict
from typing import Any

from discreet.isolation.frames import HEADER, OUT_OF_MEMORY, frame, lengths
from discreet.isolation.processes import ends_with_parent, keep_memory_private
from discreet.isolation.sandbox import Isolation, Sandbox, attempts

PROBE_LIMITS = {"memory_bytes": 1 << 40, "cpu_seconds": 10}
PROBE_SECONDS = 60.0


def main(control: socket.socket) -> None:
    """Fork a child for every request until the worker closes the control socket."""
    if not ends_with_parent(signal.SIGKILL):
        return
    keep_memory_private()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # what ignores it never learns how a child ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to handle
    _warm_up()
    _keep_kernels_in_memory()
    gc.freeze()
    sandbox = Sandbox.prepare()
    control.sendall(json.dumps(asdict(measure(sandbox))).encode())
    children: dict[int, tuple[int, int]] = {}  # pidfd: process, pipe to tell its end
    events = select.poll()
    events.register(control, select.POLLIN)
    while True:
        for descriptor, _ in events.poll():
            if descriptor in children:
                events.unregister(descriptor)
                _tell_end(descriptor, *children.pop(descriptor))
                continue
            limits, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
            if not limits:
                return
            with socket.socket(fileno=descriptors[0]) as job:
                started = _start(sandbox, control, job, json.loads(limits))
            if started is not None:
                watch, pid, report = started
                children[watch] = (pid, report)
                events.register(watch, select.POLLIN)


def _start(
    sandbox: Sandbox, control: socket.socket, job: socket.socket, limits: dict[str, Any]
) -> tuple[int, int, int] | None:
    """Fork a child for `job` and answer the worker: pidfd, process and pipe; None when the machine gives none."""
    told, report = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(told)
        os.close(report)
        control.sendall(b"n" + str(error.strerror).encode())
        return None
    if pid == 0:
        control.close()
        _child(sandbox, job, limits)
    watch = os.pidfd_open(pid)  # it is there until this process has waited for it
    socket.send_fds(control, [b"c"], [watch, told])
    os.close(told)
    return watch, pid, report


def _tell_end(watch: int, pid: int, report: int) -> None:
    """Say how a child that has ended did so; nobody may be listening any more."""
    _, status, used = os.wait4(pid, 0)
    with contextlib.suppress(OSError):
        os.write(report, json.dumps({"status": status, "cpu_seconds": used.ru_utime + used.ru_stime}).encode())
    os.close(report)
    os.close(watch)


def _warm_up() -> None:
    """Run every kind's example once: what children need is then imported and compiled, and they open no files."""
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.base import FederatedProblem, rehearse  # noqa: PLC0415

    load_compiler()
    for kind in KINDS.values():
        _encode(rehearse(kind), every_table=True)
        if issubclass(kind, FederatedProblem):
            kind.rehearse_session()


def load_compiler() -> None:
    """Compile something, so that a child that may open no file can compile what no rehearsal met.

    Kernels that lie in numba's cache are loaded without the compiler, whose parts would be imported then.
    """
    import numba  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    def doubled(values: Any) -> Any:
        return values + values

    numba.njit(doubled)(np.arange(3))


def _keep_kernels_in_memory() -> None:
    """A child that meets what no rehearsal met compiles it for itself; numba would fail on its cache's files."""
    from numba.core.caching import Cache  # noqa: PLC0415

    Cache.load_overload = lambda _cache, _signature, _context: None  # type: ignore[method-assign]
    Cache.save_overload = lambda _cache, _signature, _compiled: None  # type: ignore[method-assign]


def measure(sandbox: Sandbox) -> Isolation:
    """How well a child is shut in, as tried by one that then ends."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            walls = sandbox.enter(theirs, PROBE_LIMITS)
            socket.socket(fileno=3).sendall(json.dumps([attempts(), walls]).encode())
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        ours.settimeout(PROBE_SECONDS)
        try:
            answer = b"".join(iter(lambda: ours.recv(4096), b""))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.waitpid(pid, 0)
    if not answer:
        raise RuntimeError("a child cannot be shut in")
    return Isolation.of(*json.loads(answer))


def _child(sandbox: Sandbox, job: socket.socket, limits: dict[str, Any]) -> None:
    """Run one step and leave; never returns."""
    try:
        sandbox.enter(job, limits)
        _step()
        os._exit(0)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException:
        os._exit(1)


def _step() -> None:
    from discreet.problems import DATASETS, KINDS  # noqa: PLC0415
    from discreet.problems.base import Plan, unpack  # noqa: PLC0415

    channel = socket.socket(fileno=3)
    header, payload = _receive(channel)
    problem = KINDS[header["kind"]].model_validate(header["problem"])
    if header["step"] == "session":
        _session(channel, problem, Plan.model_validate(header["plan"]), header, payload)
        return
    public = None if header["public"] is None else DATASETS[header["kind"]].read_public(header["public"])
    plan = Plan.model_validate(header["plan"])
    if header["step"] == "release":
        _release(channel, problem, public, plan, unpack(payload) if payload else {}, header)
    else:
        try:
            _finish(channel, problem, public, plan, unpack(payload))
        except Exception:  # post-processing: its error text follows from what was released
            channel.sendall(frame({"error": traceback.format_exc(limit=20)}))
            raise


def _release(
    channel: socket.socket, problem: Any, public: Any, plan: Any, content: Any, header: dict[str, Any]
) -> None:
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems.base import pack  # noqa: PLC0415

    if header["simulation"]:
        seed = secrets.randbits(63) if header["seed"] is None else header["seed"]
        released = problem.release(public, plan, content, Noise.seeded(seed))
        released |= problem.diagnose(public, plan, content, Noise.seeded(seed))
    else:
        released = problem.release(public, plan, content, Noise.secure())
    channel.sendall(frame({"done": True}, pack(released)))


def _finish(channel: socket.socket, problem: Any, public: Any, plan: Any, released: Any) -> None:
    result = problem.finish(
        public, plan, released, lambda step, total: channel.sendall(frame({"progress": [step, total]}))
    )
    body, tables = _encode(result)
    for name, parquet in tables.items():
        channel.sendall(frame({"table": name}, parquet))
    channel.sendall(frame({"done": True}, body))


def _session(channel: socket.socket, problem: Any, plan: Any, header: dict[str, Any], state: bytes) -> None:
    """Run one federated session until the coordinator closes the channel: a frame asks, a frame answers.

    `header["state"]` says that `state` is one to go on from.
    """
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems.base import Member, SessionFailed, pack  # noqa: PLC0415

    members = [
        Member(one["fingerprint"], one["name"], bytes.fromhex(one["key"]), one["announcement"])
        for one in header["agents"]
    ]
    session = problem.open_session(plan, members)
    seed = header["seed"]
    noise = Noise.secure() if seed is None else Noise.seeded(seed + header["round"])
    if header["state"]:
        session.restore(state)
        channel.sendall(frame({"rounds": session.rounds}))
    else:
        broadcast = session.opening(noise)
        opened = session.state()
        channel.sendall(frame({"rounds": session.rounds, "state": len(opened)}, opened + broadcast))
    while True:
        try:
            asked, payload = _receive(channel)
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
        usable = {agent: body for agent, body in messages.items() if session.accepts(number, agent, body)}
        if len(usable) < asked["least"]:
            channel.sendall(frame({"short": sorted(set(messages) - set(usable))}))
            continue
        try:
            broadcast = session.step(number, usable, noise)
        except SessionFailed as failure:
            channel.sendall(frame({"failed": failure.code}))
            return
        kept = session.state()
        channel.sendall(frame({"done": session.done, "state": len(kept), "used": sorted(usable)}, kept + broadcast))


def _encode(result: Any, *, every_table: bool = False) -> tuple[bytes, dict[str, bytes]]:
    """The result as JSON, and its large fields as Parquet."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    body = json.dumps(result.to_json(), allow_nan=False, separators=(",", ":")).encode()
    tables = {}
    for name, table in result.tables(every=every_table).items():
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        tables[name] = sink.getvalue().to_pybytes()
    return body, tables


def _receive(channel: socket.socket) -> tuple[dict[str, Any], bytes]:
    header, payload = lengths(_exactly(channel, HEADER.size))
    return json.loads(_exactly(channel, header)), _exactly(channel, payload)


def _exactly(channel: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = channel.recv_into(view)
        if count == 0:
            raise EOFError
        view = view[count:]
    return bytes(buffer)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
