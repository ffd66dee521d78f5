"""The example load: the right size, every kind, right where it says so and wrong where not."""

from collections import Counter

import msgspec
import pytest

from operations.demo.load import EVERY_TEAM, RECIPES, load
from operations.demo.organisation import SHARES_PERCENT, documents_of
from operations.replay.fleet import Fleet
from shared.core.admission.admit import AdmissionRefusal, AdmittedWorkload, admit
from shared.core.admission.fleet_shape import FleetShape, summary_of
from shared.core.admission.rules import AdmissionRules, TeamPolicy
from shared.core.model.nouns import WorkloadKind
from shared.core.model.units import Resources
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.quota_documents import document_of
from shared.simulator.fleet.description import DEFAULT_GROUPS, FleetFile, nodes_of

GPUS = 8_000
QUOTA = {"queues": QueueApplied, "cohorts": CohortApplied}


@pytest.fixture(scope="module")
def nodes():
    return nodes_of(FleetFile(groups=DEFAULT_GROUPS), seed=0)


@pytest.fixture(scope="module")
def fleet(nodes) -> Fleet:
    return Fleet.of(
        [
            {
                "flavor": node.flavor,
                "gpus": len(node.gpus),
                "product": node.product,
                "cpu_milli": node.cpu_milli,
                "memory_mib": node.memory_mib,
            }
            for node in nodes
        ]
    )


@pytest.fixture(scope="module")
def rules(nodes, fleet: Fleet) -> AdmissionRules:
    """What admission would judge by, made of the very documents that the demo applies."""
    rules, shape = AdmissionRules(), FleetShape()
    for node in nodes:
        shape.put(node.name, summary_of(node))
    rules.fleet = shape
    for collection, name, body in documents_of(fleet):
        if collection == "teams":
            rules.teams[name] = TeamPolicy(
                name=name,
                default_queue=body["default_queue"],
                priority_classes=tuple(body.get("priority_classes", ())),
                default_pod=Resources(cpu_milli=4000, memory_mib=16_384),
                max_pod=Resources(gpu_milli=16_000, cpu_milli=512_000, memory_mib=8_388_608),
            )
        kind = QUOTA.get(collection)
        if kind is not None:
            applied = msgspec.convert({**body, "name": name, "version": 1}, kind)
            rules.apply_quota(document_of(applied))
    return rules


def test_there_are_2000_of_every_kind_for_every_team():
    items = load("d1")

    assert len(items) == 2000
    assert {item.submission.spec.kind for item in items} == set(WorkloadKind)
    assert {item.team for item in items} == set(EVERY_TEAM) == set(SHARES_PERCENT)
    assert len({item.submission.key for item in items}) == 2000


def test_the_same_seed_gives_the_same_load_and_another_run_other_names():
    assert load("d1") == load("d1")
    one, two = load("d1")[0].submission, load("d2")[0].submission
    assert one.key != two.key
    assert one.key.removeprefix("d1") == two.key.removeprefix("d2")


def test_admission_takes_the_right_ones_and_refuses_the_wrong_ones(rules: AdmissionRules):
    verdicts: Counter[tuple[str, bool]] = Counter()
    reasons = {}
    for item in load("d1"):
        verdict = admit(item.submission.spec, item.team, rules)
        verdicts[item.recipe, isinstance(verdict, AdmittedWorkload)] += 1
        if isinstance(verdict, AdmissionRefusal):
            reasons[item.recipe] = verdict.message

    expected = {(one.name, not one.wrong): one.count for one in RECIPES}
    assert expected == verdicts, reasons


def test_the_quotas_of_the_teams_share_the_fleet_and_no_more(fleet: Fleet):
    queues = [body for collection, _, body in documents_of(fleet) if collection == "queues"]

    for flavor, milli in fleet.gpu_milli.items():
        owned = sum(
            one["nominal"]["gpu_milli"]
            for queue in queues
            for one in queue["flavors"]
            if one["flavor"] == flavor
        )
        assert owned == milli
    assert fleet.total_gpu_milli == GPUS * 1000


def test_the_load_about_fills_the_fleet():
    wanted = sum(
        pod_set.count * (pod_set.gpu.count * 1000 + pod_set.gpu.milli)
        for item in load("d1")
        if not item.wrong
        for pod_set in item.submission.spec.pod_sets
    )

    assert 0.8 * GPUS < wanted / 1000 < 1.2 * GPUS
