"""The zygote: a process with everything imported and compiled that forks one isolated child a step.

A fresh interpreter would spend seconds on imports for a release of milliseconds. The zygote holds no data, no secrets,
no database address and no random state: a child draws its own from the operating system. Each child is confined
before it reads its first byte, and dies with the zygote, which dies with its worker.

Protocol on the control socket: the worker sends the limits as JSON with one end of a socket pair; the zygote answers
one byte with a file descriptor of the child's process (pidfd), by which the worker kills it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import secrets
import signal
import socket
import sys
import traceback
from typing import Any

from discreet.worker.frames import HEADER, frame, lengths

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CLONE_NEWIPC = 0x08000000
NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


def main(control: socket.socket) -> None:
    """Fork a child for every request until the worker closes the control socket."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel; the worker watches their pidfds
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to handle
    _warm_up()
    gc.freeze()
    control.sendall(b"r")
    while True:
        limits, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not limits:
            return
        job = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            control.close()
            _child(job, json.loads(limits))
        try:
            watch = os.pidfd_open(pid)
        except ProcessLookupError:  # gone already; the worker reads the end of its stream
            watch = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(control, [b"c"], [watch])
        os.close(watch)
        job.close()


def _warm_up() -> None:
    """Run every kind's example once: what children need is then imported and compiled, and they open no files."""
    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.base import FederatedProblem, rehearse  # noqa: PLC0415

    for kind in KINDS.values():
        _encode(rehearse(kind), every_table=True)
        if issubclass(kind, FederatedProblem):
            kind.rehearse_session()


def _child(job: socket.socket, limits: dict[str, Any]) -> None:
    """Run one step and leave; never returns."""
    try:
        confine(job, limits)
        _step(job)
        os._exit(0)
    except BaseException:
        os._exit(1)


def confine(job: socket.socket, limits: dict[str, Any]) -> None:
    """Leave everything behind that a step does not need. What the kernel refuses to an ordinary user is left out."""
    os.setsid()
    os.environ.clear()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.dup2(job.fileno(), 3)
    os.closerange(4, 1 << 16)
    os.chdir("/")
    root = os.geteuid() == 0
    namespaces = CLONE_NEWNET | CLONE_NEWIPC
    _libc.unshare(namespaces if root else namespaces | CLONE_NEWUSER)
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_NOFILE, 64),
    ):
        _, hard = resource.getrlimit(name)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (most, most))
    if root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(PR_SET_DUMPABLE, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # last: a change of uid clears it


def _step(job: socket.socket) -> None:
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
