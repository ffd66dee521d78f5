"""What admission fills in, and whom it lets do what."""

from dataclasses import replace

import pytest

from shared.core.admission.admit import (
    AdmissionRefusal,
    AdmittedWorkload,
    Doubt,
    admit,
    class_for_team,
)
from shared.core.model.amounts import amount
from shared.core.model.decision import FieldError
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    Level,
    PodSet,
    Spread,
    TopologyRequest,
    WorkloadKind,
)
from shared.core.model.priority_classes import NO_SHARES, PriorityClass
from shared.core.model.units import UNLIMITED, Resources
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from tests.unit.admission.builders import (
    QUEUE,
    TEAM,
    a_node,
    a_pod_set,
    a_spec,
    gpu_quota,
    rules,
)

SHARE = GpuRequest(milli=500, memory_mib=8_000)
MIG = GpuRequest(mig_profile="1g.10gb")


def admitted(spec, by=None):
    answer = admit(spec, TEAM, by or rules())
    assert isinstance(answer, AdmittedWorkload), answer
    return answer


def refused(spec, by=None, team=TEAM):
    answer = admit(spec, team, by or rules())
    assert isinstance(answer, AdmissionRefusal), answer
    return answer


def the_error(spec, by=None):
    (error,) = refused(spec, by).errors
    return error


def test_what_is_left_out_comes_from_the_team_and_the_kind():
    pod_set = admitted(a_spec()).spec.pod_sets[0]

    assert (pod_set.cpu_milli, pod_set.memory_mib) == (4000, 16_384)
    assert pod_set.shm_mib == 16_384
    assert pod_set.min_count == 1


def test_what_is_given_is_kept():
    given = PodSet(
        count=4, min_count=2, gpu=GpuRequest(count=2), cpu_milli=1, memory_mib=2, shm_mib=3
    )

    assert admitted(a_spec(pod_sets=(given,))).spec.pod_sets[0] == given


def test_serving_gets_little_shared_memory():
    assert admitted(a_spec(WorkloadKind.INFERENCE)).spec.pod_sets[0].shm_mib == 64


def test_a_notebook_gets_an_idle_timeout_and_a_time_to_live():
    spec = admitted(a_spec(WorkloadKind.NOTEBOOK, pod_sets=(a_pod_set(gpu=SHARE),))).spec

    assert (spec.idle_timeout_seconds, spec.time_to_live_seconds) == (3600, 28_800)


def test_training_gets_no_idle_timeout():
    spec = admitted(a_spec()).spec

    assert (spec.idle_timeout_seconds, spec.time_to_live_seconds) == (None, None)


def test_a_training_of_several_pods_lies_near_together_where_it_can():
    assert TopologyRequest(preferred=Level.ZONE) == admitted(a_spec(count=2)).spec.topology


@pytest.mark.parametrize(
    "spec",
    [
        a_spec(),
        a_spec(WorkloadKind.INFERENCE, count=2),
        a_spec(gpus=0, count=2),
        a_spec(count=2, spread=Spread.REQUIRED),
        a_spec(count=2, topology=TopologyRequest(required=Level.RACK)),
        a_spec(count=2, topology=TopologyRequest(preferred=Level.BLOCK, numa_aligned=True)),
    ],
)
def test_others_and_what_is_asked_for_stay_as_they_are(spec):
    assert spec.topology == admitted(spec).spec.topology


def test_words_of_a_product_mean_what_the_nodes_report():
    by = rules(nodes=[a_node(product="NVIDIA-H100-80GB-HBM3"), a_node("n2", product="Tesla-T4")])
    spec = a_spec(gpu_choice=GpuChoice(products=("H100",)))

    assert ("NVIDIA-H100-80GB-HBM3",) == admitted(spec, by).spec.gpu_choice.products


def test_a_product_that_nobody_has_is_refused_in_the_words_of_the_user():
    by = rules(nodes=[a_node()])

    assert "B300" == the_error(a_spec(gpu_choice=GpuChoice(products=("B300",))), by).value


def test_one_mig_instance_is_meant_when_no_number_is_given():
    pod_set = admitted(a_spec(WorkloadKind.INFERENCE, pod_sets=(a_pod_set(gpu=MIG),))).spec

    assert pod_set.pod_sets[0].gpu.mig_count == 1


@pytest.mark.parametrize(
    ("kind", "gpu", "name"),
    [
        (WorkloadKind.TRAINING, GpuRequest(count=1), "training-batch"),
        (WorkloadKind.INFERENCE, GpuRequest(count=1), "training-interactive"),
        (WorkloadKind.BATCH_INFERENCE, SHARE, "training-batch"),
        (WorkloadKind.NOTEBOOK, SHARE, "training-interactive"),
    ],
)
def test_each_kind_has_a_priority_class_by_default(kind, gpu, name):
    spec = admitted(a_spec(kind, pod_sets=(a_pod_set(gpu=gpu),))).spec

    assert spec.priority_class == name


