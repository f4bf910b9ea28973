"""The byte-level protocol (docs/protocol.md): vectors, the TypeScript agent against them, and
Python without GMP."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import protocol_vectors
from tests.clients.node import compiled, execute

ROOT = Path(__file__).parents[2]


def test_the_vectors_are_those_of_the_code() -> None:
    assert protocol_vectors.PATH.read_text() == protocol_vectors.written(), (
        "python -m tests.protocol_vectors writes them"
    )


def test_the_page_names_every_vector() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text()
    named = {
        one.split(".")[0]
        for words in re.findall(r"[Vv]ectors: ([^).]*)", page)
        for one in re.findall(r"`([\w.]+)`", words)
    }
    assert named == set(protocol_vectors.vectors()) - {"about"}


def test_the_typescript_agent_does_the_same(tmp_path: Path) -> None:
    """Every statement, message, mask, frame and refusal:
    clients/typescript/test/vectors.test.ts."""
    folder = compiled(tmp_path)
    command = [
        str(shutil.which("node")),
        "--test",
        "--test-reporter=tap",
        "dist/test/vectors.test.js",
    ]
    done = execute(command, folder, {**os.environ, "DISCREET_VECTORS": str(protocol_vectors.PATH)})
    assert re.search(r"^# pass 23$", done, re.MULTILINE), done


# Without GMP --------------------------------------------------------------------------------------

PLAIN = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "gmpy2":
            raise ModuleNotFoundError("gmpy2 is not here", name=name)

sys.meta_path.insert(0, Refuse())
"""

RUN = """
import numpy as np
from discreet_agent import paillier, secure_sum
assert "gmpy2" not in sys.modules

class Two:
    def __init__(self, value):
        self.value, self.seen = value, []

    def __call__(self, sums):
        if sums is not None:
            self.seen.append(sums.tolist())
        return None if len(self.seen) == 2 else self.value * (len(self.seen) + 1)

values = np.array([[1.5, -2.0], [3.25, 0.5], [-0.125, 40.0]])
agents = [Two(value) for value in values]
parameters = secure_sum.Parameters(dimension=2, rounds=2, bound=100.0, key_bits=2048)
outcome = secure_sum.run_in_process(agents, np.array([10.0, -4.0]), parameters, window=4)
print([one.seen for one in agents], secure_sum.unsigned(outcome.certificate))
"""


def plain(program: str) -> str:
    """What a program prints in a process that finds no gmpy2."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")
    }
    return execute([sys.executable, "-c", PLAIN + program], ROOT, environment)


def test_without_gmpy2_the_bytes_are_the_same() -> None:
    """Paillier's contributions, product and opened sum among them."""
    vectors = json.loads(
        plain("from tests import protocol_vectors\nprint(protocol_vectors.written())")
    )
    assert vectors == json.loads(protocol_vectors.PATH.read_text())


@pytest.mark.long
def test_without_gmpy2_agents_sum_under_a_key_of_full_length() -> None:
    values = np.array([[1.5, -2.0], [3.25, 0.5], [-0.125, 40.0]])
    sums = [(number * values.sum(axis=0) + np.array([10.0, -4.0])).tolist() for number in (1, 2)]
    assert plain(RUN).strip() == f"{[sums] * 3} []"


PRIMES = """
import json
import numpy as np
from discreet_agent.paillier import PRIMALITY_REPETITIONS, is_prime
sieve = np.ones(50_000, dtype=bool)
sieve[:2] = False
for number in range(2, 224):
    sieve[number * number :: number] = False
assert [is_prime(number, PRIMALITY_REPETITIONS) for number in range(50_000)] == sieve.tolist()
mersenne = [2**521 - 1, 2**607 - 1]
assert all(is_prime(number, PRIMALITY_REPETITIONS) for number in mersenne)
composite = [3317044064679887385961981, 318665857834031151167461, 8911 * 2003]
composite += [mersenne[0] ** 2, mersenne[0] * mersenne[1]]
assert not any(is_prime(number, PRIMALITY_REPETITIONS) for number in composite)
print("checked")
"""


def test_primes_without_gmpy2() -> None:
    """Against a sieve, and against numbers that fool weaker tests: Carmichael numbers, strong
    pseudoprimes to the bases 2 to 37, squares of primes, products of two."""
    assert plain(PRIMES).strip() == "checked"
