"""To which group a pod belongs, and what is refused."""

import pytest

from shared.core.kubernetes.requests import TakenResources
from shared.core.model.decision import FieldError
from shared.core.model.nouns import GpuChoice, GpuRequest, WorkloadKind
from shared.core.model.value import replace
from shared.core.native import (
    ContainerGpus,
    GroupObject,
    NativePod,
    PodGroup,
    group_key,
    group_of,
    may_come_back,
    problem_of_pod,
    spec_of,
)
from shared.core.native.groups import keys_of, whole_of
from shared.core.native.problems import PRODUCT_LABEL as PRODUCT
from shared.core.native.sources import BY_NAME

POOLS = ("muster.dev/pool",)
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
LWS = "leaderworkerset.sigs.k8s.io"
GPUS = ContainerGpus(container="train", amounts={"nvidia.com/gpu": "2"})


def a_pod(name="p", **fields):
    taken = TakenResources(cpu_milli=500, memory_bytes=(1 << 30) + 1, gpus=2)
    defaults = {"namespace": "red", "name": name, "uid": f"u-{name}", "taken": taken}
    return NativePod(**{**defaults, "gpus": (GPUS,), "image": "a/b:1", **fields})


def of_job(**fields):
    return a_pod(
        owner_kind="Job", owner_name="train", owner_uid="j1", labels={JOB_INDEX: "3"}, **fields
    )


def of_jobset(job, index):
    labels = {"jobset-uid": "s1", "jobset-name": "js", "job-global-index": job}
    return a_pod(
        owner_kind="Job",
        owner_name="js-workers-0",
        owner_uid="j1",
        labels={JOB_INDEX: index, **{f"jobset.sigs.k8s.io/{key}": v for key, v in labels.items()}},
    )


def of_kubeflow(role, index):
    labels = {"replica-type": role, "replica-index": index, "job-name": "train"}
    return a_pod(
        owner_kind="PyTorchJob",
        owner_name="train",
        owner_uid="k1",
        labels={f"training.kubeflow.org/{key}": value for key, value in labels.items()},
    )


MEMBERS = [
    (a_pod(), ("red/pod/u-p", 0), PodGroup(key="red/pod/u-p", name="p", size=1)),
    (
        a_pod(labels={"muster.dev/group": "g"}, annotations={"muster.dev/group-size": "4"}),
        ("red/group/g", BY_NAME),
        PodGroup(key="red/group/g", name="g", size=4),
    ),
    (
        a_pod(
            labels={"kueue.x-k8s.io/pod-group-name": "k"},
            annotations={"kueue.x-k8s.io/pod-group-total-count": "2"},
        ),
        ("red/kueue/k", BY_NAME),
        PodGroup(key="red/kueue/k", name="k", size=2),
    ),
    (
        a_pod(
            labels={f"{LWS}/group-key": "l", f"{LWS}/worker-index": "7"},
            annotations={f"{LWS}/size": "8"},
        ),
        ("red/lws/l", 7),
        PodGroup(key="red/lws/l", name="l", size=8),
    ),
    (of_job(), ("red/job/j1", 3), PodGroup(key="red/job/j1", name="train", size=16)),
    (
        a_pod(
            owner_kind="StatefulSet", owner_uid="s", labels={"apps.kubernetes.io/pod-index": "2"}
        ),
        ("red/statefulset/s.2", 0),
        PodGroup(key="red/statefulset/s.2", name="p", size=1),
    ),
    (
        a_pod(scheduling_group="g"),
        ("red/podgroup/g", BY_NAME),
        PodGroup(key="red/podgroup/g", name="g", size=6),
    ),
    (
        a_pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
        ("red/coscheduling/g", BY_NAME),
        PodGroup(key="red/coscheduling/g", name="g", size=6),
    ),
    (
        a_pod(
            annotations={"scheduling.volcano.sh/group-name": "g"},
            labels={"volcano.sh/task-index": "2"},
        ),
        ("red/volcano/g", 2),
        PodGroup(key="red/volcano/g", name="g", size=6),
    ),
    (
        a_pod(annotations={"pod-group-name": "g"}),
        ("red/kai/g", BY_NAME),
        PodGroup(key="red/kai/g", name="g", size=6),
    ),
    (
        of_jobset("2", "3"),
        ("red/jobset/s1", 2 * 4096 + 3),
        PodGroup(key="red/jobset/s1", name="js", size=6),
    ),
    (
        of_kubeflow("worker", "0"),
        ("red/kubeflow/k1", 4096),
        PodGroup(key="red/kubeflow/k1", name="train", size=6),
    ),
    (
        of_kubeflow("Master", "0"),
        ("red/kubeflow/k1", 0),
        PodGroup(key="red/kubeflow/k1", name="train", size=6),
    ),
]
for _type, _rank in (("head", 0), ("worker", 1)):
    _labels = {"ray.io/cluster": "train", "ray.io/node-type": _type}
    _pod = a_pod(owner_kind="RayCluster", owner_name="train", owner_uid="r1", labels=_labels)
    _group = PodGroup(key="red/ray/r1", name="train", size=6)
    MEMBERS.append((_pod, ("red/ray/r1", _rank), _group))