def test_a_team_that_was_granted_the_protected_class_serves_in_it():
    by = rules(priority_classes=("inference-production", "training-batch"))

    answer = admitted(a_spec(WorkloadKind.INFERENCE), by)

    assert (answer.spec.priority_class, answer.priority) == ("inference-production", 1000)


def test_a_class_that_is_named_and_may_be_used_is_taken():
    spec = admitted(a_spec(priority_class="training-interactive")).spec

    assert "training-interactive" == spec.priority_class


def test_a_protected_class_is_not_for_a_team_that_was_not_granted_it():
    error = the_error(a_spec(priority_class="inference-production"))

    assert error.field == "priority_class"
    assert "training-interactive, training-batch" in error.rule


def test_an_unknown_class_is_refused_only_provisionally():
    assert refused(a_spec(priority_class="gold")).doubt is Doubt.NAMES
    assert refused(a_spec(priority_class="inference-production")).doubt is Doubt.NONE


def test_a_site_defines_its_own_class_for_a_kind():
    by = rules()
    by.classes["nightly"] = PriorityClass(name="nightly", value=700, kinds=("training",))

    assert admitted(a_spec(), by).priority == 700


def test_a_class_is_checked_for_a_change_of_priority_too():
    by = rules(priority_classes=("training-batch",))

    allowed = class_for_team("training-batch", TEAM, by, shares=True)
    assert allowed is not None
    assert allowed.value == 100
    assert class_for_team("training-interactive", TEAM, by, shares=False) is None
    assert class_for_team("training-batch", "nobody", by, shares=False) is None


def test_a_protected_class_is_for_no_work_on_shares_whether_submitted_or_changed():
    by = rules(priority_classes=("inference-production",))

    assert class_for_team("inference-production", TEAM, by, shares=False) is not None
    assert class_for_team("inference-production", TEAM, by, shares=True) is None
    pods = (a_pod_set(gpu=SHARE),)
    notebook = a_spec(WorkloadKind.NOTEBOOK, pod_sets=pods, priority_class="inference-production")
    (error,) = refused(notebook, by).errors
    assert (error.field, error.rule) == ("priority_class", NO_SHARES)
    assert error.remedy.startswith("ask for whole GPUs or MIG, or choose another priority class")


@pytest.mark.parametrize(
    ("kind", "gpu", "allowed"),
    [
        (WorkloadKind.TRAINING, GpuRequest(count=1), True),
        (WorkloadKind.TRAINING, SHARE, False),
        (WorkloadKind.TRAINING, MIG, False),
        (WorkloadKind.TRAINING, GpuRequest(), True),
        (WorkloadKind.INFERENCE, GpuRequest(count=1), True),
        (WorkloadKind.INFERENCE, MIG, True),
        (WorkloadKind.INFERENCE, SHARE, False),
        (WorkloadKind.BATCH_INFERENCE, SHARE, True),
        (WorkloadKind.BATCH_INFERENCE, MIG, True),
        (WorkloadKind.BATCH_INFERENCE, GpuRequest(count=1), False),
        (WorkloadKind.NOTEBOOK, SHARE, True),
        (WorkloadKind.NOTEBOOK, MIG, True),
        (WorkloadKind.NOTEBOOK, GpuRequest(count=1), False),
    ],
)
def test_a_kind_decides_how_a_gpu_may_be_held(kind, gpu, allowed):
    answer = admit(a_spec(kind, pod_sets=(a_pod_set(gpu=gpu),)), TEAM, rules())

    assert isinstance(answer, AdmittedWorkload) is allowed
    if isinstance(answer, AdmissionRefusal):
        assert answer.errors[0].field.startswith("pod_sets[0].gpu.")


def test_a_protected_class_never_runs_on_shares():
    by = rules(priority_classes=("inference-production",))

    error = the_error(a_spec(WorkloadKind.BATCH_INFERENCE, pod_sets=(a_pod_set(gpu=SHARE),)), by)

    assert error.field == "priority_class"


def test_the_queue_of_another_team_looks_like_one_that_does_not_exist():
    by = rules()
    by.apply_quota(QuotaDocument(name="theirs", kind="queue", version=1, team="other"))

    theirs = the_error(a_spec(queue="theirs"), by)
    nowhere = the_error(a_spec(queue="nowhere"), by)

    assert theirs.rule == nowhere.rule == "is not a queue of team fraud"


