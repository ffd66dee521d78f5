"""Documents of the organisation: defaults, references, and what counts as the same."""

import msgspec
import pytest

from services.gateway.documents.document_rules import problems_of
from services.gateway.documents.documents import (
    BY_PATH,
    COLLECTIONS,
    Organisation,
    applied_of,
    content,
    default_documents,
    organisation_of,
)
from shared.core.model.team_policy import AtLimit, Budget, IdlePolicy
from shared.core.model.units import UNLIMITED
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from shared.core.quota.tree import DEPTH_MAX, FLAVORS_MAX
from shared.events.organisation import (
    CohortApplied,
    FlavorApplied,
    NotificationApplied,
    PriorityClassApplied,
    QueueApplied,
    TeamApplied,
)
from shared.events.quotas import FlavorQuota
from shared.events.strict_reader import BadInput, read_strictly


def applied(path: str, name: str, body: bytes):
    collection = BY_PATH[path]
    return applied_of(collection, name, msgspec.json.decode(body, type=collection.patch))


def an_organisation() -> Organisation:
    organisation = Organisation()
    organisation.teams["red"] = TeamApplied(name="red", version=1, default_queue="red")
    organisation.flavors["h100"] = FlavorApplied(name="h100", version=1)
    organisation.cohorts["all"] = CohortApplied(name="all", version=1)
    organisation.queues["red"] = QueueApplied(name="red", version=1, team="red")
    organisation.priority_classes["low"] = PriorityClassApplied(name="low", version=1, value=1)
    organisation.notifications["chat"] = NotificationApplied(name="chat", version=1)
    return organisation


def test_a_unit_that_a_quota_does_not_name_is_unlimited():
    queue = applied(
        "queues", "q", b'{"team":"red","flavors":[{"flavor":"h100","nominal":{"gpu_milli":8000}}]}'
    )

    nominal = queue.flavors[0].nominal
    assert (nominal.gpu_milli, nominal.cpu_milli) == (8000, UNLIMITED)


def test_a_team_has_a_default_queue_of_its_own_name():
    assert applied("teams", "red", b"{}").default_queue == "red"
    assert applied("teams", "red", b'{"default_queue":"other"}').default_queue == "other"


def test_the_same_content_in_other_words_is_the_same():
    short = applied("cohorts", "c", b"{}")
    long = applied("cohorts", "c", b'{"weight":1,"flavors":[],"parent":""}')

    assert content(short) == content(msgspec.structs.replace(long, version=9))


@pytest.mark.parametrize(
    ("path", "name", "body", "field"),
    [
        ("queues", "q", b'{"team":"nobody"}', "team"),
        ("queues", "q", b'{"team":"red","cohort":"none"}', "cohort"),
        ("queues", "q", b'{"team":"red","flavors":[{"flavor":"none"}]}', "flavors[0].flavor"),
        (
            "queues",
            "q",
            b'{"team":"red","flavors":[{"flavor":"h100"},{"flavor":"h100"}]}',
            "flavors[1].flavor",
        ),
        ("queues", "q", b'{"team":"red","weight":0}', "weight"),
        ("queues", "q", b'{"team":"red","weight":1000001}', "weight"),
        ("queues", "Bad_Name", b'{"team":"red"}', "name"),
        ("cohorts", "all", b'{"parent":"all"}', "parent"),
        ("cohorts", "c", b'{"parent":"none"}', "parent"),
        ("cohorts", "red", b"{}", "name"),
        ("teams", "all", b"{}", "default_queue"),
        ("queues", "all", b'{"team":"red"}', "name"),
        ("teams", "blue", b'{"default_queue":"red"}', "default_queue"),
        ("teams", "blue", b'{"priority_classes":["none"]}', "priority_classes[0]"),
        ("teams", "blue", b'{"max_pending":-1}', "max_pending"),
        ("teams", "blue", b'{"namespace":"Blue"}', "namespace"),
        ("teams", "blue", b'{"namespace":"kube-system"}', "namespace"),
        ("teams", "blue", b'{"service_account":"no/slash"}', "service_account"),
        ("teams", "blue", b'{"loss_gpu_seconds_per_hour":-1}', "loss_gpu_seconds_per_hour"),
        ("teams", "blue", b'{"budget":{}}', "budget"),
        (
            "teams",
            "blue",
            b'{"budget":{"gpu_hours_per_month":-1}}',
            "budget.gpu_hours_per_month",
        ),
        (
            "teams",
            "blue",
            b'{"budget":{"microdollars_per_month":-1}}',
            "budget.microdollars_per_month",
        ),
        (
            "teams",
            "blue",
            b'{"idle":{"utilisation_percent_below":0}}',
            "idle.utilisation_percent_below",
        ),
        (
            "teams",
            "blue",
            b'{"idle":{"utilisation_percent_below":101}}',
            "idle.utilisation_percent_below",
        ),
        ("teams", "blue", b'{"idle":{"warn_after_seconds":-1}}', "idle.warn_after_seconds"),
        (
            "teams",
            "blue",
            b'{"idle":{"release_after_seconds":60}}',
            "idle.release_after_seconds",
        ),
        (
            "teams",
            "blue",
            b'{"max_pod":{"cpu_milli":2000,"memory_mib":16384}}',
            "default_pod.cpu_milli",
        ),
        ("teams", "blue", b'{"default_pod":{"memory_mib":8388609}}', "default_pod.memory_mib"),
        ("teams", "blue", b'{"default_pod":{"gpu_milli":1000}}', "default_pod.gpu_milli"),
        (
            "teams",
            "blue",
            b'{"default_pod":{"cpu_milli":4096001},"max_pod":{"cpu_milli":9000000}}',
            "default_pod.cpu_milli",
        ),
        ("priority-classes", "p", b'{"value":1000000001}', "value"),
        ("priority-classes", "p", b'{"value":-1000000001}', "value"),
        (
            "flavors",
            "f",
            b'{"price_microdollars_per_gpu_hour":-1}',
            "price_microdollars_per_gpu_hour",
        ),
        (
            "flavors",
            "f",
            b'{"prices":[{"since":"2026-13-01","microdollars_per_gpu_hour":1}]}',
            "prices[0].since",
        ),
        ("flavors", "f", b'{"purchase":"spot"}', "purchase"),
        ("priority-classes", "p", b'{"value":1,"kinds":["none"]}', "kinds[0]"),
    ],
)
def test_a_broken_rule_is_told_with_its_field(path, name, body, field):
    errors = problems_of(applied(path, name, body), an_organisation())

    assert [error.field for error in errors] == [field]


