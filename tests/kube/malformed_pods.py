"""Specs of native pods, and wrong ones: what is wrong, what is told, and what makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

POOL = "muster.dev/pool"
HOSTNAME = "kubernetes.io/hostname"
CONTAINER = {
    "name": "train",
    "image": "registry.example.org/a/b:1",
    "resources": {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
    },
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def with_gpus(count, name="train"):
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(count)}
    return {**CONTAINER, "name": name, "resources": {"limits": limits}}


def asks(**limits):
    return {"containers": [{"name": "a", "image": "a/b:1", "resources": {"limits": limits}}]}


def near(*expressions, **fields):
    terms = {"nodeSelectorTerms": [{"matchExpressions": [*expressions]} | fields]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


def _expression(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def _preferring(key):
    wanted = {"weight": 1, "preference": {"matchExpressions": [_expression(key, "a")]}}
    return {"affinity": {"nodeAffinity": {PREFERRED: [wanted]}}}


def _term(kind, strength=REQUIRED, **fields):
    """Of an affinity or anti-affinity to pods; by hostname to all pods, but for the fields."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {}, **fields}
    one = {"weight": 1, "podAffinityTerm": term} if strength == PREFERRED else term
    return {"affinity": {kind: {strength: [one]}}}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {},
}
PORTS = {**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}
VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SCRATCH = {"name": "init", "image": "a/b:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
BOTH_FORMS = {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"}
OTHER_POOL = {"nodeSelector": {POOL: "b"}, **near(_expression(POOL, "a"))}
ALTERNATIVES = {"matchExpressions": [_expression(POOL, "a")]}
EITHER = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ALTERNATIVES] * 2}}}}
LARGE: Final = 240_000
"""Bytes; the API takes 262,144 of annotations in all."""
OF_SIZE: Final = "must be the number of pods of the group, 1 to 4096 (got {})"
NO_PLACE: Final = "decides a place and is not honoured"


def _labelled(**labels):
    return {"labels": {f"muster.dev/{name}": value for name, value in labels.items()}}


def _noted(**notes):
    return {"annotations": {f"muster.dev/{name}": value for name, value in notes.items()}}


def _annotated(key, value):
    return {"annotations": {key: value}}


def _sized(size, group):
    """A group for each kind of owner, by the `{kind}` in its name."""
    return {**_labelled(group=group), **_noted(**{"group-size": size})}


