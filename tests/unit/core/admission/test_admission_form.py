"""Every field of a submission has a rule, and breaking it names the field."""

import pytest

from shared.core.admission.errors import ERRORS_MAX, Errors, shown
from shared.core.admission.form import check_form
from shared.core.admission.volumes import Mount, mount_of
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    Level,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
)
from shared.core.model.value import replace
from tests.unit.admission.builders import a_pod_set, a_spec


def fields(spec):
    errors = Errors()
    check_form(spec, errors)
    return [one.field for one in errors]


def in_pod(**changes):
    return a_spec(pod_sets=(replace(PodSet(), **changes),))


BROKEN = [
    (a_spec(name=""), "name"),
    (a_spec(name="Bert"), "name"),
    (a_spec(name="a" * 64), "name"),
    (a_spec(name="bert\n"), "name"),
    (a_spec(name="\uff18"), "name"),
    (a_spec(queue="no/slash"), "queue"),
    (a_spec(priority_class="UP"), "priority_class"),
    (a_spec(pod_sets=()), "pod_sets"),
    (a_spec(pod_sets=(PodSet(),) * 17), "pod_sets"),
    (a_spec(pod_sets=(PodSet(), PodSet())), "pod_sets"),
    (a_spec(pod_sets=(PodSet(name="a", count=4000), PodSet(name="b", count=97))), "pod_sets"),
    (in_pod(name="-"), "pod_sets[0].name"),
    (in_pod(count=0), "pod_sets[0].count"),
    (in_pod(count=4097), "pod_sets[0].count"),
    (in_pod(count=10**5000), "pod_sets[0].count"),
    (in_pod(count=2, min_count=3), "pod_sets[0].min_count"),
    (in_pod(min_count=0), "pod_sets[0].min_count"),
    (in_pod(gpu=GpuRequest(count=1, milli=1)), "pod_sets[0].gpu"),
    (in_pod(gpu=GpuRequest(count=1, mig_profile="1g.10gb")), "pod_sets[0].gpu"),
    (in_pod(gpu=GpuRequest(count=-1)), "pod_sets[0].gpu.count"),
    (in_pod(gpu=GpuRequest(count=1025)), "pod_sets[0].gpu.count"),
    (in_pod(gpu=GpuRequest(milli=1000, memory_mib=1)), "pod_sets[0].gpu.milli"),
    (in_pod(gpu=GpuRequest(milli=-5, memory_mib=1)), "pod_sets[0].gpu.milli"),
    (in_pod(gpu=GpuRequest(milli=20, memory_mib=1)), "pod_sets[0].gpu.milli"),
    (in_pod(gpu=GpuRequest(milli=500)), "pod_sets[0].gpu.memory_mib"),
    (in_pod(gpu=GpuRequest(count=1, memory_mib=1)), "pod_sets[0].gpu.memory_mib"),
    *(
        (in_pod(gpu=GpuRequest(mig_profile=name)), "pod_sets[0].gpu.mig_profile")
        for name in ("9g.10gb", "0g.10gb", "1g", "1G.10GB", "1g.010gb", "1g.10gb+", "1g.10gb me")
    ),
    (in_pod(gpu=GpuRequest(mig_profile="1g.10gb", mig_count=-1)), "pod_sets[0].gpu.mig_count"),
    (in_pod(gpu=GpuRequest(mig_count=1)), "pod_sets[0].gpu.mig_count"),
    (in_pod(cpu_milli=-1), "pod_sets[0].cpu_milli"),
    (in_pod(cpu_milli=1 << 62), "pod_sets[0].cpu_milli"),
    (in_pod(memory_mib=-1), "pod_sets[0].memory_mib"),
    (in_pod(shm_mib=-1), "pod_sets[0].shm_mib"),
    (in_pod(image="a b"), "pod_sets[0].image"),
    (in_pod(image="a" * 1025), "pod_sets[0].image"),
    (in_pod(weights="hf://a b"), "pod_sets[0].weights"),
    (in_pod(command=("a",) * 257), "pod_sets[0].command"),
    (in_pod(command=("sh", "\x1b[2J")), "pod_sets[0].command[1]"),
    (in_pod(command=("x" * 4097,)), "pod_sets[0].command[0]"),
    (in_pod(command=("x" * 4096,) * 17), "pod_sets"),
    (in_pod(environment={"1A": ""}), "pod_sets[0].environment"),
    (in_pod(environment={"A": "\r"}), "pod_sets[0].environment.A"),
    (in_pod(environment={"A": "x" * 4097}), "pod_sets[0].environment.A"),
    (in_pod(environment={f"A{i}": "" for i in range(101)}), "pod_sets[0].environment"),
    (in_pod(secrets=("../x",)), "pod_sets[0].secrets[0]"),
    (in_pod(secrets=("a", "a")), "pod_sets[0].secrets"),
    (in_pod(secrets=tuple(f"s{i}" for i in range(65))), "pod_sets[0].secrets"),
    (in_pod(volumes=("/etc",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:data",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:/a/../etc",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:/" + "a" * 255,)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:/data:rw",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:/data:ro:ro",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:/proc",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("data:/etc/ssl",)), "pod_sets[0].volumes[0]"),
    (in_pod(volumes=("a:/data", "b:/data")), "pod_sets[0].volumes"),
    (in_pod(volumes=("a:/mnt/b", "b")), "pod_sets[0].volumes"),
    (in_pod(arguments=("x" * 4097,)), "pod_sets[0].arguments[0]"),
    (in_pod(arguments=("x",) * 257), "pod_sets[0].arguments"),
    (in_pod(arguments=("x" * 4096,) * 17), "pod_sets"),
    (in_pod(tolerations=("a b",)), "pod_sets[0].tolerations[0]"),
    (in_pod(tolerations=("a:Never",)), "pod_sets[0].tolerations[0]"),
    (in_pod(tolerations=("a",) * 65), "pod_sets[0].tolerations"),
    (in_pod(kubernetes_priority_class="No/Name"), "pod_sets[0].kubernetes_priority_class"),
    (
        in_pod(kubernetes_priority_class="system-node-critical"),
        "pod_sets[0].kubernetes_priority_class",
    ),
    (in_pod(volumes=tuple(f"v{i}" for i in range(65))), "pod_sets[0].volumes"),
    (a_spec(gpu_choice=GpuChoice(products=("",))), "gpu_choice.products"),
    (a_spec(gpu_choice=GpuChoice(products=("a",) * 65)), "gpu_choice.products"),
    (a_spec(gpu_choice=GpuChoice(min_memory_mib=-1)), "gpu_choice.min_memory_mib"),
    (a_spec(gpu_choice=GpuChoice(min_driver="new")), "gpu_choice.min_driver"),
    (a_spec(gpu_choice=GpuChoice(cuda="12.")), "gpu_choice.cuda"),
    (a_spec(gpu_choice=GpuChoice(node_pool="a b")), "gpu_choice.node_pool"),
    (
        a_spec(gpu_choice=GpuChoice(preferred_products={"": 1})),
        "gpu_choice.preferred_products",
    ),
    (
        a_spec(gpu_choice=GpuChoice(preferred_products={"H100": -1})),
        "gpu_choice.preferred_products.H100",
    ),
    (a_spec(labels={"a b": ""}), "labels"),
    (a_spec(labels={"muster.dev/team": "x"}), "labels"),
    (a_spec(labels={"app.kubernetes.io/name": "x"}), "labels"),
    (a_spec(labels={"a": "x" * 64}), "labels.a"),
    (a_spec(labels={f"a{i}": "" for i in range(65)}), "labels"),
    (a_spec(expected_duration_seconds=0), "expected_duration_seconds"),
    (a_spec(max_duration_seconds=10**30), "max_duration_seconds"),
    (
        a_spec(expected_duration_seconds=2, max_duration_seconds=1),
        "expected_duration_seconds",
    ),
    (a_spec(checkpoint_interval_seconds=-1), "checkpoint_interval_seconds"),
    (a_spec(idle_timeout_seconds=0), "idle_timeout_seconds"),
    (a_spec(time_to_live_seconds=0), "time_to_live_seconds"),
    (a_spec(max_retries=-1), "max_retries"),
    (a_spec(final_failures=("exit 3",)), "final_failures[0]"),
    (a_spec(uncounted_failures=("A",) * 65), "uncounted_failures"),
    (a_spec(final_failures=("A",), uncounted_failures=("B", "A")), "uncounted_failures"),
    (a_spec(grace_seconds=-1), "grace_seconds"),
    (a_spec(grace_seconds=3_601), "grace_seconds"),
    (a_spec(restart_seconds=86_401), "restart_seconds"),
    (
        a_spec(topology=TopologyRequest(required=Level.RACK, preferred=Level.ZONE)),
        "topology.preferred",
    ),
    *(
        (
            a_spec(pod_sets=(a_pod_set(gpu=gpu),), topology=TopologyRequest(numa_aligned=True)),
            "topology.numa_aligned",
        )
        for gpu in (GpuRequest(mig_profile="1g.10gb"), GpuRequest(milli=100, memory_mib=1))
    ),
    (a_spec(model_parameters_billions=0.0), "model_parameters_billions"),
    (a_spec(model_parameters_billions=float("nan")), "model_parameters_billions"),
    (a_spec(model_parameters_billions=float("inf")), "model_parameters_billions"),
    (a_spec(model_bytes_per_parameter=0), "model_bytes_per_parameter"),
]


@pytest.mark.parametrize(
    ("spec", "field"), BROKEN, ids=[f"{i}-{field}" for i, (_, field) in enumerate(BROKEN)]
)
def test_a_broken_rule_names_its_field(spec, field):
    assert fields(spec) == [field]


@pytest.mark.parametrize(
    "name",
    ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_LIBRARY_PATH"],
)
def test_the_devices_of_a_pod_are_not_the_tenants_to_set(name):
    assert fields(in_pod(environment={name: "all"})) == [f"pod_sets[0].environment.{name}"]
    assert fields(in_pod(environment={name.lower(): "all"})) != []


def test_a_full_and_proper_submission_has_no_error():
    pod_set = a_pod_set(
        count=4096,
        image="registry.example/team/bert@sha256:" + "0" * 64,
        command=("sh", "-c", "for i in 1 2\ndo\techo $i\ndone"),
        environment={"_A1": "ä 語", "CUDA_LAUNCH_BLOCKING": "1"},
        secrets=("token.v1",),
        volumes=("data", "scratch:/scratch", "models.v1:/models/llama-3_8b:ro", "data:/again"),
        arguments=("--epochs", "3"),
        tolerations=("nvidia.com/gpu", "dedicated=research:NoSchedule", "spot=:NoExecute"),
        kubernetes_priority_class="batch-low",
    )
    spec = a_spec(
        name="a" * 63,
        pod_sets=(pod_set,),
        labels={"example.com/team": "nlp", "run": ""},
        gpu_choice=GpuChoice(
            products=("NVIDIA-H100-80GB-HBM3",),
            preferred_products={"H100": 3},
            min_memory_mib=40_000,
            min_driver="550.54.15",
            cuda="12.4",
            node_pool="gold",
        ),
        topology=TopologyRequest(required=Level.BLOCK, preferred=Level.RACK),
        expected_duration_seconds=60,
        max_duration_seconds=60,
        model_parameters_billions=70.6,
    )

    assert fields(spec) == []


def test_pods_that_must_be_apart_are_not_asked_to_share_a_node():
    errors = Errors()
    one_node = TopologyRequest(required=Level.NODE)
    halves = (Slice(pods=4, level=Level.RACK), Slice(pods=2, level=Level.NODE))
    pod_set = a_pod_set(count=4, min_count=4, slices=halves)

    check_form(a_spec(pod_sets=(pod_set,), topology=one_node, spread=Spread.REQUIRED), errors)

    assert [(one.field, one.value, one.rule) for one in errors] == [
        ("spread", "required", "must not go with topology.required node: 4 pods need a node each"),
        (
            "pod_sets[0].slices[1].pods",
            "2",
            "must be 1 with spread required: the pods of such a slice share a node",
        ),
    ]


@pytest.mark.parametrize(
    "spec",
    [
        a_spec(count=1, topology=TopologyRequest(required=Level.NODE), spread=Spread.REQUIRED),
        a_spec(count=2, topology=TopologyRequest(required=Level.NODE), spread=Spread.PREFERRED),
        a_spec(count=2, topology=TopologyRequest(required=Level.RACK), spread=Spread.REQUIRED),
        a_spec(
            pod_sets=(a_pod_set(count=4, min_count=1),),
            topology=TopologyRequest(required=Level.NODE),
            spread=Spread.REQUIRED,
        ),
        a_spec(
            pod_sets=(a_pod_set(count=2, slices=(Slice(pods=1, level=Level.NODE),)),),
            spread=Spread.REQUIRED,
        ),
    ],
)
def test_pods_that_can_be_apart_are_not_refused_for_it(spec):
    assert fields(spec) == []


def test_a_pod_set_without_gpus_beside_whole_ones_may_be_aligned():
    sets = (a_pod_set(gpus=2, name="a"), a_pod_set(gpus=0, name="b"))

    assert fields(a_spec(pod_sets=sets, topology=TopologyRequest(numa_aligned=True))) == []


def test_a_value_is_shown_without_control_characters_and_bounded():
    assert shown("a\x1b\u2028b") == "a\\u001b\\u2028b"
    assert shown("x" * 500) == "x" * 100 + "..."
    assert shown(10**5000) == "(a huge number)"


def test_a_secret_in_an_environment_variable_is_never_shown():
    errors = Errors()
    check_form(in_pod(environment={"TOKEN": "hunter2\r"}), errors)

    assert "hunter2" not in str(errors)


def test_no_more_errors_than_the_bound_are_told():
    environment = {f"NVIDIA_{i}": "" for i in range(100)}

    assert len(fields(in_pod(environment=environment))) == ERRORS_MAX


def gang_errors(*sets):
    errors = Errors()
    check_form(a_spec(pod_sets=sets), errors)
    return {(each.field, each.rule) for each in errors}


def test_slices_nest_and_divide_the_gang():
    rack, block, zone = Level.RACK, Level.BLOCK, Level.ZONE
    good = a_pod_set(
        count=16,
        min_count=8,
        slices=(
            Slice(pods=8, level=zone),
            Slice(pods=4, level=block),
            Slice(pods=2, level=rack),
        ),
    )
    assert gang_errors(good) == set()

    def fields(**changes):
        return {field for field, _ in gang_errors(a_pod_set(**{"count": 8, **changes}))}

    four, three = Slice(pods=4, level=rack), Slice(pods=3, level=block)
    assert fields(slices=(four, Slice(pods=2, level=block))) == {"pod_sets[0].slices[1].level"}
    assert fields(slices=(four, Slice(pods=2, level=rack))) == {"pod_sets[0].slices[1].level"}
    assert fields(count=9, slices=(three, Slice(pods=2, level=rack))) == {
        "pod_sets[0].slices[1].pods"
    }
    assert fields(slices=(three,)) == {"pod_sets[0].slices[0].pods"}
    assert fields(min_count=6, slices=(four,)) == {"pod_sets[0].slices[0].pods"}
    assert fields(slices=(Slice(pods=0, level=rack),)) == {"pod_sets[0].slices"}
    assert fields(slices=(Slice(pods=9, level=rack),)) == {"pod_sets[0].slices"}
    assert fields(slices=(four,) * 4) == {"pod_sets[0].slices"}


def test_a_leader_is_one_pod_beside_others():
    leader = a_pod_set(name="leader", role=PodRole.LEADER)
    workers = a_pod_set(name="workers", count=4)
    sliced = Slice(pods=1, level=Level.RACK)

    assert gang_errors(leader, workers) == set()
    assert gang_errors(leader) == {("pod_sets[0].role", "needs another set, of its workers")}
    assert {field for field, _ in gang_errors(workers, replace(leader, count=2))} == {
        "pod_sets[1].count"
    }
    assert {field for field, _ in gang_errors(workers, replace(leader, slices=(sliced,)))} == {
        "pod_sets[1].slices"
    }
    two = (leader, replace(leader, name="other"), workers)
    assert gang_errors(*two) == {("pod_sets", "must have at most one set with role leader")}


def test_a_volume_is_mounted_where_it_says_or_below_mnt():
    assert mount_of("data") == Mount(claim="data", path="/mnt/data")
    assert mount_of("data:/in") == Mount(claim="data", path="/in")
    assert mount_of("data:/in:ro") == Mount(claim="data", path="/in", read_only=True)