def test_a_flavor_names_products_as_nodes_report_them_or_such_as_no_node_has_yet():
    products = {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL"}
    flavor = applied("flavors", "f", b'{"products":["B300","NVIDIA-H100-NVL","H100"]}')

    (error,) = problems_of(flavor, an_organisation(), products)

    assert (error.field, error.value, error.rule) == (
        "products[2]",
        "H100",
        "must be named as nodes report it: NVIDIA-H100-80GB-HBM3, NVIDIA-H100-NVL",
    )
    assert problems_of(flavor, an_organisation()) == []


def test_a_team_may_have_a_budget_a_loss_budget_and_an_idle_policy():
    body = (
        b'{"budget":{"gpu_hours_per_month":1000,"at_limit":"spot"},"idle":{},'
        b'"loss_gpu_seconds_per_hour":7200}'
    )

    team = applied("teams", "blue", body)

    assert problems_of(team, an_organisation()) == []
    assert team.budget == Budget(gpu_hours_per_month=1000, at_limit=AtLimit.SPOT)
    assert team.idle == IdlePolicy()
    assert team.loss_gpu_seconds_per_hour == 7200
    assert b"budget" not in content(applied("teams", "red", b"{}"))


def test_a_budget_that_nobody_knows_how_to_enforce_is_refused_at_the_door():
    with pytest.raises(msgspec.ValidationError, match="at_limit"):
        applied("teams", "blue", b'{"budget":{"gpu_hours_per_month":1,"at_limit":"hope"}}')


def test_a_queue_stays_with_its_team():
    organisation = an_organisation()
    organisation.teams["blue"] = TeamApplied(name="blue", version=1, default_queue="blue")

    errors = problems_of(applied("queues", "red", b'{"team":"blue"}'), organisation)

    assert [error.field for error in errors] == ["team"]


def test_a_cohort_below_itself_is_found_at_any_depth():
    organisation = an_organisation()
    organisation.cohorts["child"] = CohortApplied(name="child", version=1, parent="all")

    errors = problems_of(applied("cohorts", "all", b'{"parent":"child"}'), organisation)

    assert [error.field for error in errors] == ["parent"]


def test_a_stored_document_is_read_back():
    for collection in COLLECTIONS:
        organisation = an_organisation()
        (name, document), *_ = organisation.of(collection.kind).items()
        row = {
            "kind": collection.kind,
            "name": name,
            "version": 7,
            "body": content(document).decode(),
        }

        read = organisation_of([row], 1).of(collection.kind)[name]

        assert read == msgspec.structs.replace(document, version=7)


def test_every_kind_has_a_default_class_that_any_team_may_use():
    open_classes = [one for one in default_documents() if not one.protected]

    kinds = {kind for one in open_classes for kind in one.kinds}
    assert kinds == {"training", "inference", "batch-inference", "notebook"}


@pytest.mark.parametrize(
    ("policy", "field", "rule"),
    [
        (b'{"within_queue":"sometimes"}', "policy.within_queue", "sometimes"),
        (b'{"reclaim":"always"}', "policy.reclaim", "always"),
        (b'{"min_runtime_seconds":-1}', "policy.min_runtime_seconds", ">= 0"),
        (b'{"cooldown_seconds":9999999999}', "policy.cooldown_seconds", "<= 2592000"),
        (b'{"preemption_delay_seconds":1.5}', "policy.preemption_delay_seconds", "int"),
        (b'{"reclaims":"any"}', "policy.reclaims", "reclaim"),
    ],
)
def test_a_policy_that_cannot_hold_is_refused_with_field_and_rule(policy, field, rule):
    decoder = msgspec.json.Decoder(BY_PATH["queues"].request)

    with pytest.raises(BadInput) as refused:
        read_strictly(b'{"team":"red","policy":' + policy + b"}", decoder)

    error = refused.value.errors[0]
    assert (field, True) == (error.field, rule in error.rule + error.value)


def test_a_queue_that_names_no_policy_has_the_default_one():
    queue = applied("queues", "q", b'{"team":"red","policy":{"reclaim":"never"}}')

    assert queue.policy == QueuePolicy(reclaim=Reclaim.NEVER)
    assert not queue.draining


def test_a_tree_has_a_greatest_depth_wherever_it_grows():
    organisation = an_organisation()
    parent = "all"
    for level in range(DEPTH_MAX - 2):
        cohort = CohortApplied(name=f"c{level}", version=1, parent=parent)
        assert problems_of(cohort, organisation) == []
        organisation.cohorts[cohort.name], parent = cohort, cohort.name
    below = CohortApplied(name="deep", version=1, parent=parent)
    above = CohortApplied(name="all", version=2, parent="top")
    organisation.cohorts["top"] = CohortApplied(name="top", version=1)

    assert ["parent"] == [one.field for one in problems_of(below, organisation)]
    assert ["parent"] == [one.field for one in problems_of(above, organisation)]


def test_a_cycle_over_several_cohorts_is_refused():
    organisation = an_organisation()
    organisation.cohorts["low"] = CohortApplied(name="low", version=1, parent="all")
    cycle = CohortApplied(name="all", version=2, parent="low")

    assert "parent" in [one.field for one in problems_of(cycle, organisation)]


def test_a_document_names_no_more_flavors_than_the_core_takes():
    organisation = an_organisation()
    flavors = tuple(FlavorQuota(flavor=f"f{n}") for n in range(FLAVORS_MAX + 1))
    for one in flavors:
        organisation.flavors[one.flavor] = FlavorApplied(name=one.flavor, version=1)

    errors = problems_of(CohortApplied(name="c", version=1, flavors=flavors), organisation)

    assert [("flavors", "257")] == [(one.field, one.value) for one in errors]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("flavors", b'{"products":["H100","\\u001b[2J"]}', "products[1]"),
        ("queues", b'{"team":"red","flavors":[{"flavor":"a\\nb"}]}', "flavors[0].flavor"),
        ("teams", b'{"default_queue":"\\u202ered"}', "default_queue"),
        ("priority-classes", b'{"value":1,"kinds":["\\u0007"]}', "kinds[0]"),
    ],
)
def test_what_could_write_to_a_terminal_is_no_name(path: str, body: bytes, field: str):
    decoder = msgspec.json.Decoder(BY_PATH[path].patch)

    with pytest.raises(BadInput) as refused:
        read_strictly(body, decoder)

    assert [(field, "must be printable characters")] == [
        (one.field, one.rule) for one in refused.value.errors
    ]
    assert refused.value.errors[0].value.isprintable()


def test_a_team_may_name_its_namespace_and_service_account():
    team = applied("teams", "blue", b'{"namespace":"blue-prod","service_account":"train.er"}')

    assert problems_of(team, an_organisation()) == []
    assert (team.namespace, team.service_account) == ("blue-prod", "train.er")


@pytest.mark.parametrize(("kafka", "fields"), [(True, []), (False, ["kafka_events"])])
def test_who_has_no_results_topic_is_told_nothing_on_it(kafka, fields):
    team = TeamApplied(name="red", version=1, default_queue="red", kafka=kafka, kafka_events=True)

    assert fields == [one.field for one in problems_of(team, an_organisation())]