WRONG: Final[Mapping[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    # what is asked for
    "several": ({"containers": [with_gpus(1), with_gpus(1, "other")]}, {}, "one container"),
    "init": ({"initContainers": [SCRATCH]}, {}, "init containers get no GPU"),
    "many-gpus": (asks(**{"nvidia.com/gpu": "16"}), {}, "must be at most"),
    "many-cores": (asks(cpu="100000"), {}, "cpu_milli"),
    "much-memory": (asks(memory="8Ei"), {}, "memory_mib"),
    "spelling": (asks(**{"nvidia.com/gpu.mig-1g.10gb": "1"}), {}, "named nvidia.com/mig-1g.10gb"),
    "profile": (asks(**{"nvidia.com/mig-9g.1gb": "1"}), {}, "[nvidia.com/mig-9g.1gb]"),
    "forms": (asks(**BOTH_FORMS), {}, "one form of GPU"),
    "shared": (asks(**{"nvidia.com/gpu.shared": "1"}), {}, "[nvidia.com/gpu.shared]"),
    "fraction": ({}, _annotated("gpu-fraction", "0.5"), "metadata.annotations[gpu-fraction]"),
    "memory": ({}, _annotated("gpu-memory", "-4096"), "ask for a MIG instance"),
    # nodes
    "label": (near(_expression("disk", "ssd")), {}, "spec.affinity.nodeAffinity[disk]"),
    "operator": (near(_expression(POOL, operator="Exists")), {}, f"nodeAffinity.{REQUIRED}"),
    "field": (
        near(matchFields=[_expression("metadata.name", "gpu-0001")]),
        {},
        f"nodeAffinity.{REQUIRED}: {NO_PLACE}",
    ),
    "either": (EITHER, {}, f"nodeAffinity.{REQUIRED}: {NO_PLACE}"),
    "preferred": (_preferring("disk"), {}, "only products are preferred"),
    "pools": (near(_expression(POOL, "a", "b")), {}, "work runs in one pool"),
    "other-pool": (OTHER_POOL, {}, "no node has both"),
    "selector": ({"nodeSelector": {"disk": "ssd"}}, {}, "spec.nodeSelector[disk]"),
    "host": ({"nodeSelector": {HOSTNAME: "gpu-0001"}}, {}, f"spec.nodeSelector[{HOSTNAME}]"),
    # other pods
    "zone": (
        {"topologySpreadConstraints": [SPREAD]},
        {},
        f"spec.topologySpreadConstraints[0].topologyKey: {NO_PLACE}",
    ),
    "near": (_term("podAffinity"), {}, f"spec.affinity.podAffinity.{REQUIRED}: decides"),
    "rather": (_term("podAffinity", PREFERRED), {}, f"podAffinity.{PREFERRED}: decides"),
    "others": (_term("podAntiAffinity"), {}, "chooses a pod that is not of its group"),
    "elsewhere": (
        _term("podAntiAffinity", namespaces=["kube-system"]),
        {},
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0].namespaces",
    ),
    "rack": (
        _term("podAntiAffinity", PREFERRED, topologyKey="rack"),
        {},
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].topologyKey",
    ),
    "port": ({"containers": [PORTS]}, {}, f"spec.containers[train].ports[].hostPort: {NO_PLACE}"),
    # claims
    "claim": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "none"}]},
        {},
        f"spec.resourceClaims: {NO_PLACE}",
    ),
    "volume": ({"volumes": [VOLUME]}, {}, "spec.volumes[].persistentVolumeClaim: has no volume"),
    # groups
    "negative": ({}, _sized("-3", "negative-{kind}"), OF_SIZE.format("-3")),
    "too-large": ({}, _sized("5000", "large-{kind}"), OF_SIZE.format("5000")),
    "unicode": ({}, _sized("\uff14", "unicode-{kind}"), OF_SIZE.format("\uff14")),
    "long": ({}, _annotated("pod-group-name", "x" * LARGE), "must be the name of an object"),
    "emoji": (
        {},
        _annotated("scheduling.k8s.io/group-name", "\U0001f4a5/../x"),
        "must be the name of an object",
    ),
    "yunikorn": (
        {},
        _annotated("yunikorn.apache.org/task-group-name", "w"),
        "groups of YuniKorn are not read",
    ),
    "one-size": ({}, _sized("2", "two-{kind}"), "all pods of a group must tell the same size"),
    "other-size": ({}, _sized("3", "two-{kind}"), "all pods of a group must tell the same size"),
    # what it is
    "queue": ({}, _labelled(queue="not-ours"), "is not a queue of team"),
    "kind": ({}, _labelled(kind="gaming"), "must be one of training"),
    "duration": ({}, _noted(**{"expected-duration-seconds": "soon"}), "must be whole seconds"),
    "class": ({}, _labelled(**{"priority-class": "mine"}), "priority_class"),
}
"""By name: changes of the spec, metadata, and what the pod is told."""
KINDS: Final = ("pod", "job", "indexed", "deployment", "statefulset")
"""What makes the pods of the table."""


class MalformedPod:
    """One of the table: what to create, and what its one pod is told."""

    def __init__(self, name: str, kind: str) -> None:
        spec, metadata, self.words = WRONG[name]
        self.name, self.kind = f"{name}-{kind}", kind
        self.spec = spec
        self.metadata = {
            field: {key: value.format(kind=kind) for key, value in texts.items()}
            for field, texts in metadata.items()
        }

    def is_of(self, pod: str) -> bool:
        """Whether a pod of this name is the one that its owner makes."""
        return pod == self.name or pod.startswith(f"{self.name}-")


def malformed_pods() -> Iterator[MalformedPod]:
    """Every kind of owner with every variant."""
    return (MalformedPod(name, kind) for name in WRONG for kind in KINDS)
