"""What one gang makes of results, events and lists that come late, twice or not at all."""

import pytest
from msgspec.structs import replace

from services.binder.gang import BIND_DEADLINE_MS, DELETE_AGAIN_MS, BoundGang
from services.binder.gang_facts import next_fact
from services.binder.gang_operations import next_operations
from services.binder.gang_state import ToldFact
from shared.core.model.decision import FieldError
from shared.core.model.nouns import PodSet
from shared.core.nodes.pod_failures import FailureCause
from shared.events.pods import BindRefused, PodsFinished, PodsGone, PodsRunning
from shared.ports.cluster import MissingObject, Pod, PodResult, PodTemplate

NOW = 1_000


def pod_of(rank=0, **fields):
    pod = Pod(name=f"w1-1-{rank}", workload_id="w1", attempt=1, rank=rank, size=1, epoch=3,
              node="n1")  # fmt: skip
    return replace(pod, **fields)


def a_gang(size=1, **fields):
    pods = tuple(pod_of(rank) for rank in range(size))
    return BoundGang(workload_id="w1", attempt=1, size=size, pods=pods, **fields)


def created(gang, rank=0, version=10):
    (operation,) = [one for place, one in next_operations(gang, NOW) if place == rank]
    pod = pod_of(rank, uid=f"u{rank}", resource_version=version, node="")
    gang.answered(rank, operation, PodResult(status=201, pod=pod), NOW)


def bound(gang, rank=0):
    (operation,) = [one for place, one in next_operations(gang, NOW) if place == rank]
    gang.answered(rank, operation, PodResult(status=201), NOW)


def a_bound_gang():
    gang = a_gang()
    created(gang)
    bound(gang)
    return gang


def fact_of(gang):
    return next_fact(gang, NOW)


def verbs(gang):
    return [(operation.verb, operation.name) for _, operation in next_operations(gang, NOW)]


def test_no_pod_is_bound_before_all_are_created():
    gang = a_gang(size=2)

    created(gang, 0)
    half = verbs(gang)
    created(gang, 1)

    assert half == [("create", "w1-1-1")]
    assert verbs(gang) == [("bind", "w1-1-0"), ("bind", "w1-1-1")]


def test_after_a_lost_reply_nothing_is_done_or_told_until_the_next_list():
    gang = a_gang()
    gang.unknown_round = 5
    gang.evict(0)

    gang.listed(set(), 99, 4, NOW)
    too_early = (verbs(gang), fact_of(gang))
    gang.listed(set(), 99, 5, NOW)

    assert too_early == ([], None)
    assert isinstance(fact_of(gang), PodsGone)


def test_a_request_on_its_way_holds_back_the_answer_to_an_eviction():
    gang = a_gang()
    gang.in_flight = True
    gang.evict(0)

    waiting = fact_of(gang)
    gang.in_flight = False

    assert waiting is None
    assert isinstance(fact_of(gang), PodsGone)


def test_a_list_from_before_a_pod_was_made_does_not_lose_it():
    gang = a_gang()
    created(gang, version=10)

    gang.listed(set(), 9, 1, NOW)
    after_old = verbs(gang)
    gang.listed(set(), 10, 2, NOW)

    assert after_old == [("bind", "w1-1-0")]
    assert isinstance(fact_of(gang), BindRefused)


def test_news_of_an_earlier_pod_with_the_same_name_is_ignored():
    gang = a_bound_gang()

    gang.observed("MODIFIED", pod_of(uid="older", resource_version=4, phase="Failed"), NOW)
    gang.observed("DELETED", pod_of(uid="older", resource_version=11), NOW)
    gang.observed("MODIFIED", pod_of(uid="u0", resource_version=12, phase="Running"), NOW)

    assert isinstance(fact_of(gang), PodsRunning)


def test_old_news_of_a_running_pod_do_not_set_it_back():
    gang = a_bound_gang()
    gang.observed("MODIFIED", pod_of(uid="u0", resource_version=15, phase="Running"), NOW)

    gang.observed("ADDED", pod_of(uid="u0", resource_version=10, node=""), NOW)

    assert next_operations(gang, NOW) == []
    assert isinstance(fact_of(gang), PodsRunning)


def test_a_name_made_anew_by_somebody_else_refuses_the_gang_and_is_removed():
    gang = a_bound_gang()

    gang.observed("ADDED", pod_of(uid="new", resource_version=20, node=""), NOW)

    assert verbs(gang) == [("delete", "w1-1-0")]
    assert next_operations(gang, NOW)[0][1].uid == "new"


