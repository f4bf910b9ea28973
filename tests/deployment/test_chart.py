"""The chart: rendered by Helm's own library, validated by Kubernetes' schemas, and what it says.

Both come from the group `chart` of pyproject.toml (`make chart` installs it). Without them these
tests skip, or fail where CI is set. KEDA's objects have no schema there: they are compared here.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from discreet.settings import Settings
from tests.deployment.test_files import DEPLOYMENT, IMAGE, VARIABLES, parsed

CHART = DEPLOYMENT / "chart"
EVERYTHING = yaml.safe_load((Path(__file__).parent / "chart_with_everything.yaml").read_text())
BY_THE_TABLE = {"worker": {"autoscaling": {"enabled": True, "source": "postgresql"}}}
ALONE = {"rpc": {"enabled": False}, "networkPolicy": {"enabled": False}}
VALUES = {
    "nothing": {},
    "everything": EVERYTHING,
    "autoscaling by the table": BY_THE_TABLE,
    "without rpc": ALONE,
}
VERSIONS = ("1.29", "1.37")
"""The oldest Kubernetes that Chart.yaml allows, and the newest that the package knows."""
LOCKED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def tool(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        if "CI" in os.environ:
            raise
        pytest.skip(f"{name} is not installed: make chart")


@functools.cache
def rendered(name: str) -> list[dict[str, Any]]:
    return render(VALUES[name])


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    with tool("helm_python").Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name="north", namespace="private")
    return [one for text in files.values() for one in yaml.safe_load_all(text) if one is not None]


def of_kind(name: str, kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in rendered(name) if one["kind"] == kind}


def pods(name: str) -> dict[str, dict[str, Any]]:
    return {
        part: one["spec"]["template"]
        for kind in ("Deployment", "Job")
        for part, one in of_kind(name, kind).items()
    }


def test_helm_finds_no_fault_in_the_chart() -> None:
    report = tool("helm_python").lint(CHART, EVERYTHING)
    assert report["total_charts_linted"] == 1
    assert report["errors"] == []
    assert {message["error"] for message in report["messages"]} <= {"icon is recommended"}


@pytest.mark.parametrize("name", VALUES)
def test_every_object_is_one_of_kubernetes(name: str) -> None:
    validation = tool("kubernetes_validate")
    without = []
    for one in rendered(name):
        for version in VERSIONS if name == "everything" else VERSIONS[:1]:
            try:
                validation.validate(one, version, strict=True)
            except validation.SchemaNotFoundError:
                without.append(one["apiVersion"])
    assert set(without) <= {"keda.sh/v1alpha1"}
    assert bool(without) == ("autoscaling" in name or name == "everything")
    broken = json.loads(json.dumps(of_kind(name, "Deployment")["api"]))
    broken["spec"]["template"]["spec"]["securityContext"]["runAsRoot"] = True  # no such field
    with pytest.raises(validation.ValidationError):
        validation.validate(broken, VERSIONS[0], strict=True)


@pytest.mark.parametrize("name", VALUES)
def test_pods_have_no_rights_and_no_secrets_in_their_environment(name: str) -> None:
    parts = {"api", "worker", "migrate"} | ({"rpc"} if name != "without rpc" else set())
    assert pods(name).keys() == parts | ({"pooler"} if name == "everything" else set())
    for part, pod in pods(name).items():
        spec = pod["spec"]
        user, group = map(int, IMAGE.user.split(":"))
        context = spec["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"], context["runAsGroup"]) == (
            True,
            user,
            group,
        )
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
        for one in (*spec["containers"], *spec.get("initContainers", ())):
            assert one["securityContext"] == LOCKED
            assert one["resources"]["limits"]["memory"]
            assert not [value for value in one.get("env", ()) if "valueFrom" in value]
            assert not [source for source in one.get("envFrom", ()) if "secretRef" in source]
        if part != "pooler":
            secret = next(volume for volume in spec["volumes"] if volume["name"] == "secrets")[
                "projected"
            ]
            names = [source["secret"]["name"] for source in secret["sources"]]
            assert (
                names == ["discreet", "discreet-owner"]
                if part == "migrate"
                else names == ["discreet"]
            )
            assert secret["defaultMode"] == 0o440
    assert not [one for one in rendered(name) if one["kind"] == "Secret"]


@pytest.mark.parametrize("name", ["nothing", "everything"])
def test_parts_are_started_as_the_program_understands(name: str) -> None:
    for part, pod in pods(name).items():
        if part == "pooler":
            continue
        (container,) = pod["spec"]["containers"]
        options = parsed(container["args"])
        assert container["args"][0] == part
        mounted = {one["mountPath"] for one in container["volumeMounts"]}
        assert mounted - {"/run/objects"} == {*IMAGE.volumes, "/tmp", "/run/discreet"}
        assert {one["name"] for one in container["volumeMounts"]} <= {
            one["name"] for one in pod["spec"]["volumes"]
        }
        variables = {one["name"]: one["value"] for one in container["env"]}
        assert variables.keys() <= VARIABLES
        assert variables["DISCREET_STATE"].startswith(IMAGE.volumes[0])
        if part == "migrate":
            assert "envFrom" not in container  # what the chart makes is not there yet
            continue
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert set(ports.values()) <= {options.get("port"), options.get("metrics_port")}
        for probe, path in (
            ("startupProbe", "/healthz"),
            ("livenessProbe", "/healthz"),
            ("readinessProbe", "/readyz"),
        ):
            assert container[probe]["httpGet"]["path"] == path
            probed = options["port" if part == "api" else "metrics_port"]
            assert ports[container[probe]["httpGet"]["port"]] == probed
        scraped = pod["metadata"]["annotations"]["prometheus.io/port"]
        assert scraped == str(options["metrics_port"]) == str(ports["monitor"])
        assert pod["spec"]["terminationGracePeriodSeconds"] >= 30
    job = of_kind(name, "Job")["migrate"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize("name", VALUES)
def test_settings_are_settings_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [variable for variable in os.environ if variable.startswith("DISCREET_")]:
        monkeypatch.delenv(variable)
    data = of_kind(name, "ConfigMap")["discreet"]["data"]
    own = {variable: value for variable, value in data.items() if variable.startswith("DISCREET_")}
    assert set(own) <= VARIABLES
    assert all(isinstance(value, str) for value in data.values())
    for variable, value in own.items():
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert settings.job_memory_bytes == 4 << 30
    assert settings.least_isolation == "full"
    assert (settings.rpc_address is None) == (name == "without rpc")
    if name != "everything":
        assert settings.witnesses == ""
        assert settings.oidc_issuer is None
        assert settings.witnesses_needed is None
        return
    assert settings.pool_size == EVERYTHING["database"]["poolSize"]
    assert settings.object_url == EVERYTHING["storage"]["objectUrl"]
    assert settings.witnesses.split(",") == EVERYTHING["witnesses"]["keys"]
    assert settings.witnesses_needed == EVERYTHING["witnesses"]["needed"]
    assert json.loads(settings.oidc_roles) == EVERYTHING["oidc"]["roles"]
    assert settings.oidc_issuer == EVERYTHING["oidc"]["issuer"]
    assert settings.public_url == EVERYTHING["publicUrl"]
    assert settings.retention_days == 90
    assert str(settings.content_places) == "/run/discreet/places.json"


@pytest.mark.parametrize("name", VALUES)
def test_objects_find_each_other(name: str) -> None:
    labels = {part: pod["metadata"]["labels"] for part, pod in pods(name).items()}
    guarded, shut = set(), set()
    for one in rendered(name):
        spec = one.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is None or one["kind"] not in (
            "Deployment",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "Service",
        ):
            continue
        wanted = selector.get("matchLabels", selector)
        (part,) = [part for part, known in labels.items() if wanted.items() <= known.items()]
        assert part == one["metadata"]["name"]
        guarded |= {part} if one["kind"] == "PodDisruptionBudget" else set()
        shut |= {part} if one["kind"] == "NetworkPolicy" else set()
        if one["kind"] == "Service":
            ports = {port["name"] for port in pods(name)[part]["spec"]["containers"][0]["ports"]}
            assert {port["targetPort"] for port in spec["ports"]} <= ports
    running = labels.keys() - {"migrate"}
    assert guarded == running
    assert shut == (set() if name == "without rpc" else running)
    made = {(one["kind"], one["metadata"]["name"]) for one in rendered(name)}
    assert len(made) == len(rendered(name))


def test_workers_take_nothing_and_reach_pooler_and_database() -> None:
    worker = of_kind("everything", "NetworkPolicy")["worker"]["spec"]
    (scraper,) = worker["ingress"]
    assert scraper["ports"] == [{"port": "monitor"}]
    first, *others = worker["egress"]
    assert first["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "pooler"
    assert first["ports"] == [{"port": 6432}]
    assert {port["port"] for rule in others for port in rule["ports"]} == {5432, 443, 53}
    no_listener = of_kind("everything", "NetworkPolicy")["rpc"]["spec"]["egress"]
    assert {port["port"] for rule in no_listener for port in rule["ports"]} == {6432, 443, 53}
    direct = of_kind("nothing", "NetworkPolicy")["worker"]["spec"]["egress"]
    assert {port["port"] for rule in direct for port in rule["ports"]} == {5432, 443, 53}
    pooler = of_kind("everything", "NetworkPolicy")["pooler"]["spec"]["egress"]
    assert {port["port"] for rule in pooler for port in rule["ports"]} == {5432, 53}
    assert [peer["ipBlock"]["cidr"] for peer in pooler[0]["to"]] == EVERYTHING["networkPolicy"][
        "databaseCidrs"
    ]


def test_health_does_not_pass_the_ingress() -> None:
    spec = of_kind("everything", "Ingress")["api"]["spec"]
    (rule,) = spec["rules"]
    paths = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}
    assert paths == {"/": "api", "/healthz": "nowhere", "/readyz": "nowhere"}
    assert "selector" not in of_kind("everything", "Service")["nowhere"]["spec"]
    assert spec["tls"] == [{"hosts": [rule["host"]], "secretName": "discreet-tls"}]


@pytest.mark.parametrize("name", ["everything", "autoscaling by the table"])
def test_workers_follow_the_queue(name: str) -> None:
    scaled = of_kind(name, "ScaledObject")["worker"]["spec"]
    assert scaled["scaleTargetRef"]["name"] in of_kind(name, "Deployment")
    assert (
        "replicas" not in of_kind(name, "Deployment")["worker"]["spec"]
    )  # an upgrade must not take them back
    assert 1 <= scaled["minReplicaCount"] < scaled["maxReplicaCount"]
    (trigger,) = scaled["triggers"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    if name == "everything":
        assert trigger["type"] == "prometheus"
        metric = trigger["metadata"]["query"].removeprefix("max(").removesuffix(")")
        assert (
            f'"{metric}"' in (CHART.parents[2] / "service/discreet/usecases/metrics.py").read_text()
        )
    else:
        assert trigger["type"] == "postgresql"
        login = of_kind(name, "TriggerAuthentication")[trigger["authenticationRef"]["name"]]["spec"]
        (target,) = login["secretTargetRef"]
        assert (target["parameter"], target["key"].upper()) == (
            "connection",
            "DISCREET_DATABASE_URL",
        )


WRONG = {
    "a word nobody knows": {"databse": {}},
    "a secret as a setting": {
        "settings": {"DISCREET_DATABASE_URL": "postgresql://app:word@db/discreet"}
    },
    "a secret beside the settings": {
        "storage": {"objectEnvironment": {"AWS_SECRET_ACCESS_KEY": "word"}}
    },
    "a secret of the provider": {"oidc": {"clientSecret": "word"}},
    "a password in an address": {"storage": {"objectUrl": "s3://key:word@bucket"}},
    "what is latest": {"image": {"tag": "latest"}},
    "a provider without a client": {
        "publicUrl": "https://d.example.org",
        "oidc": {"issuer": "https://i.example.org"},
    },
    "a provider without an address of ours": {
        "oidc": {
            "issuer": "https://i.example.org",
            "clientId": "x",
            "roles": {"all": "north:owner"},
        }
    },
    "a role that is none": {"oidc": {"roles": {"all": "north:root"}}},
    "an ingress without TLS": {"ingress": {"enabled": True, "host": "d.example.org"}},
    "a pooler without an image": {"database": {"pooler": {"enabled": True}}},
    "limits without memory": {
        "worker": {"resources": {"requests": {}, "limits": {"memory": None}}}
    },
}


@pytest.mark.parametrize("wrong", WRONG)
def test_values_that_are_wrong_are_refused(wrong: str) -> None:
    helm = tool("helm_python")
    with helm.Chart.load(CHART) as chart, pytest.raises(helm.HelmValuesError):
        chart.validate_schema(WRONG[wrong])


def test_values_cannot_break_out_of_their_place() -> None:
    values = {
        "oidc": {**EVERYTHING["oidc"], "name": 'x"\n  DISCREET_LEAST_ISOLATION: none #'},
        "publicUrl": EVERYTHING["publicUrl"],
        "settings": {"DISCREET_RETENTION_DAYS": "90\nmetadata: {}"},
    }
    (data,) = [one["data"] for one in render(values) if one["kind"] == "ConfigMap"]
    assert data["DISCREET_LEAST_ISOLATION"] == "full"
    assert data["DISCREET_OIDC_NAME"] == values["oidc"]["name"]
    assert data["DISCREET_RETENTION_DAYS"] == values["settings"]["DISCREET_RETENTION_DAYS"]


def test_every_value_has_its_place_in_the_schema() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any], place: str) -> None:
        assert schema.get("additionalProperties") is False, place
        assert values.keys() == schema["properties"].keys() - {"global"}, place
        for key, value in values.items():
            inner = schema["properties"][key]
            if isinstance(value, dict) and "properties" in inner:
                compare(value, inner, f"{place}.{key}")

    compare(
        yaml.safe_load((CHART / "values.yaml").read_text()),
        json.loads((CHART / "values.schema.json").read_text()),
        "",
    )