OBJECTS = [key for _, (key, _), group in MEMBERS if group.size == 6]
KINDS = ("alone", "ours", "kueue", "lws", "job", "statefulset", "podgroup", "coscheduling")


@pytest.mark.parametrize(
    ("pod", "key", "group"),
    MEMBERS,
    ids=[*KINDS, "volcano", "kai", "jobset", "kubeflow", "kubeflow-master", "ray-head", "ray"],
)
def test_a_pod_belongs_to_the_first_source_that_applies(pod, key, group):
    told = {
        "red/job/j1": GroupObject(size=16),
        **{key: GroupObject(size=6) for key in OBJECTS},
    }

    assert key == group_key(pod)
    assert group == group_of(pod, told)
    assert may_come_back(key[0]) is (key[0] != "red/pod/u-p")


def of_lws(index):
    labels = {"name": "set", "group-key": "l", "worker-index": str(index)}
    return a_pod(
        f"set-{index}",
        labels={f"{LWS}/{key}": value for key, value in labels.items()},
        annotations={f"{LWS}/size": "4"},
    )


def test_each_job_of_a_jobset_that_starts_in_order_is_a_group_of_its_own():
    pod = of_jobset("1", "0")
    pod = replace(pod, labels={**pod.labels, "jobset.sigs.k8s.io/replicatedjob-name": "w"})
    told = GroupObject(size=7, in_parts=True, parts={"lead": 1, "w": 6})

    assert ("red/jobset/s1", "red/jobset/s1:w") == keys_of(pod)
    assert "red/jobset/s1" == whole_of("red/jobset/s1:w")
    assert PodGroup(key="red/jobset/s1:w", name="js-w", size=6) == group_of(
        pod, {"red/jobset/s1": told}
    )
    assert ("red/jobset/s1",) == keys_of(of_jobset("1", "0")), "it names no Job"


def test_the_leader_of_a_group_that_starts_by_it_is_a_group_before_its_workers():
    told = {"red/lws/set": GroupObject(in_parts=True)}
    wrong = replace(of_lws(1), annotations={})

    assert ("red/lws/l", "red/lws/l:workers", "red/lws/set") == keys_of(of_lws(1))
    assert PodGroup(key="red/lws/l:leader", name="l-leader", size=1) == group_of(of_lws(0), told)
    assert PodGroup(key="red/lws/l:workers", name="l-workers", size=3) == group_of(of_lws(1), told)
    assert None is group_of(of_lws(0), {}), "whether it does is not known yet"
    assert isinstance(group_of(wrong, told), FieldError)


def test_a_job_that_is_not_known_yet_is_waited_for():
    assert None is group_of(of_job(), {})


def test_what_its_object_says_and_is_refused_is_told():
    wrong = FieldError(field="spec.parallelism", value="2", rule="must equal completions (8)")

    assert wrong is group_of(of_job(), {"red/job/j1": GroupObject(refused=wrong)})


@pytest.mark.parametrize("size", ["", "0", "-3", "4097", "many", "²"])
def test_the_size_of_a_group_is_a_number(size):
    pod = a_pod(labels={"muster.dev/group": "g"}, annotations={"muster.dev/group-size": size})

    found = group_of(pod, {})

    assert isinstance(found, FieldError)
    assert "1 to 4096" in found.rule


def test_an_index_that_is_none_orders_by_name():
    assert BY_NAME == group_key(a_pod(labels={"muster.dev/group": "g", JOB_INDEX: "x"}))[1]


