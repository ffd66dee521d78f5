"""The Helm chart: rendered, refused with the path of a bad value, installed, upgraded, removed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.chart import __main__ as generator
from deploy.generated import stale
from deploy.kube.programs import HELM, programs
from deploy.local.cache import CHECKOUT
from deploy.local.services import services_on
from services.node_agent.probe import read_node
from tests.fixtures.kube import KubeCluster

SETTINGS = CHECKOUT / "docs" / "settings.md"
CHART = CHECKOUT / "deploy" / "chart" / "muster"
TRY, OUTSIDE, ALL = (
    CHART / name for name in ("values-try.yaml", "ci/outside-values.yaml", "ci/all-values.yaml")
)
# The test cluster has cluster roles named muster-*: a release of another name has its own.
RELEASE = "trial"
NAME = "trial-muster"
OUR_KINDS = (
    "deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "secrets",
    "configmaps", "services", "serviceaccounts", "poddisruptionbudgets.policy",
    "networkpolicies.networking.k8s.io", "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
)  # fmt: skip
Object = dict[str, Any]


def helm(*words: str | Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    # As an argument: the variable is a list parted by colons, which a folder of tests may have.
    return subprocess.run(
        [
            str(programs(HELM) / "helm"),
            *map(str, words),
            "--kubeconfig",
            kubeconfig or "/dev/null",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rendered(values: Path, *words: str) -> list[Object]:
    done = helm("template", RELEASE, CHART, "--namespace", "m", "--values", values, *words)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [one for one in objects if one["kind"] in kinds]


def pods_of(objects: list[Object]) -> dict[str, Object]:
    found = of_kind(objects, "Deployment", "StatefulSet", "DaemonSet", "Job")
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found}


@pytest.mark.parametrize("values", [TRY, OUTSIDE, ALL], ids=lambda path: path.stem)
def test_lint_finds_nothing(values: Path):
    done = helm("lint", "--strict", CHART, "--values", values)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", [TRY, OUTSIDE, ALL], ids=lambda path: path.stem)
def test_every_process_is_there_once_and_ends_before_the_next_one_starts(values: Path):
    deployments = of_kind(rendered(values), "Deployment")

    names = {one["metadata"]["name"] for one in deployments}
    assert names == {f"{NAME}-{one.name}" for one in services_on("kubernetes")}
    for one in deployments:
        assert (one["spec"]["replicas"], one["spec"]["strategy"]) == (1, {"type": "Recreate"})


def test_several_gateways_have_a_shard_and_a_slot_each_and_are_replaced_one_at_a_time():
    objects = rendered(OUTSIDE, "--set", "gateway.replicas=3")
    (gateway,) = of_kind(objects, "StatefulSet")
    environment = {
        one["name"]: one for one in gateway["spec"]["template"]["spec"]["containers"][0]["env"]
    }

    assert (gateway["metadata"]["name"], gateway["spec"]["replicas"]) == (f"{NAME}-gateway", 3)
    assert f"{NAME}-gateway" not in {
        one["metadata"]["name"] for one in of_kind(objects, "Deployment")
    }
    shard = environment["MUSTER_GATEWAY_SHARD"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert shard == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert environment["MUSTER_SLOT"]["value"] == "gateway-$(MUSTER_GATEWAY_SHARD)"
    assert "strategy" not in gateway["spec"]


def test_every_pod_but_a_privileged_agent_is_restricted():
    pods = pods_of(rendered(TRY)) | pods_of(rendered(ALL, "--set", "agent.kernelLog=false"))
    for name, pod in pods.items():
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] in (True, False), name
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"], name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            assert not security["allowPrivilegeEscalation"], name
            assert container["resources"]["limits"]["memory"], name
        if not name.endswith("-agent"):
            assert pod["securityContext"]["runAsNonRoot"], name
            assert not [one for one in pod["volumes"] if "hostPath" in one], name


def test_rights_are_those_of_the_services_on_the_test_cluster():
    roles = {
        one["metadata"]["name"]: one["rules"] for one in of_kind(rendered(TRY), "ClusterRole")
    }
    source = yaml.safe_load_all((CHECKOUT / "deploy/kube/manifests/identities.yaml").read_text())
    wanted = {
        one["metadata"]["name"].replace("muster-", f"{NAME}-"): one["rules"]
        for one in source
        if one["kind"] == "ClusterRole"
    }
    del wanted[f"{NAME}-checker"]

    assert roles == wanted


def test_the_agent_takes_the_description_that_its_pod_writes():
    script = pods_of(rendered(ALL))[f"{NAME}-agent"]["containers"][0]["command"][-1]
    text = script.partition("printf '")[2].partition("'")[0]

    assert read_node(Path("node.json"), (text % "node-7").encode()).name == "node-7"


def test_only_who_asks_the_api_server_has_a_token():
    pods = pods_of(rendered(ALL))

    holders = {name for name, pod in pods.items() if pod["automountServiceAccountToken"]}
    assert holders == {f"{NAME}-{n}" for n in ("binder", "cluster-watcher", "gateway", "native")}


@pytest.mark.parametrize("values", [TRY, OUTSIDE, ALL], ids=lambda path: path.stem)
def test_processes_are_told_by_names_of_settings(values: Path):
    settings = set(re.findall(r"`(MUSTER_[A-Z_]+)`", SETTINGS.read_text()))

    told = {name for _, one in containers_of(values) for name in variables_of(one)}
    assert {name for name in told if name.startswith("MUSTER_")} <= settings


def test_processes_verify_servers_by_authorities_that_are_mounted():
    found = list(containers_of(OUTSIDE))
    for server, name in (("kafka", "MUSTER_KAFKA_CA_FILE"), ("database", "MUSTER_DATABASE_URL")):
        named = [(pod, one) for pod, one in found if name in variables_of(one)]
        assert "trial-muster-placement" in {pod for pod, _ in named}
        for pod, one in named:
            file = variables_of(one)[name].rpartition("sslrootcert=")[2]
            mounted = [each["mountPath"] for each in one["volumeMounts"]]
            assert file.rpartition("/")[0] in mounted, (pod, server, file)


def containers_of(values: Path) -> Iterator[tuple[str, Object]]:
    for name, pod in pods_of(rendered(values)).items():
        yield from ((name, one) for one in pod["containers"])


def variables_of(container: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


def test_no_password_stands_outside_secrets():
    objects = rendered(TRY)
    (secret,) = of_kind(objects, "Secret")
    others = json.dumps([one for one in objects if one["kind"] != "Secret"])

    assert len(secret["data"]) > 15
    assert not [key for key, text in secret["data"].items() if text in others]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("kafka.securityProtocol=PLAIN", "kafka.securityProtocol"),
        ("kafka.boostrap=a:1", "boostrap"),
        ("gateway.replicas=0", "gateway.replicas"),
        ("database.port=none", "database.port"),
        ("resources.placment.limits.memory=1Gi", "resources.placment"),
        ("settings.placement.SHUN=1", "settings.placement"),
        ("settings.scheduler.MUSTER_SEED=1", "settings.scheduler"),
        ("try.enabled=false", "kafka.bootstrap"),
    ],
)
def test_a_bad_value_is_refused_with_its_path(setting: str, told: str):
    done = helm("template", RELEASE, CHART, "--values", TRY, "--set", setting)

    assert done.returncode != 0
    assert told in done.stderr.replace("/", "."), done.stderr


def test_the_schema_has_every_value():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert schema["properties"].keys() - {"global"} == values.keys()


def test_copies_are_those_of_their_source_and_a_stale_one_is_told(tmp_path: Path):
    assert generator.main(["--check"]) == 0

    generator.main(["--write"], tmp_path)
    (tmp_path / "rules" / "teams.yml").write_text("groups: []\n")
    (tmp_path / "old.json").write_text("{}")
    assert stale(tmp_path, generator.files()) == ["old.json", "rules/teams.yml"]
    generator.main(["--write"], tmp_path)
    assert generator.main(["--check"], tmp_path) == 0


def test_rules_and_dashboards_are_those_of_the_repository():
    objects = rendered(ALL)
    rules = of_kind(objects, "PrometheusRule")
    maps = of_kind(objects, "ConfigMap")

    groups = {group["name"] for one in rules for group in one["spec"]["groups"]}
    files = sorted((CHECKOUT / "deploy/prometheus/rules").glob("*.yml"))
    assert groups == {
        one["name"] for file in files for one in yaml.safe_load(file.read_text())["groups"]
    }
    boards = {name: text for one in maps for name, text in one["data"].items()}
    for path in (CHECKOUT / "deploy/grafana/dashboards").glob("*.json"):
        assert boards[path.name] == path.read_text()


@pytest.mark.parametrize("values", [TRY, OUTSIDE, ALL], ids=lambda path: path.stem)
@pytest.mark.parametrize("gateways", [1, 3])
@pytest.mark.usefixtures("operator_types")
def test_the_server_takes_every_object(
    kube: KubeCluster, kube_namespace: str, values: Path, gateways: int
):
    words: list[str | Path] = [
        "--namespace",
        kube_namespace,
        "--values",
        values,
        "--set",
        f"gateway.replicas={gateways}",
    ]
    done = helm(
        "install", RELEASE, CHART, "--dry-run=server", *words, kubeconfig=kube.kubeconfig()
    )
    assert done.returncode == 0, done.stderr

    text = helm("template", RELEASE, CHART, *words).stdout
    applied = kubectl(
        kube, "apply", "--server-side", "--dry-run=server", "--validate=strict",
        "--namespace", kube_namespace, "--filename", "-", text=text,
    )  # fmt: skip
    assert applied.returncode == 0, applied.stderr


def test_what_is_installed_and_upgraded_leaves_nothing_when_it_is_removed(
    kube: KubeCluster, kube_namespace: str
):
    place: list[str | Path] = ["--namespace", kube_namespace, "--values", TRY]
    config = kube.kubeconfig()
    before = left(kube, kube_namespace)
    installed = helm("install", RELEASE, CHART, *place, kubeconfig=config)
    try:
        assert installed.returncode == 0, installed.stderr
        first = secret_of(kube, kube_namespace)
        # No pod is scheduled here, so the hook would wait: what it is is looked at alone.
        setting = "settings.placement.MUSTER_SHUN_SECONDS=30"
        change: list[str | Path] = ["upgrade", RELEASE, CHART, *place, "--set-string", setting]
        planned = helm(*change, "--dry-run=server", "--output", "json", kubeconfig=config)
        upgraded = helm(*change, "--no-hooks", kubeconfig=config)
        assert upgraded.returncode == 0, upgraded.stderr
        assert secret_of(kube, kube_namespace) == first
        assert "MUSTER_SHUN_SECONDS" in shown(kube, kube_namespace, f"deployment/{NAME}-placement")
    finally:
        removed = helm("uninstall", RELEASE, "--wait", *place[:2], kubeconfig=config)

    assert removed.returncode == 0, removed.stderr
    assert left(kube, kube_namespace) == before
    (hook,) = [
        one for one in json.loads(planned.stdout)["hooks"] if one["events"] == ["pre-upgrade"]
    ]
    assert hook["kind"] == "Job"
    assert "alembic" in hook["manifest"]


def kubectl(kube: KubeCluster, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(programs() / "kubectl"), "--kubeconfig", str(kube.kubeconfig()), *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def left(kube: KubeCluster, namespace: str) -> set[str]:
    found = kubectl(kube, "get", ",".join(OUR_KINDS), "-o", "name", "-n", namespace)
    assert found.returncode == 0, found.stderr
    return {line for line in found.stdout.split() if "kube-root-ca" not in line}


def shown(kube: KubeCluster, namespace: str, what: str) -> str:
    return kubectl(kube, "get", what, "-n", namespace, "-o", "json").stdout


def secret_of(kube: KubeCluster, namespace: str) -> Object:
    found: Object = json.loads(shown(kube, namespace, f"secret/{NAME}-passwords"))["data"]
    assert found["operator-key"]
    return found
