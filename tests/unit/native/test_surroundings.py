"""What beside its pods keeps a group waiting: quotas, volumes, pods of other groups."""

from services.native.judging import LOOK_AGAIN_MS
from shared.core.kubernetes.namespace_quota import NamespaceQuota
from shared.core.kubernetes.pods_apart import PodsApart
from shared.ports.native import QuotasTold, VolumeClaimsTold
from tests.support.native_world import a_pod, changed, job, listed, of_job

QUOTA = NamespaceQuota(namespace="red", name="q", hard={"pods": "1"}, used={"pods": "1"})
OTHERS = NamespaceQuota(namespace="blue", name="q", hard={"pods": "0"})
ANY = PodsApart(field="spec.affinity", required=True)


async def notices(world):
    await world.told()
    return [(one.name, one.reason) for one in world.notices.written]


async def test_a_gang_that_a_quota_keeps_short_names_the_quota(world):
    world.hear(QuotasTold(quotas={"red/q": QUOTA}), job(), listed(of_job(0)))

    assert [("j-0", "WaitingForNamespaceQuota")] == await notices(world)
    (told,) = world.notices.written
    assert "1 of 2 pods" in told.message
    assert "ResourceQuota q of namespace red" in told.message
    assert not told.capacity, "no node would help"


async def test_quotas_of_other_namespaces_and_later_room_are_no_reason(world):
    world.hear(QuotasTold(quotas={"blue/q": OTHERS}), job(), listed(of_job(0)))
    assert [("j-0", "WaitingForPods")] == await notices(world)
    world.source.tell(QuotasTold(quotas={"red/q": QUOTA}))
    world.at_ms += LOOK_AGAIN_MS
    world.notices.written.clear()

    world.due()

    assert world.at_ms + LOOK_AGAIN_MS == world.handler.next_due_ms()


async def test_a_pod_waits_until_its_claim_has_a_volume(world):
    assert [] == world.hear(listed(a_pod(volume_claims=("data",))))
    assert [] == await notices(world), "claims are not known yet"
    world.at_ms += LOOK_AGAIN_MS
    assert [] == world.hear(VolumeClaimsTold(bound={"red/data": False, "blue/data": True}))
    assert [("p", "PodNotHonoured")] == await notices(world)
    assert "spec.volumes[].persistentVolumeClaim" in world.notices.written[0].message
    world.source.tell(VolumeClaimsTold(bound={"red/data": True}))
    world.at_ms += LOOK_AGAIN_MS

    assert 1 == len(world.due())


async def test_a_term_that_chooses_pods_of_another_group_waits_until_they_are_over(world):
    other = a_pod("other", gates=("a",))
    assert [] == world.hear(listed(a_pod(apart=(ANY,)), other))
    assert [("p", "PodNotHonoured")] == await notices(world)
    assert [] == world.hear(changed(a_pod("other", ended=True)))
    world.at_ms += LOOK_AGAIN_MS

    (one,) = world.due()
    assert "required" == one.spec.spread.value
