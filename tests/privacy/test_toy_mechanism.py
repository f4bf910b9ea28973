"""Adding a mechanism takes its file and a test: everything else finds it. One is added to a copy of
the service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "service"

TOY = '''
from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from discreet.privacy.mechanism import MechanismEvent, register
from discreet.privacy.mechanisms.discrete_laplace import pure_delta, pure_price


@register("toy")
class Toy(MechanismEvent):
    """Every coordinate of a 0/1 vector is flipped with probability 1/(1 + e^(1/scale)): randomized
    response."""

    published: ClassVar[str] = "answers that were each turned around at random"
    scale_sentence: ClassVar[str] = (
        "One over {scale} is the logarithm of the odds of a true answer."
    )
    mechanism: Literal["toy"] = "toy"
    norm: Literal["l1"] = "l1"
    noise: Literal["flips"] = "flips"
    sampling: None = None

    def loss(self):
        return Fraction(self.sensitivity) / Fraction(self.scale)

    def derive_price(self):
        return pure_price(self.loss(), self.count)

    def delta(self, epsilon):
        return pure_delta(epsilon, self.loss() * self.count)

    def draw(self, noise, values):
        flips = noise.generator().random(values.shape) < 1 / (1 + np.exp(1 / self.scale))
        return np.where(flips, 1 - values, values)

    def deviation(self):
        return 0.5

    def worst_case(self, noise):
        return self.shifted(noise, 1, np.int64)

    @classmethod
    def example(cls):
        return calibrate(10**9, neighbours="one answer")


def calibrate(epsilon, *, neighbours, count=1):
    scale = float(Fraction(count * 10**9, epsilon))
    return Toy(sensitivity=1.0, scale=scale, count=count, neighbours=neighbours)
'''

USE = """
import json
import numpy as np
from discreet.dashboard import words
from discreet.privacy import events
from discreet.privacy.attacks import audit, planted
from discreet.privacy.attacks.examples import examples
from discreet.privacy.noise import Noise
from discreet.privacy.units import Price
from discreet.problems.plans import NoiseSummary, Plan
from discreet.usecases.audits import run_audits

event = examples()["toy"]
stored = json.dumps(events.to_json(event))
assert events.from_json(json.loads(stored)) == event
assert events.price_of([json.loads(stored)]) == event.price() == Price.pure(10**9)
assert Plan.model_json_schema()["$defs"]["Toy"]
assert NoiseSummary.of(event, "answers").standard_deviation == 0.5
said = words.event(json.loads(stored))
assert said[0] == "Published once: answers that were each turned around at random."
assert said[2] == "One over 1 is the logarithm of the odds of a true answer."
drawn = Noise.seeded(1).add(event, np.zeros(100_000, dtype=np.int64))
assert abs(drawn.mean() - 1 / (1 + np.e)) < 0.01
honest = audit.audit_event(event, samples=20_000, noise=Noise.seeded(2))
assert honest.verdict == "holds" and honest.lower_bound > 0.8
assert planted.half_noise(event, samples=20_000, noise=Noise.seeded(3)).verdict == "violated"
assert [one.row.name for one in run_audits(["toy"], short=True)] == ["toy"]
print("used")
"""


@pytest.mark.long
def test_a_new_mechanism_touches_its_file_alone(tmp_path: Path) -> None:
    shutil.copytree(
        SERVICE,
        tmp_path / "service",
        ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"),
    )
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    (tmp_path / "service/discreet/privacy/mechanisms/toy.py").write_text(TOY)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "service")}
    done = subprocess.run(
        [sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "used\n", done.stderr
    touched = [
        path.name for path in tmp_path.rglob("*.py") if before.get(path) != path.read_bytes()
    ]
    assert touched == ["toy.py"]