def test_409_on_bind_is_success_when_it_is_our_node_and_a_refusal_otherwise():
    ours, elsewhere = a_gang(), a_gang()
    for gang in (ours, elsewhere):
        created(gang)
    operation = next_operations(ours, NOW)[0][1]
    on_n1 = pod_of(uid="u0", resource_version=11)

    ours.answered(0, operation, PodResult(status=409, pod=on_n1), NOW)
    elsewhere.answered(0, operation, PodResult(status=409, pod=replace(on_n1, node="n2")), NOW)

    assert ours.bound()
    assert verbs(elsewhere) == [("delete", "w1-1-0")]


def test_409_on_create_is_ours_only_with_the_same_attempt_and_no_newer_epoch():
    newer = a_gang()
    operation = next_operations(newer, NOW)[0][1]
    pod = pod_of(uid="u0", resource_version=5, node="", epoch=4)

    newer.answered(0, operation, PodResult(status=409, reason="AlreadyExists", pod=pod), NOW)

    assert fact_of(newer).reason == "NameTaken"
    assert verbs(newer) == []


def test_a_vanished_pod_is_a_refusal_before_anything_was_told_and_a_loss_after():
    before, after = a_bound_gang(), a_bound_gang()
    fact_of(after)

    for gang in (before, after):
        gang.settle_at_ms = NOW + 1
        gang.observed("DELETED", pod_of(uid="u0", resource_version=20), NOW)
    after.told = ToldFact.BOUND

    assert isinstance(fact_of(before), BindRefused)
    assert isinstance(fact_of(after), PodsFinished)


def test_the_deadline_refuses_only_what_is_not_bound():
    late, made, in_time = a_gang(), a_gang(size=2), a_bound_gang()
    created(made, 1)
    for gang in (late, made, in_time):
        gang.deadline_ms = NOW + BIND_DEADLINE_MS

    for gang in (late, made, in_time):
        gang.expire(NOW + BIND_DEADLINE_MS)

    assert fact_of(late).reason == "BindTimeout"
    assert (late.unstarted, made.unstarted) == ((), (1,))
    assert not isinstance(fact_of(in_time), BindRefused)


def being_deleted(grace_seconds):
    """A gang of one whose deletion the cluster has accepted."""
    gang = a_bound_gang()
    gang.evict(grace_seconds)
    ((rank, operation),) = next_operations(gang, NOW)
    gang.answered(rank, operation, PodResult(status=200), NOW)
    return gang


def test_a_deletion_is_asked_for_again_when_the_grace_and_half_a_minute_have_passed():
    gang = being_deleted(60)
    gang.listed({"u0"}, 30, 1, NOW)

    early = next_operations(gang, NOW + 60_000 + DELETE_AGAIN_MS - 1)
    late = next_operations(gang, NOW + 60_000 + DELETE_AGAIN_MS)

    assert early == []
    assert [operation.verb for _, operation in late] == ["delete"]


@pytest.mark.parametrize(("grace", "sent"), [(10, [10]), (60, []), (300, [])])
def test_a_shorter_grace_is_asked_for_at_once(grace, sent):
    gang = being_deleted(60)

    gang.evict(grace)

    assert [operation.grace_seconds for _, operation in next_operations(gang, NOW)] == sent


def pauses(gang, result, count):
    """Milliseconds between the tries of an operation that is always answered so."""
    found, now = [], NOW
    for _ in range(count):
        pause = 0
        while not (wanted := next_operations(gang, now + pause)):
            pause += 50
        now += pause
        found.append(pause)
        for rank, operation in wanted:
            gang.answered(rank, operation, result, now)
    return found


@pytest.mark.parametrize("status", [401, 403])
def test_a_delete_that_is_refused_for_long_is_sent_ever_less_often(status):
    gang = a_gang(size=2)
    created(gang, 0)
    created(gang, 1)
    gang.evict(0)

    assert pauses(gang, PodResult(status=status), 8) == [0, 250, 500, 1000, 2000, 4000, 5000, 5000]


