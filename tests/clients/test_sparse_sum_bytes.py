"""docs/protocol.md, "Sums over a sparse graph", read by a second hand: with hashes and ciphers,
nothing of the package but its agents and its server's messages."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from discreet_agent.sparse_sum import Conductor, Demands, DurableAgent, Plan, Roster, answer

P = 2**255 - 19
N, DIMENSION = 12, 3


def hashed(*parts: bytes | str) -> bytes:
    named = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(
        b"".join(struct.pack(">I", len(p)) + p for p in (b"discreet/sparse-sum/v1", *named))
    ).digest()


def u32(*numbers: int) -> bytes:
    return b"".join(struct.pack(">I", number) for number in numbers)


def stream(key: bytes, size: int) -> bytes:
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(size))


def words(key: bytes) -> Any:
    return np.frombuffer(stream(key, 8 * (DIMENSION + 2)), dtype="<u8")


def some(listed: list[int], size: int, data: bytes) -> tuple[dict[int, bytes], bytes]:
    """Who is in it with what is said of each, and the rest."""
    cut = -(-len(listed) // 8)
    bits = "".join(f"{byte:08b}" for byte in data[:cut])
    assert set(bits[len(listed) :]) <= {"0"}
    there, rest = [one for one, bit in zip(listed, bits, strict=False) if bit == "1"], data[cut:]
    said = {one: rest[at * size : (at + 1) * size] for at, one in enumerate(there)}
    return said, rest[len(there) * size :]


def secret(shares: dict[int, bytes], threshold: int) -> bytes:
    """Lagrange at 0, by the schoolbook."""
    points = dict(list(shares.items())[:threshold])
    total = 0
    for i, share in points.items():
        weight = 1
        for j in points:
            if j != i:
                weight = weight * j * pow(j - i, -1, P) % P
        total += int.from_bytes(share, "big") * weight
    return (total % P).to_bytes(32, "big")


def test_the_bytes_of_the_protocol(tmp_path: Path) -> None:
    plan = Plan.choose(N, DIMENSION, 2, gamma=0.1, delta=0.25)
    keys = [Ed25519PrivateKey.generate() for _ in range(N)]
    identities = [key.public_key().public_bytes_raw() for key in keys]
    roster = Roster("bytes", plan, tuple(identities))
    demands = Demands(0.1, 0.0, 2, exposure="accepted")
    agents = [DurableAgent(keys[at], tmp_path / str(at), roster, demands) for at in range(N)]
    values = np.arange(N * DIMENSION, dtype=np.int64).reshape(N, DIMENSION) ** 5 - 10**6
    conductor, told, said = Conductor(roster), {}, {}
    dropped = 4  # after its shares
    for step in range(1, 8):
        told[step] = conductor.messages
        said[step] = {}
        for at, message in told[step].items():
            number = 0  # setup and round are both the first
            assert message[:5] == bytes([step]) + u32(number)
            if (at, step) in ((dropped, 5), (dropped, 6), (dropped, 7)):
                continue
            mine = values[at]
            said[step][at] = answer(agents[at], message, lambda _, mine=mine: mine)
            conductor.take(at, said[step][at])
        found = conductor.advance()
    assert found is not None

    figures = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    words_of_plan = json.dumps(figures, sort_keys=True, separators=(",", ":")).encode()
    signed = {
        "keys": [one.hex() for one in identities],
        "plan": figures,
        "protocol": "discreet/sparse-sum/v1",
        "run": "bytes",
    }
    content = json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()
    R = hashed("roster", content)
    owner = Ed25519PrivateKey.generate()
    owner.public_key().verify(roster.signed_by(owner), R)

    members = [said[2][at] for at in range(N)]
    assert told[3][0][5:] == b"".join(members)
    exchanges = [one[32:64] for one in members]
    nonces = [one[64:96] for one in members]
    for at in range(N):
        assert said[1][at] == hashed("commitment", identities[at], exchanges[at], nonces[at])
        assert members[at][:32] == identities[at]
    assert told[2][0][5:] == b"".join(said[1][at] for at in range(N))
    listed = hashed("commitments", *(said[1][at] for at in range(N)))
    for at in range(N):
        entry = hashed(
            "member", R, words_of_plan, listed, identities[at], exchanges[at], nonces[at]
        )
        Ed25519PublicKey.from_public_bytes(identities[at]).verify(members[at][96:], entry)
    seed = hashed("seed", *nonces)
    entries = [one + other for one, other in zip(identities, exchanges, strict=True)]
    context = hashed("group", R, listed, seed, words_of_plan, *entries)
    assert set(said[3].values()) == {context}

    def order(label: bytes) -> list[int]:
        return sorted(range(N), key=lambda at: hashlib.sha256(seed + label + u32(at)).digest())

    circle, half = order(b"graph"), plan.neighbours // 2
    assert plan.neighbours < N - 1
    place = {at: position for position, at in enumerate(circle)}
    steps = [step for step in range(-half, half + 1) if step]
    near = {at: sorted(circle[(place[at] + step) % N] for step in steps) for at in range(N)}
    jury = sorted(order(b"jury" + u32(0))[: plan.jurors])
    assert sorted(told[6]) == jury

    secrets = [
        X25519PrivateKey.from_private_bytes(
            bytes.fromhex(json.loads((tmp_path / str(at) / "setup").read_text())["exchange"])
        )
        for at in range(N)
    ]

    def key(use: bytes, sender: int, recipient: int) -> bytes:
        shared = secrets[sender].exchange(X25519PublicKey.from_public_bytes(exchanges[recipient]))
        extracted = hmac.digest(bytes(32), shared, "sha256")
        info = use + context + u32(0, sender, recipient)
        return hmac.digest(extracted, info + b"\x01", "sha256")

    def mask(one: int, other: int) -> bytes:
        return key(b"mask", min(one, other), max(one, other))

    def payload(kind: int, at: int, frame: bytes) -> bytes:
        statement = context + bytes([kind]) + u32(0, at) + hashed("payload", frame[:-64])
        Ed25519PublicKey.from_public_bytes(identities[at]).verify(frame[-64:], statement)
        return frame[:-64]

    k, shares = plan.neighbours, {at: payload(1, at, frame) for at, frame in said[4].items()}
    pairs: dict[int, dict[int, bytes]] = {at: {} for at in range(N)}
    for at, body in shares.items():
        assert len(body) == 64 + 124 * k
        for number, other in enumerate(near[at]):
            box = body[64 + 92 * number :][:92]
            assert some(near[other], 92, told[5][other][5:])[0][at] == box
            pair = ChaCha20Poly1305(key(b"seal", at, other)).decrypt(box[:12], box[12:], b"")
            pairs[at][number + 1] = pair
    own = {
        at: secret({i: pair[:32] for i, pair in of.items()}, plan.threshold)
        for at, of in pairs.items()
    }
    second = {
        at: secret({i: pair[32:] for i, pair in of.items()}, plan.threshold)
        for at, of in pairs.items()
    }
    for at, body in shares.items():
        assert body[:64] == hashed("secret", context, own[at]) + hashed(
            "secret", context, second[at]
        )
        escrow, pad = body[64 + 92 * k :], stream(hashed("escrow", context, second[at]), 32 * k)
        opened = bytes(one ^ other for one, other in zip(escrow, pad, strict=True))
        assert opened == b"".join(mask(at, other) for other in near[at])

    survivors = sorted(set(range(N)) - {dropped})
    for at in survivors:
        body = payload(2, at, said[5][at])
        total = np.array([*values[at], 1, 1]).view(np.uint64) + words(
            hashed("own", context, own[at])
        )
        for other in near[at]:
            total = total + words(mask(at, other)) * np.uint64(1 if at < other else 2**64 - 1)
        proofs = b"".join(key(b"in", at, other)[:16] for other in near[at])
        assert body == total.astype("<u8").tobytes() + proofs

    bits = sum(1 << (15 - at) for at in survivors).to_bytes(2, "big")
    for at in survivors:
        body = told[7][at][5:]
        assert body[:2] == bits
        votes, rest = some(jury, 64, body[2:])
        assert len(votes) == plan.quorum
        for juror, vote in votes.items():
            assert payload(3, juror, bits + vote) == bits
        proofs_of, rest = some(near[at], 16, rest)
        assert rest == b""
        assert proofs_of == {
            other: key(b"in", other, at)[:16] for other in near[at] if other != dropped
        }
        given, rest = some(near[at], 32, payload(4, at, said[7][at]))
        assert rest == b""
        for other, share in given.items():
            pair = pairs[other][near[other].index(at) + 1]
            assert share == (pair[32:] if other == dropped else pair[:32])
    assert sorted(told[7]) == survivors
    assert found.tolist() == values[survivors].sum(axis=0).tolist()
    for one in agents:
        one.close()
