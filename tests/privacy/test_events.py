"""Events: one union, one registry, JSON and back bit for bit, prices from the event alone."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.ledger import certificates
from discreet.ledger.verification import verify
from discreet.privacy import events, mechanisms
from discreet.privacy.attacks.examples import examples
from discreet.privacy.events import Event
from discreet.privacy.mechanism import REGISTRY, MechanismEvent, NotCertified, register
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.units import Price
from discreet_agent import canonical

EXAMPLES = examples()


def test_the_union_is_every_file_of_the_room() -> None:
    union = typing.get_args(typing.get_args(Event)[0])
    files = {path.stem for path in Path(mechanisms.__file__).parent.glob("*.py")} - {"__init__"}
    assert (
        [kind.model_fields["mechanism"].default for kind in union]
        == sorted(REGISTRY)
        == sorted(files)
    )
    assert {name: type(event) for name, event in EXAMPLES.items()} == REGISTRY
    for kind in union:
        assert kind.published != MechanismEvent.published


ORDERS = """
import importlib, json, random
names = NAMES
random.Random(SEED).shuffle(names)
for name in names[:5]:
    importlib.import_module("discreet.privacy.mechanisms." + name)
from discreet.ledger.verification import verify
from discreet.ledger import certificates
from discreet.privacy import events, mechanisms
print(json.dumps(events.EVENTS.json_schema()))
"""


def test_the_union_is_the_same_in_any_order_of_import() -> None:
    schema = events.EVENTS.json_schema()
    assert list(schema["items"]["discriminator"]["mapping"]) == sorted(REGISTRY)
    for seed in range(2):
        code = ORDERS.replace("NAMES", repr(sorted(REGISTRY))).replace("SEED", str(seed))
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout) == schema


STORED = json.loads(Path(__file__).with_name("stored.json").read_text())
"""What versions before this one have written: events with their prices, a certificate and an export
of the ledger."""


@pytest.mark.parametrize(
    "stored", STORED["events"], ids=lambda one: json.loads(one["event"])["mechanism"]
)
def test_stored_events_keep_their_bytes_and_their_price(stored: dict[str, typing.Any]) -> None:
    event = events.from_json(json.loads(stored["event"]))
    assert event.model_dump_json() == stored["event"]
    assert events.to_json(event) == json.loads(stored["event"])
    assert event.price().to_json() == stored["price"]
    assert list(event.assumptions()) == stored["assumptions"]


def test_every_mechanism_is_among_what_is_stored() -> None:
    assert {json.loads(one["event"])["mechanism"] for one in STORED["events"]} == set(REGISTRY)


def test_a_stored_certificate_and_a_stored_export_hold() -> None:
    body = json.loads(STORED["certificate"])
    again = {
        **body,
        "events": [
            events.to_json(event) for event in events.EVENTS.validate_python(body["events"])
        ],
    }
    assert canonical.dumps(again).decode() == STORED["certificate"]
    assert [check.holds for check in certificates.check(again)] == [True, True, True]
    verified = verify(line.encode() for line in STORED["export"])
    assert (verified.accounts, verified.entries) == (1, 4)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_json_and_back_bit_for_bit(name: str) -> None:
    event = EXAMPLES[name]
    text = json.dumps(events.to_json(event))
    again = events.from_json(json.loads(text))
    assert again == event
    assert type(again) is type(event)
    assert again.scale.hex() == event.scale.hex()
    assert json.dumps(events.to_json(again)) == text
    assert again.price() == event.price()


@given(st.floats(min_value=1e-300, max_value=1e300), st.floats(min_value=1e-300, max_value=1e300))
def test_every_float_survives(sensitivity: float, scale: float) -> None:
    event = DiscreteLaplace(sensitivity=sensitivity, scale=scale, neighbours="x")
    assert events.from_json(json.loads(json.dumps(events.to_json(event)))) == event


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_persisted_fields(name: str) -> None:
    """A ledger holds these. A field may be added with a default; none may go or change its
    meaning."""
    common = {
        "mechanism",
        "sensitivity",
        "norm",
        "noise",
        "scale",
        "count",
        "sampling",
        "neighbours",
    }
    own = {
        "discrete_laplace": set[str](),
        "discrete_gaussian": {"charged_epsilon", "charged_delta"},
        "gaussian": {"charged_epsilon", "charged_delta", "dimension", "grid"},
        "laplace": {"dimension", "grid"},
        "exponential": {"monotone"},
        "dirichlet": {"charged_epsilon", "charged_delta", "charged_rho", "floor", "offset"},
        "poisson_subsampled_gaussian": {
            "charged_epsilon",
            "charged_delta",
            "charged_rho",
            "relation",
        },
        "one_draw_gaussian": {"charged_epsilon", "charged_delta", "charged_rho"},
        "smooth_sensitivity_gaussian": {
            "charged_epsilon",
            "charged_delta",
            "charged_rho",
            "smoothing",
            "dimension",
        },
    }
    assert set(events.to_json(EXAMPLES[name])) == common | own[name]


def test_the_price_of_a_pure_event_is_exact() -> None:
    event = DiscreteLaplace(sensitivity=1.0, scale=3.0, count=7, neighbours="x")
    assert event.price() == Price.rounded_up(epsilon=Fraction(7, 3), rho=Fraction(7, 18))


PURE = {"discrete_laplace", "exponential", "laplace"}
"""They claim nothing: their prices follow from sensitivity and scale alone."""


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - PURE))
def test_an_event_that_claims_too_much_has_no_price(name: str) -> None:
    event = EXAMPLES[name]
    forged = event.model_copy(update={"charged_delta": event.charged_delta // 2})  # type: ignore[attr-defined]
    with pytest.raises(NotCertified, match="too small"):
        forged.price()


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 0.0},
        {"scale": float("nan")},
        {"scale": float("inf")},
        {"sensitivity": -1.0},
        {"count": 0},
        {"count": 1.5},
        {"neighbours": ""},
        {"norm": "l7"},
        {"mechanism": "unheard_of"},
        {"surprise": 1},
        {"charged_delta": "1e5"},
        {"charged_delta": "-1"},
        {"charged_delta": True},
    ],
)
def test_nonsense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        events.from_json(events.to_json(EXAMPLES["gaussian"]) | change)


def test_events_are_frozen_and_hashable() -> None:
    event = EXAMPLES["gaussian"]
    with pytest.raises(ValidationError):
        event.scale = 1.0
    assert len({event, events.from_json(events.to_json(event))}) == 1


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        register("gaussian")(Gaussian)
    with pytest.raises(ValueError, match="literal"):
        register("something_else")(DiscreteGaussian)


def test_floating_point_noise_is_named_as_an_assumption() -> None:
    named = {name for name, event in EXAMPLES.items() if event.assumptions()}
    assert named == {
        "dirichlet",
        "poisson_subsampled_gaussian",
        "one_draw_gaussian",
        "smooth_sensitivity_gaussian",
    }


def test_totals() -> None:
    pair = (EXAMPLES["gaussian"], EXAMPLES["discrete_laplace"])
    assert events.total(pair) == pair[0].price() + pair[1].price()
    assert events.total(()) == Price.zero()


def test_a_grid_too_coarse_for_its_noise_has_no_curve() -> None:
    event = EXAMPLES["gaussian"].model_copy(update={"grid": 16.0})
    with pytest.raises(ValueError, match="coarse"):
        event.price()


def test_a_dirichlet_row_needs_room() -> None:
    good = events.to_json(EXAMPLES["dirichlet"])
    with pytest.raises(ValidationError, match="twice the floor"):
        events.from_json(good | {"sensitivity": 0.5})
    with pytest.raises(ValidationError, match="floor or offset"):
        events.from_json(good | {"floor": 0.0})
