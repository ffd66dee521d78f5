"""Specs of native pods, and wrong ones by name: changes of the spec, metadata, what is told."""

POOL = "muster.dev/pool"
CONTAINER = {
    "name": "train",
    "image": "registry.example.org/a/b:1",
    "resources": {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
    },
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def with_gpus(count, name="train"):
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(count)}
    return {**CONTAINER, "name": name, "resources": {"limits": limits}}


def asks(**limits):
    return {"containers": [{"name": "a", "image": "a/b:1", "resources": {"limits": limits}}]}


def near(expression):
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {},
}
NO_NUMBER = {"labels": {"muster.dev/group": "x"}, "annotations": {"muster.dev/group-size": "-3"}}
OF_YUNIKORN = {"annotations": {"yunikorn.apache.org/task-group-name": "w"}}
WRONG = {
    "several": ({"containers": [with_gpus(1), with_gpus(1, "other")]}, {}, "one container"),
    "spread": (
        {"topologySpreadConstraints": [SPREAD]},
        {},
        "spec.topologySpreadConstraints[0].topologyKey: decides a place and is not honoured",
    ),
    "affinity": (near({"key": "disk", "operator": "In", "values": ["ssd"]}), {}, "[disk]"),
    "operator": (near({"key": POOL, "operator": "Exists"}), {}, "spec.affinity.nodeAffinity.req"),
    "selector": ({"nodeSelector": {"disk": "ssd"}}, {}, "spec.nodeSelector[disk]"),
    "mig": (asks(**{"nvidia.com/gpu.mig-1g.10gb": "1"}), {}, "nvidia.com/mig-1g.10gb"),
    "size": ({}, NO_NUMBER, "must be the number of pods of the group, 1 to 4096 (got -3)"),
    "queue": ({}, {"labels": {"muster.dev/queue": "not-ours"}}, "is not a queue of team"),
    "fraction": ({}, {"annotations": {"gpu-fraction": "0.5"}}, "shares of a GPU"),
    "large": (asks(**{"nvidia.com/gpu": "16"}), {}, "must be at most"),
    "yunikorn": ({}, OF_YUNIKORN, "groups of YuniKorn are not read"),
}
