"""Valid objects that name only what matters to a test of admission or quota."""

from shared.core.admission.fleet_shape import summary_of
from shared.core.admission.rules import AdmissionRules, TeamPolicy
from shared.core.model.amounts import amount
from shared.core.model.nouns import Gpu, GpuRequest, Node, PodSet, WorkloadKind, WorkloadSpec
from shared.core.model.units import UNLIMITED, Resources
from shared.core.quota.tree import FlavorLimits, QuotaDocument

TEAM = "fraud"
QUEUE = "team-fraud"


def a_node(
    name="n1",
    *,
    flavor="h100",
    product="H100",
    gpus=8,
    mig_gpus=0,
    gpu_memory_mib=81_559,
    cpu_milli=128_000,
    memory_mib=1 << 20,
    gpus_per_numa=8,
    **rest,
):
    devices = tuple(
        Gpu(
            index=i,
            uuid=f"{name}-{i}",
            memory_mib=gpu_memory_mib,
            mig=i >= gpus,
            numa=i // gpus_per_numa,
        )
        for i in range(gpus + mig_gpus)
    )
    return Node(
        name=name,
        flavor=flavor,
        product=product,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        gpus=devices,
        **rest,
    )


def gpu_quota(gpus=UNLIMITED):
    milli = UNLIMITED if gpus == UNLIMITED else gpus * 1000
    return Resources(gpu_milli=milli, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)


def a_team(name=TEAM, **changes):
    values = {
        "name": name,
        "default_queue": QUEUE,
        "default_pod": Resources(cpu_milli=4000, memory_mib=16_384),
        "max_pod": Resources(gpu_milli=16_000, cpu_milli=512_000, memory_mib=8_388_608),
    }
    return TeamPolicy(**(values | changes))


def rules(nodes=(), quota=None, **team):
    """One team with one queue, unlimited in h100 unless told otherwise."""
    made = AdmissionRules()
    made.teams[TEAM] = a_team(**team)
    nominal = quota if quota is not None else {"h100": gpu_quota()}
    flavors = {name: FlavorLimits(nominal=amount(one)) for name, one in nominal.items()}
    made.apply_quota(
        QuotaDocument(name=QUEUE, kind="queue", version=1, team=TEAM, flavors=flavors)
    )
    for node in nodes:
        made.fleet.put(node.name, summary_of(node))
    return made


def a_pod_set(gpus=1, count=1, gpu=None, **rest):
    return PodSet(count=count, gpu=gpu if gpu is not None else GpuRequest(count=gpus), **rest)


def a_spec(kind=WorkloadKind.TRAINING, name="bert", pod_sets=None, gpus=1, count=1, **rest):
    sets = pod_sets if pod_sets is not None else (a_pod_set(gpus=gpus, count=count),)
    return WorkloadSpec(name=name, kind=kind, pod_sets=sets, **rest)