@pytest.mark.parametrize("verb", ["create", "bind"])
def test_a_token_that_expired_is_waited_for_and_ends_nothing(verb):
    gang = a_gang()
    if verb == "bind":
        created(gang)

    waited = pauses(gang, PodResult(status=401, reason="Unauthorized"), 3)
    told = fact_of(gang)
    ((rank, operation),) = next_operations(gang, NOW + 60_000)
    pod = pod_of(uid="u0", resource_version=20, node="")
    gang.answered(rank, operation, PodResult(status=201, pod=pod), NOW + 60_000)

    assert (waited, told, operation.verb) == ([0, 250, 500], None, verb)
    assert gang.refusals == 0


@pytest.mark.parametrize(
    ("fields", "again"), [({}, True), ({"deleting": True}, False), ({"node": "n9"}, False)]
)
def test_a_bind_that_met_a_conflict_is_tried_again_while_the_pod_is_as_it_was(fields, again):
    gang = a_gang()
    created(gang)
    ((rank, operation),) = next_operations(gang, NOW)
    pod = pod_of(**{"uid": "u0", "resource_version": 11, "node": "", **fields})

    gang.answered(rank, operation, PodResult(status=409, reason="Conflict", pod=pod), NOW)

    later = [operation.verb for _, operation in next_operations(gang, NOW + 1_000)]
    assert later == (["bind"] if again else ["delete"])


def test_a_bind_that_is_refused_for_its_service_is_told_in_its_words_and_tried_again():
    gang = a_gang()
    created(gang)
    ((rank, operation),) = next_operations(gang, NOW)
    words = 'services "w1-1" is forbidden: exceeded quota: q, requested: services=1'

    gang.answered(rank, operation, PodResult(status=403, message=words), NOW)
    deleted = verbs(gang)
    gang.listed(set(), 30, 1, NOW)
    fact = fact_of(gang)

    assert deleted == [("delete", "w1-1-0")]
    assert (fact.reason, fact.ends, fact.node) == ("ExceededQuota", False, "")
    assert fact.message == words[words.index("exceeded") :]


@pytest.mark.parametrize(
    ("count", "sizes", "named"),
    [(1, (1,), [False]), (4, (1,), [True]), (1, (2, 2), [True, False])],
    ids=["alone", "may grow", "two"],
)
def test_the_first_of_a_gang_is_bound_under_the_name_by_which_all_find_it(count, sizes, named):
    template = PodTemplate(pod_set=PodSet(count=count))
    pods = tuple(pod_of(rank, size=size, template=template) for rank, size in enumerate(sizes))
    gang = BoundGang(workload_id="w1", attempt=1, size=len(pods), pods=pods)
    for (rank, operation), pod in zip(next_operations(gang, NOW), pods, strict=True):
        made = replace(pod, uid=f"u{rank}", resource_version=1, node="")
        gang.answered(rank, operation, PodResult(status=201, pod=made), NOW)

    binds = [operation for _, operation in next_operations(gang, NOW)]

    assert {one.verb for one in binds} == {"bind"}
    assert [one.pod is not None for one in binds] == named


def test_what_refuses_a_growth_for_good_does_not_end_what_runs():
    gang = a_bound_gang()
    gang.resize(1, (pod_of(0), pod_of(1)), 30)
    ((rank, operation),) = next_operations(gang, NOW)

    gang.answered(rank, operation, PodResult(status=422, message="no"), NOW)

    assert (rank, gang.setback, gang.never) == (1, ("HTTP 422", "no", ""), False)


def test_404_on_delete_says_that_it_is_gone():
    gang = a_bound_gang()
    gang.evict(0)

    gang.answered(0, next_operations(gang, NOW)[0][1], PodResult(status=404), NOW)

    assert isinstance(fact_of(gang), PodsGone)


def test_an_eviction_gives_its_grace_even_to_a_pod_not_yet_seen_to_run():
    gang = a_bound_gang()

    gang.evict(30)

    assert next_operations(gang, NOW)[0][1].grace_seconds == 30


@pytest.mark.parametrize(
    ("pod", "lost"),
    [
        (pod_of(phase="Failed", reason="OOMKilled"), False),
        (pod_of(phase="Failed", reason="Evicted"), True),
        (pod_of(phase="Failed", reason="UnexpectedAdmissionError"), True),
        (pod_of(phase="Failed", reason="Error", deleting=True), True),
        (pod_of(phase="Succeeded", deleting=True), True),
    ],
)
def test_what_was_taken_away_or_refused_by_the_kubelet_is_no_failure_of_the_work(pod, lost):
    gang = a_bound_gang()

    gang.observed("MODIFIED", replace(pod, uid="u0", resource_version=20), NOW)
    gang.observed("DELETED", replace(pod, uid="u0", resource_version=21), NOW)
    fact = fact_of(gang)

    assert (type(fact), fact.succeeded, fact.lost) == (PodsFinished, False, lost)
    assert fact.node == "n1"


