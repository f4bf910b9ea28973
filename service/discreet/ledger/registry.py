"""An entry for the Differential Privacy Deployments Registry (opendp.org), as far as a
certificate determines it.

The registry takes a YAML file a deployment; its form is that of `schemas/deployments-schema.yaml`
in `opendp/deployments-registry-data` at commit 3e9c812 (2026-07-15). What only the publisher knows
is left empty, and a comment says so: nothing is made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.ledger.certificates import FREE, POST_PROCESSING
from discreet.privacy.events import REGISTRY
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price, display

VARIANTS = {"pure_dp": "Pure DP", "approximate_dp": "Approximate DP"}
EMPTY = "# to be filled in: nothing in the certificate tells it"


@dataclass(frozen=True)
class Publisher:
    """What only the publisher knows; empty if not given."""

    name: str = ""
    curators: Sequence[str] = ()
    authors: Sequence[str] = ()
    intended_use: str = ""
    region: str = ""


def entry(
    body: Mapping[str, Any], publisher: Publisher, *, headline: str = "", published: str = ""
) -> str:
    """The YAML text of an entry for what a certificate is of. `headline`: what the result says;
    `published`: the day, as YYYY-MM-DD. ValueError for a certificate of what no mechanism
    released."""
    guarantee = body["guarantee"]
    if guarantee["type"] in FREE:
        raise ValueError(
            f"its guarantee is {guarantee['type']}: no mechanism of differential privacy released "
            "anything"
        )
    if guarantee["type"] == POST_PROCESSING:
        raise ValueError(
            "it follows from earlier releases alone: register those, by their own certificates"
        )
    price = Price.from_json(body["price"])
    parameters = {"epsilon": _Figure(display(price.epsilon, EPSILON_UNIT))}
    if price.delta:
        parameters["delta"] = _Figure(display(price.delta, DELTA_UNIT))
    federated = "federation" in body
    text: dict[str, Any] = {
        "url_slug": f"discreet-{body['job'].replace('_', '-')}",
        "status": "Draft",
        "tier": _Figure("3"),
        "deployment": {
            "basic": {
                "name": publisher.name,
                "data_curators": list(publisher.curators) or [""],
                "intended_use": publisher.intended_use,
                "data_product_type": "Summary statistics",
                "data_product_region": publisher.region,
                "description": headline,
                "publication_date": published,
            },
            "dp_variant": {
                "variant_name": VARIANTS[guarantee["type"]],
                "unprotected_quantities": "What was asked, and what the dataset's owner has "
                "declared to be public.",
            },
            "privacy_loss": {
                "privacy_unit": guarantee["unit"],
                "privacy_unit_details": "Adjacent datasets differ by this: "
                f"{guarantee['neighbours']}.",
                "privacy_parameters": parameters,
                "privacy_parameters_details": " ".join(_sentences(body["assumptions"])),
            },
            "deployment_model": {
                "model_name": "Federated" if federated else "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "All that is published follows from what the mechanisms "
                "released.",
                "composition": f"{body['accountant'].capitalize()}. Admitted by "
                f"{_admitted_by(body['filter'])} of an append-only ledger.",
            },
            "implementation": {"mechanisms": " ".join(_mechanisms(body["events"]))},
            "administrative": {
                "sources": f"Signed certificate of {body['job']}, Ed25519 key "
                f"{body['public_key']}.",
                "registry_authors": list(publisher.authors) or [""],
            },
        },
    }
    return "\n".join(_lines(text)) + "\n"


class _Figure(str):
    """What stands in YAML without quotation marks."""


def _admitted_by(filters: Sequence[str]) -> str:
    """The filters that held on every account: none need, where each account has let it pass by one
    of its own."""
    return (
        f"the privacy filters {', '.join(filters)}"
        if filters
        else "a privacy filter of each of the accounts"
    )


def _sentences(parts: Sequence[str]) -> Iterator[str]:
    yield from (f"{one[:1].upper()}{one[1:].rstrip('.')}." for one in parts)


def _mechanisms(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for event in events:
        what = REGISTRY[event["mechanism"]].published
        releases = "" if event.get("count", 1) == 1 else f", {event['count']} times"
        yield (
            f"{what[:1].upper()}{what[1:]}{releases}: `{event['mechanism']}` of scale "
            f"{event['scale']:g} for {event.get('norm', 'l1')} sensitivity "
            f"{event['sensitivity']:g}."
        )


def _lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Block style; texts in JSON's quotation marks, which YAML 1.2 reads alike."""
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(one, indent + "  ")
        elif isinstance(one, list):
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {_scalar(part)}" for part in one)
        else:
            yield f"{indent}{name}: {_scalar(one)}"


def _scalar(value: str) -> str:
    if isinstance(value, _Figure):
        return str(value)
    return json.dumps(value, ensure_ascii=False) if value else f'"" {EMPTY}'
