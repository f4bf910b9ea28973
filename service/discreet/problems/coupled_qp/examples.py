"""The example of the kind, which is small and really runs, and further inputs for rehearsals and
attacks."""

from __future__ import annotations

import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.privacy.noise import Noise
from discreet.problems.contents import pack, unpack
from discreet.problems.coupled_qp import shares_session
from discreet.problems.coupled_qp.session import TwoRounds
from discreet.problems.federation import FederatedProblem, Member
from discreet_agent import paillier, secure_sum


def example() -> dict[str, Any]:
    """The example of the paper (Huo & Liu, section V-A) with masks, which are fast."""
    return {
        "problem": {
            "kind": "coupled_qp",
            "mode": "simulation",
            "operator": {"c": [1, 1], "d": [-1, 1]},
            "agents": [
                {
                    "A_u": [[-0.2, 0], [1, -0.5]],
                    "A_g": [[0, 1], [1, -1]],
                    "A_q": [[1, 0], [1, 1]],
                    "a_l": [1, 1],
                    "lower": [0, 0],
                    "upper": [1, 1],
                },
                {
                    "A_u": [[0, -2], [0, -10]],
                    "A_g": [[0, 1], [-1, 1]],
                    "A_q": [[0, 1], [1, 1]],
                    "a_l": [1, 0],
                    "lower": [0, 0],
                    "upper": [1, 1],
                },
                {
                    "A_u": [[1, 0], [0, 1]],
                    "A_g": [[0, 0], [-1, 1]],
                    "A_q": [[-1, 1], [-2, 1]],
                    "a_l": [0, 1],
                    "lower": [0, 0],
                    "upper": [1, 1],
                },
            ],
            "steps": {"primal": [0.1, 0.016, 0.1], "dual": 0.8, "shrink": 0.99, "iterations": 200},
            "encryption": {"scheme": "masking"},
            "protocol": "job",
        }
    }


def rehearse_session(kind: type[FederatedProblem]) -> None:
    """Three agents and two rounds with masks: sums under a key would take time and need no other
    code but `phe`, which a small key loads. Then a session on shares."""
    paillier.private_key(11, 17)
    shares_session.rehearse()
    problem = kind.model_validate(
        {
            "kind": "coupled_qp",
            "operator": {"c": [1], "d": [-1]},
            "agents": {"count": 3, "coupled": 1, "constraints": 1},
            "steps": {"primal": 0.1, "dual": 0.1, "iterations": 2},
            "encryption": {"scheme": "masking"},
            "protocol": "federated",
            "federation": {"agents": 3},
            "exposure": "accepted",
        }
    )
    plan = problem.plan_federation((), problem.budget(None))
    keys = sorted(
        (Ed25519PrivateKey.generate() for _ in range(3)),
        key=lambda key: key.public_key().public_bytes_raw(),
    )
    members = [
        Member(
            key.public_key().public_bytes_raw().hex(), "", key.public_key().public_bytes_raw(), {}
        )
        for key in keys
    ]
    session = problem.open_session(plan, members)
    machines = [
        secure_sum.Agent(
            key, lambda document: True, TwoRounds(), secure_sum.MemoryJournal(), window=4
        )
        for key in keys
    ]
    noise = Noise.secure()
    broadcast = session.opening(noise)
    for number in range(session.rounds):
        answers = {
            member.fingerprint: machine.answer(broadcast)
            for member, machine in zip(members, machines, strict=True)
        }
        restored = problem.open_session(plan, members)
        restored.restore(session.state())
        session = restored
        assert all(session.accepts(number, *answer) for answer in answers.items())
        broadcast = session.step(number, answers, noise)
    result = problem.finish(None, plan, unpack(pack(session.released())), lambda step, total: None)
    evidence = problem.evidence(plan, json.dumps(result.to_json()).encode())
    assert evidence is not None
    assert evidence["rounds"] == 4