def test_what_never_starts_ends_its_attempt_at_once_in_the_words_of_the_kubelet():
    gang = a_bound_gang()
    waits = pod_of(uid="u0", resource_version=20, waiting="ErrImagePull", message="not found")
    never = replace(waits, resource_version=21, waiting="CreateContainerConfigError",
                    message='secret "token" not found')  # fmt: skip

    gang.observed("MODIFIED", waits, NOW)
    still = verbs(gang)
    gang.observed("MODIFIED", never, NOW)
    stopped = verbs(gang)
    gang.observed("DELETED", replace(never, resource_version=22), NOW)
    fact = fact_of(gang)

    assert (still, stopped) == ([], [("delete", "w1-1-0")])
    assert (fact.cause, fact.reason, fact.lost) == (
        FailureCause.NEVER_STARTS, "CreateContainerConfigError", False,
    )  # fmt: skip
    assert fact.message == ('pod w1-1-0: CreateContainerConfigError: secret "token" not found')


RULE = FieldError(field="spec.containers[0].image", value="A B", rule="must be a reference")
OF_TEAM = "create it, or name another in the document of the team"
OF_WORKLOAD = "create it or name another, then submit again"
QUOTA = 'pods "w1-1-0" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8'


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            PodResult(status=422, reason="Invalid", message="long", errors=(RULE,)),
            ("Invalid", "spec.containers[0].image: must be a reference (got A B)", True),
        ),
        (
            PodResult(status=403, reason="Forbidden", message=QUOTA),
            ("ExceededQuota", QUOTA[QUOTA.index("exceeded") :], False),
        ),
        (
            PodResult(status=403, reason="Forbidden", message="violates PodSecurity"),
            ("Forbidden", "violates PodSecurity", True),
        ),
        (
            PodResult(status=403, reason="Forbidden", message='cannot create resource "pods"'),
            ("Forbidden", 'cannot create resource "pods"', False),
        ),
        (
            PodResult(status=404, reason="NotFound", message='namespaces "red" not found'),
            ("NotFound", 'namespaces "red" not found', True),
        ),
        (
            PodResult(
                status=404, message="x", missing=MissingObject(kind="Namespace", name="red")
            ),
            (
                "NamespaceNotFound",
                f"Namespace red does not exist; {OF_TEAM}",
                False,
            ),
        ),
        (
            PodResult(
                status=404,
                message="x",
                missing=MissingObject(kind="Secret", name="token", namespace="red"),
            ),
            (
                "SecretNotFound",
                f"Secret token does not exist in namespace red; {OF_WORKLOAD}",
                True,
            ),
        ),
        (PodResult(status=418), ("HTTP 418", "create answered 418", False)),
    ],
)
def test_a_refused_creation_says_whether_to_try_again_and_why(result, told):
    gang = a_gang()

    gang.answered(0, next_operations(gang, NOW)[0][1], result, NOW)
    fact = fact_of(gang)

    assert (fact.reason, fact.message, fact.ends) == told


def answer_to_delete(result):
    """A bound gang of one that is evicted, and what it makes of the answer to its delete."""
    gang = a_bound_gang()
    gang.evict(0)
    ((rank, operation),) = next_operations(gang, NOW)
    gang.answered(rank, operation, result, NOW)
    return gang


@pytest.mark.parametrize(
    "result",
    [
        PodResult(status=401, reason="Unauthorized"),
        PodResult(status=403, reason="Forbidden"),
        PodResult(status=409, reason="Conflict", pod=pod_of(uid="u0", resource_version=12)),
    ],
    ids=lambda result: str(result.status),
)
def test_a_delete_that_is_refused_frees_no_device_and_is_sent_again(result):
    gang = answer_to_delete(result)

    assert not isinstance(fact_of(gang), PodsGone)
    assert next_operations(gang, NOW) == []
    later = next_operations(gang, NOW + 1_000)
    assert [operation.verb for _, operation in later] == ["delete"]


@pytest.mark.parametrize(
    "result", [PodResult(status=404), PodResult(status=409, pod=pod_of(uid="another"))]
)
def test_a_delete_of_a_pod_that_is_not_there_ends_it(result):
    assert isinstance(fact_of(answer_to_delete(result)), PodsGone)