MIG = {"nvidia.com/mig-1g.10gb.me": "2"}
WRONG = {
    "quantity": (a_pod(problem="'x' is no quantity"), "spec.containers[].resources.requests"),
    "yunikorn": (
        a_pod(annotations={"yunikorn.apache.org/task-group-name": "g"}),
        "metadata.annotations[yunikorn.apache.org/task-group-name]",
    ),
    "misnamed": (
        a_pod(annotations={"pod-group-name": "x" * 254}),
        "metadata.annotations[pod-group-name]",
    ),
    "mig": (
        a_pod(gpus=(ContainerGpus(container="a", amounts={"nvidia.com/mig-small": "1"}),)),
        "spec.containers[a].resources.limits[nvidia.com/mig-small]",
    ),
    "shared": (
        a_pod(gpus=(ContainerGpus(container="a", amounts={"nvidia.com/gpu.shared": "1"}),)),
        "spec.containers[a].resources.limits[nvidia.com/gpu.shared]",
    ),
    "forms": (
        a_pod(gpus=(ContainerGpus(container="a", amounts={"nvidia.com/gpu": "1", **MIG}),)),
        "spec.containers[a].resources.limits",
    ),
    "seed": (
        a_pod(gpus=(ContainerGpus(container="a", amounts={"nvidia.com/gpu.mig-1g.5gb": "1"}),)),
        "spec.containers[a].resources.limits[nvidia.com/gpu.mig-1g.5gb]",
    ),
    "init": (a_pod(init_gpus=True), "spec.initContainers[].resources.limits"),
    "two": (a_pod(gpus=(GPUS, GPUS)), "spec.containers[].resources.limits"),
    "affinity": (a_pod(not_honoured=("spec.affinity.x",)), "spec.affinity.x"),
    "selector": (a_pod(node_selector={"disk": "ssd"}), "spec.nodeSelector[disk]"),
    "values": (a_pod(node_values={"disk": ("ssd",)}), "spec.affinity.nodeAffinity[disk]"),
    "two pools": (
        a_pod(node_values={POOLS[0]: ("a", "b")}),
        f"spec.affinity.nodeAffinity[{POOLS[0]}]",
    ),
    "two choices": (
        a_pod(node_values={PRODUCT: ("A", "B")}, node_selector={PRODUCT: "C"}),
        f"spec.affinity.nodeAffinity[{PRODUCT}]",
    ),
    "weights": (a_pod(node_weights={"disk": {"ssd": 1}}), "spec.affinity.nodeAffinity[disk]"),
}
PRODUCTS = {"node_values": {PRODUCT: ("A", "B")}, "node_weights": {PRODUCT: {"B": 5}}}


def test_nodes_are_chosen_by_required_and_preferred_affinity():
    pod = a_pod(node_selector={PRODUCT: "A"}, **PRODUCTS)
    pooled = a_pod(node_values={POOLS[0]: ("x",)})

    assert None is problem_of_pod(pod, POOLS) is problem_of_pod(pooled, POOLS)
    group = PodGroup(key="red/pod/u", name="p", size=1)
    specs = [spec_of(group, [one], POOLS) for one in (a_pod(**PRODUCTS), pod, pooled)]
    told = [one.gpu_choice for one in specs if not isinstance(one, FieldError)]

    assert [("A", "B"), ("A",), ()] == [one.products for one in told]
    assert [{"B": 5}, {"B": 5}, {}] == [one.preferred_products for one in told]
    assert ["", "", "x"] == [one.node_pool for one in told]


def test_members_of_a_group_have_one_affinity():
    group = PodGroup(key="red/pod/u", name="p", size=2)
    found = spec_of(group, [a_pod(**PRODUCTS), a_pod(taken=TakenResources(gpus=1))], POOLS)

    assert isinstance(found, FieldError)
    assert "spec.affinity.nodeAffinity" == found.field


@pytest.mark.parametrize(("pod", "field"), WRONG.values(), ids=WRONG.keys())
def test_what_is_not_honoured_is_named(pod, field):
    found = problem_of_pod(pod, POOLS)

    assert found is not None
    assert field == found.field


@pytest.mark.parametrize(
    "annotation",
    [
        "gpu-fraction",
        "gpu-fraction-num-devices",
        "gpu-memory",
        "muster.dev/gpu-memory-mib",
        "muster.dev/gpu-milli",
    ],
)
def test_a_share_is_refused_with_what_gives_a_part_of_a_gpu(annotation):
    found = problem_of_pod(a_pod(annotations={annotation: "500"}), POOLS)

    assert found is not None
    assert f"metadata.annotations[{annotation}]" == found.field
    assert "nvidia.com/mig-" in found.remedy
    assert "muster submit" in found.remedy


def test_a_group_of_muster_goes_before_one_that_is_not_read():
    pod = a_pod(
        annotations={"yunikorn.apache.org/task-group-name": "c"}, labels={"muster.dev/group": "g"}
    )

    assert None is problem_of_pod(pod, POOLS)


def test_a_plain_pod_has_no_problem():
    selector = {"nvidia.com/gpu.product": "H100", "muster.dev/pool": "a"}

    assert None is problem_of_pod(a_pod(node_selector=selector), POOLS)


