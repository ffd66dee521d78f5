"""Documents change the rules; whose topics are read follows from them."""

from services.admission.handler import AdmissionHandler
from shared.core.model.units import Resources
from shared.events.organisation import PriorityClassApplied
from shared.events.topics import (
    SUBMISSION_COMMANDS,
    team_of,
    team_submissions,
)
from shared.events.workloads import (
    WorkloadQueued,
)
from tests.unit.admission.builders import TEAM
from tests.unit.admission.support import Office, a_team_document, only


def test_a_site_defines_its_classes():
    office = Office()
    office.apply(PriorityClassApplied(name="gold", version=1, value=7000, kinds=("training",)))

    assert only(office.http(), WorkloadQueued).workload.priority == 7000


def test_absurd_documents_are_bounded_before_they_reach_a_workload():
    office = Office()
    office.apply(
        PriorityClassApplied(name="gold", version=1, value=10**30, kinds=("training",)),
        a_team_document(
            version=2,
            default_pod=Resources(cpu_milli=10**20, memory_mib=-5),
            max_pod=Resources(gpu_milli=10**20, cpu_milli=10**20, memory_mib=10**20),
        ),
    )

    workload = only(office.http(), WorkloadQueued).workload

    assert workload.priority == 10**9
    pod_set = workload.spec.pod_sets[0]
    assert (pod_set.cpu_milli, pod_set.memory_mib) == (4_096_000, 0)


def test_every_team_that_submits_by_kafka_is_read():
    office = Office()
    office.apply(a_team_document("b"), a_team_document("c", kafka=False))

    names = [topic.name for topic, _ in office.handler.topics()]

    assert team_submissions(TEAM).name in names
    assert team_submissions("b").name in names
    assert team_submissions("c").name not in names
    assert SUBMISSION_COMMANDS.name in names


def test_another_cell_does_not_read_the_teams_topics():
    assert [name for name, _ in AdmissionHandler(cell=1).topics() if team_of(name.name)] == []