def test_an_unknown_team_is_refused_only_provisionally():
    answer = refused(a_spec(), team="nobody")

    assert answer.doubt is Doubt.NAMES
    assert answer.errors[0].field == "team"


def test_the_maximum_of_one_pod_is_the_teams():
    by = rules(max_pod=Resources(gpu_milli=2000, cpu_milli=8000, memory_mib=32_768))
    greedy = a_pod_set(gpus=3, cpu_milli=9000, memory_mib=40_000)

    answer = refused(a_spec(pod_sets=(greedy,)), by)

    assert [one.field for one in answer.errors] == [
        "pod_sets[0].gpu",
        "pod_sets[0].cpu_milli",
        "pod_sets[0].memory_mib",
    ]
    assert "gpu_milli 2000" in answer.errors[0].rule


def test_a_gang_above_the_whole_quota_is_refused_in_the_words_of_a_resource_quota():
    by = rules(quota={"h100": gpu_quota(4)})

    error = the_error(a_spec(gpus=1, count=5), by)

    assert error.rule.startswith(
        "exceeded quota: team-fraud, requested: gpu=5, used: gpu=0, limited: gpu=4"
    )


def test_what_the_queue_may_borrow_counts_and_what_it_may_not_does_not():
    by, spec = rules(), a_spec(gpus=1, count=6)
    mine = FlavorLimits(nominal=(4_000, UNLIMITED, UNLIMITED))
    owner = FlavorLimits(nominal=(2_000, UNLIMITED, UNLIMITED))

    def put(version, name, limits, kind="queue"):
        document = QuotaDocument(
            name=name,
            kind=kind,
            version=version,
            team=TEAM,
            parent="all",
            flavors={"h100": limits},
        )
        by.apply_quota(document)

    put(2, QUEUE, mine)
    assert "limited: gpu=4" in the_error(spec, by).rule
    by.apply_quota(QuotaDocument(name="all", kind="cohort", version=1))
    put(1, "owner", owner)
    admitted(spec, by)
    put(2, "owner", replace(owner, lending_limit=(1_000, 0, 0)))
    assert "limited: gpu=5" in the_error(spec, by).rule


def test_one_flavor_with_enough_quota_is_enough():
    admitted(a_spec(count=5), rules(quota={"a100": gpu_quota(4), "h100": gpu_quota(5)}))


def test_quota_in_a_flavor_that_cannot_hold_it_does_not_help():
    by = rules([a_node(gpus=8)], {"h100": gpu_quota(1), "a100": gpu_quota(64)})

    error = the_error(a_spec(gpus=8), by)

    assert error.field == "queue"
    assert "flavor h100" in error.rule
    assert "only in a100" in error.rule


def test_a_queue_without_quota_says_so():
    assert "no quota in any flavor" in the_error(a_spec(), rules(quota={})).rule


def test_the_answer_for_an_equal_request_is_forgotten_when_the_queue_changes():
    by = rules(quota={"h100": gpu_quota(1)})
    refused(a_spec(gpus=2), by)

    more = {"h100": FlavorLimits(nominal=amount(gpu_quota(2)))}
    by.apply_quota(QuotaDocument(name=QUEUE, kind="queue", version=2, team=TEAM, flavors=more))

    admitted(a_spec(gpus=2), by)


def test_the_answer_for_an_equal_request_is_forgotten_when_the_fleet_changes():
    from shared.core.admission.fleet_shape import summary_of  # noqa: PLC0415

    by = rules([a_node(gpus=4)])
    refused(a_spec(gpus=8), by)

    by.fleet.put("n2", summary_of(a_node("n2", gpus=8)))

    admitted(a_spec(gpus=8), by)


def test_the_message_names_the_first_rules_and_counts_the_others():
    answer = refused(a_spec(name="A", max_retries=-1, queue="B", priority_class="C"))

    assert answer.message.startswith("name: must be a DNS-1123 label")
    assert answer.message.endswith("; and 1 more")


def test_a_rule_of_the_whole_body_is_told_without_a_field():
    error = FieldError(field="", value="", rule="must be JSON")

    assert AdmissionRefusal(errors=(error,)).message == "must be JSON"


def test_a_team_whose_classes_are_all_unknown_is_refused_provisionally():
    answer = refused(a_spec(), rules(priority_classes=("gone",)))

    assert answer.doubt is Doubt.NAMES
    assert "team fraud has no priority class to use" in answer.message


def test_where_its_pods_are_and_as_whom_comes_from_the_document_of_its_team():
    answer = admitted(a_spec(), rules(namespace="vision-prod", service_account="trainer"))

    assert (answer.namespace, answer.service_account) == ("vision-prod", "trainer")
    assert (admitted(a_spec()).namespace, admitted(a_spec()).service_account) == ("", "")