def test_a_group_becomes_a_workload():
    selector = {"nvidia.com/gpu.product": "H100", "muster.dev/pool": "a"}
    pod = a_pod(
        node_selector=selector,
        labels={"kueue.x-k8s.io/queue-name": "q"},
        annotations={"muster.dev/expected-duration-seconds": "60"},
        priority_class="high",
        tolerations=("a=b:NoSchedule",),
        grace_seconds=0,
    )
    group = PodGroup(key="red/group/g", name="My_Group.", size=2)

    spec = spec_of(group, [pod, replace(pod, name="other", uid="2")], POOLS, {"high"})

    assert not isinstance(spec, FieldError)
    (pod_set,) = spec.pod_sets
    assert ("my-group", "q", "high", 60, 1, 0) == (
        spec.name, spec.queue, spec.priority_class, spec.expected_duration_seconds,
        spec.grace_seconds, spec.max_retries,
    )  # fmt: skip
    assert (2, 2, 500, 1025) == (
        pod_set.count, pod_set.gpu.count, pod_set.cpu_milli, pod_set.memory_mib,
    )  # fmt: skip
    assert GpuChoice(products=("H100",), node_pool="a") == spec.gpu_choice
    assert (WorkloadKind.TRAINING, ("a=b:NoSchedule",)) == (spec.kind, pod_set.tolerations)


def test_a_class_of_kubernetes_alone_is_left_to_kubernetes():
    spec = spec_of(PodGroup(key="k", name="--", size=1), [a_pod(priority_class="high")], POOLS)

    assert not isinstance(spec, FieldError)
    assert ("", "pods") == (spec.priority_class, spec.name)


def test_runs_of_equal_members_are_pod_sets_in_order_of_rank():
    group = PodGroup(key="k", name="g", size=4)
    head = a_pod("head", taken=TakenResources(cpu_milli=100), gpus=())
    product = {"nvidia.com/gpu.product": "H100"}
    workers = [a_pod(f"w{number}", node_selector=product, grace_seconds=7) for number in range(2)]

    spec = spec_of(group, [head, *workers, head], POOLS)

    assert not isinstance(spec, FieldError)
    assert [("main-0", 1, 0), ("main-1", 2, 2), ("main-2", 1, 0)] == [
        (one.name, one.count, one.gpu.count) for one in spec.pod_sets
    ]
    assert (GpuChoice(products=("H100",)), 30) == (spec.gpu_choice, spec.grace_seconds)


DIFFERENT = {
    "selector": ({"node_selector": {"muster.dev/pool": "b"}}, "spec.nodeSelector"),
    "cpu": (
        {"taken": TakenResources(), "node_selector": {"muster.dev/pool": "b"}},
        "spec.nodeSelector",
    ),
    "priority": ({"priority_class": "low"}, "spec.priorityClassName"),
}


@pytest.mark.parametrize(("fields", "field"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_members_that_choose_different_nodes_are_no_gang(fields, field):
    found = spec_of(PodGroup(key="k", name="g", size=2), [a_pod(), a_pod("b", **fields)], POOLS)

    assert isinstance(found, FieldError)
    assert (field, "b") == (found.field, found.value)


def test_members_have_a_limit_of_runs():
    pods = [
        a_pod(f"p{number:02}", taken=TakenResources(gpus=1 + number % 2)) for number in range(17)
    ]

    found = spec_of(PodGroup(key="k", name="g", size=17), pods, POOLS)

    assert isinstance(found, FieldError)
    assert "17 runs of equal pods" == found.value
    assert not isinstance(
        spec_of(PodGroup(key="k", name="g", size=16), pods[1:], POOLS), FieldError
    )


def test_instances_of_a_profile_are_asked_for_by_their_resource():
    pod = a_pod(
        taken=TakenResources(cpu_milli=500), gpus=(ContainerGpus(container="a", amounts=MIG),)
    )

    assert None is problem_of_pod(pod, POOLS)
    found = spec_of(PodGroup(key="k", name="g", size=1), [pod], POOLS)
    assert not isinstance(found, FieldError)
    assert GpuRequest(mig_profile="1g.10gb+me", mig_count=2) == found.pod_sets[0].gpu
    assert WorkloadKind.BATCH_INFERENCE is found.kind, "training gets whole GPUs"
    assert 2 == pod.device_count


@pytest.mark.parametrize("text", ["soon", "-1", "", "123456789"])
def test_a_duration_is_whole_seconds(text):
    pod = a_pod(annotations={"muster.dev/expected-duration-seconds": text})

    found = spec_of(PodGroup(key="k", name="g", size=1), [pod], POOLS)

    assert isinstance(found, FieldError)
    assert "must be whole seconds" in found.rule


def test_a_kind_that_is_none_is_refused():
    pod = a_pod(labels={"muster.dev/kind": "gaming"})

    found = spec_of(PodGroup(key="k", name="g", size=1), [pod], POOLS)

    assert isinstance(found, FieldError)
    assert "metadata.labels[muster.dev/kind]" == found.field


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({}, True),
        ({"gates": ("kueue.x-k8s.io/admission",)}, False),
        ({"node": "n"}, False),
        ({"claimed": True}, False),
        ({"deleting": True}, False),
        ({"ended": True}, False),
    ],
)
def test_what_waits_to_be_bound(fields, waits):
    assert waits is a_pod(**fields).waits
