"""An entry for the Deployments Registry: what the certificate tells, and nothing that it does
not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from discreet.ledger import certificates
from discreet.ledger.certificates import Publisher, entry
from tests.ledgers import EVENT, KEY, PRICE

FIELDS = {
    "basic": {
        *(
            "name",
            "data_curators",
            "intended_use",
            "data_product_type",
            "data_product_region",
            "description",
        ),
        *("publication_date", "data_product_sector"),
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_details",
        "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment_model": {
        *(
            "model_name",
            "model_name_details",
            "actors",
            "release_type",
            "release_type_details",
            "data_source_type",
        ),
        *("data_source_type_details", "access_type", "access_type_details"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
"""The fields that the registry knows: it takes no other."""
REQUIRED = FIELDS["basic"] - {"data_product_sector"}


def certificate(**values: Any) -> dict[str, Any]:
    body = certificates.certificate(
        simulation=False,
        price=PRICE,
        unit="request",
        neighbours='one "trip": a: b # c',
        events=[EVENT],
        filters=["basic"],
        assumptions=["noise: is noise"],
        versions={},
        ledger_entries=[],
        job="job_1",
        result_digest="ab" * 32,
        tables={},
    )
    return certificates.sign({**body, **values}, KEY)


def test_an_entry_has_what_the_registry_knows() -> None:
    publisher = Publisher("Trips — 2026: a\nb", ["Road office"], ["Somebody"], "Planning", "Berlin")
    found = yaml.safe_load(
        entry(certificate(), publisher, headline="All trips: 7 # h", published="2026-11-24")
    )
    assert (found.keys(), found["status"], found["tier"]) == (
        {"url_slug", "status", "tier", "deployment"},
        "Draft",
        3,
    )
    deployment = found["deployment"]
    assert deployment.keys() == FIELDS.keys()
    assert all(part.keys() <= FIELDS[name] for name, part in deployment.items())
    assert deployment["basic"].keys() >= REQUIRED
    assert deployment["basic"]["name"] == publisher.name
    assert deployment["basic"]["publication_date"] == "2026-11-24"
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.1}
    assert 'one "trip": a: b # c' in deployment["privacy_loss"]["privacy_unit_details"]
    assert "discrete_laplace" in deployment["implementation"]["mechanisms"]


def test_what_only_the_publisher_knows_is_left_empty() -> None:
    text = entry(certificate(), Publisher())
    found = yaml.safe_load(text)["deployment"]
    empty = [
        one
        for part in (found["basic"], found["administrative"])
        for one in part.values()
        if one in ("", [""])
    ]
    assert len(empty) == text.count("# to be filled in") == 7


@pytest.mark.parametrize("kind", ["none", "cryptographic", "post_processing"])
def test_what_no_mechanism_released_has_no_entry(kind: str) -> None:
    true = certificate()
    with pytest.raises(ValueError, match=r"no mechanism|earlier releases"):
        entry({**true, "guarantee": {**true["guarantee"], "type": kind}}, Publisher())


def test_the_command(tmp_path: Path) -> None:
    answer, out = tmp_path / "answer.json", tmp_path / "entry.yaml"
    job = {
        "id": "job_1",
        "name": "Mornings",
        "headline": "All trips take 7",
        "finished_at": "2026-11-24T10:00:00Z",
    }

    def export(value: Any) -> subprocess.CompletedProcess[str]:
        answer.write_text(json.dumps(value))
        command = [
            sys.executable,
            "-m",
            "discreet",
            "certificate",
            "export",
            str(answer),
            "--registry",
            str(out),
        ]
        more = [
            "--curator",
            "A",
            "--curator",
            "B",
            "--author",
            "C",
            "--region",
            "Berlin",
            "--intended-use",
            "Planning",
        ]
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False)

    done = export({"certificate": certificate(), "job": job, "result": {}})
    assert (done.returncode, done.stdout) == (0, f"{out} is written\n"), done.stderr
    basic = yaml.safe_load(out.read_text())["deployment"]["basic"]
    assert (basic["name"], basic["data_curators"], basic["description"]) == (
        "Mornings",
        ["A", "B"],
        "All trips take 7",
    )
    for wrong in (
        {"certificate": {}},
        {"guarantee": {"type": "pure_dp"}},
        {"certificate": certificate(price={})},
    ):
        refused = export(wrong)
        assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
