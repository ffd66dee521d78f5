"""The pods of the simulated cluster behave as the Kubernetes API says, at given times."""

from hypothesis import given
from hypothesis import strategies as st

from shared.ports.cluster import Pod, PodOperation
from shared.simulator.pods import Pods, Snapshot, Timing
from shared.simulator.window import EventWindow

START = 1_000_000


def a_pod(name="w1-1-0", **fields):
    return Pod(**{"name": name, "workload_id": "w1", "attempt": 1, "rank": 0, "size": 1,
                  "epoch": 1, **fields})  # fmt: skip


def create(pods, pod, now=START):
    return pods.apply(PodOperation(verb="create", name=pod.name, pod=pod), now)


def bind(pods, pod, node="n1", now=START):
    return pods.apply(PodOperation(verb="bind", name=pod.name, uid=pod.uid, node=node), now)


def delete(pods, pod, grace=1, now=START, uid=None):
    operation = PodOperation(
        verb="delete", name=pod.name, uid=pod.uid if uid is None else uid, grace_seconds=grace
    )
    return pods.apply(operation, now)


def some_pods(start=500, stop=300):
    return Pods(Timing(start_delay_ms=start, stop_delay_ms=stop), seed=7)


def kinds(pods):
    return [(one.type, one.pod.phase) for one in pods.take_changes()]


def test_a_name_is_taken_until_its_pod_is_gone():
    pods = some_pods()

    first = create(pods, a_pod())
    second = create(pods, a_pod())
    delete(pods, first.pod)
    third = create(pods, a_pod())

    assert (first.status, second.status, third.status) == (201, 409, 201)
    assert (second.reason, second.pod.uid) == ("AlreadyExists", first.pod.uid)
    assert first.pod.uid != third.pod.uid


def test_a_bound_pod_runs_after_its_delay_and_ends_after_its_duration():
    pods = some_pods(start=500)
    pod = create(pods, a_pod(duration_seconds=2)).pod
    bind(pods, pod)

    pods.tick(START + 499)
    before = pods.all_pods()[0].phase
    pods.tick(START + 500)
    running = pods.all_pods()[0].phase
    pods.tick(START + 2_499)
    still = pods.all_pods()[0].phase
    pods.tick(START + 2_500)

    assert (before, running, still) == ("Pending", "Running", "Running")
    assert pods.all_pods()[0].phase == "Succeeded"


def test_a_fast_cluster_ends_pods_sooner():
    pods = Pods(Timing(start_delay_ms=500, stop_delay_ms=300, speed=10.0), seed=7)
    bind(pods, create(pods, a_pod(duration_seconds=2)).pod)

    pods.tick(START + 699)
    before = pods.all_pods()[0].phase
    pods.tick(START + 700)

    assert (before, pods.all_pods()[0].phase) == ("Running", "Succeeded")


def test_without_start_delay_bound_and_running_are_one_change():
    pods = some_pods(start=0)

    pod = create(pods, a_pod()).pod
    bind(pods, pod)

    assert kinds(pods) == [("ADDED", "Pending"), ("MODIFIED", "Running")]


def test_a_late_tick_ends_pods_at_their_own_time():
    pods = some_pods(start=500)
    pod = create(pods, a_pod(duration_seconds=1)).pod
    bind(pods, pod)

    pods.tick(START + 60_000)

    assert kinds(pods)[1:] == [
        ("MODIFIED", "Pending"), ("MODIFIED", "Running"), ("MODIFIED", "Succeeded"),
    ]  # fmt: skip


def test_a_second_bind_answers_409_with_the_pod_where_it_is():
    pods = some_pods()
    pod = create(pods, a_pod()).pod

    first, second = bind(pods, pod, "n1"), bind(pods, pod, "n2")

    assert (first.status, second.status, second.pod.node) == (201, 409, "n1")


def test_another_uid_is_neither_bound_nor_deleted():
    pods = some_pods()
    pod = create(pods, a_pod()).pod
    other = a_pod(uid="other")

    answers = [bind(pods, other).status, delete(pods, other).status]

    assert answers == [409, 409]
    assert pods.all_pods()[0].node == ""
    assert bind(pods, pod).status == 201


def test_what_does_not_exist_is_404():
    pods = some_pods()

    assert bind(pods, a_pod()).status == 404
    assert delete(pods, a_pod()).status == 404


def test_a_running_pod_stops_within_its_grace_and_the_name_stays_taken_meanwhile():
    pods = some_pods(start=0, stop=300)
    pod = create(pods, a_pod()).pod
    bind(pods, pod)

    delete(pods, pod, grace=30)
    stopping = pods.all_pods()[0].deleting
    taken = create(pods, a_pod()).status
    pods.tick(START + 299)
    still_there = len(pods)
    pods.tick(START + 300)

    assert (stopping, taken, still_there, len(pods)) == (True, 409, 1, 0)


def test_deleting_again_with_less_grace_is_faster_never_slower():
    pods = some_pods(start=0, stop=300)
    pod = create(pods, a_pod()).pod
    bind(pods, pod)
    delete(pods, pod, grace=30, now=START)

    delete(pods, pod, grace=30, now=START + 200)
    pods.tick(START + 300)

    assert len(pods) == 0


def test_a_pod_that_ends_while_it_is_being_deleted_is_seen_to_end():
    pods = some_pods(start=0, stop=5_000)
    pod = create(pods, a_pod(duration_seconds=1)).pod
    bind(pods, pod)
    delete(pods, pod, grace=30)

    pods.tick(START + 10_000)

    assert kinds(pods)[-2:] == [("MODIFIED", "Succeeded"), ("DELETED", "Succeeded")]


def test_a_pod_being_deleted_is_not_bound():
    pods = some_pods()
    pod = create(pods, a_pod()).pod
    bind(pods, pod)
    pods.tick(START + 500)
    pods.fail_pod(pod.name, "OOMKilled")

    assert bind(pods, pod).status == 409
    assert pods.all_pods()[0].reason == "OOMKilled"


def test_pods_of_a_lost_node_vanish_and_later_ones_wait_for_it():
    pods = some_pods(start=500)
    lost = create(pods, a_pod("a-1-0")).pod
    bind(pods, lost)

    pods.node_down("n1")
    waiting = create(pods, a_pod("b-1-0")).pod
    bind(pods, waiting)
    pods.tick(START + 10_000)
    phases = {pod.name: pod.phase for pod in pods.all_pods()}
    pods.node_up("n1", START + 10_000)
    pods.tick(START + 10_500)

    assert phases == {"b-1-0": "Pending"}
    assert pods.all_pods()[0].phase == "Running"


def test_a_pod_that_was_about_to_start_does_not_once_its_node_is_lost():
    pods = some_pods(start=500)
    bind(pods, create(pods, a_pod()).pod)
    pods.node_down("n1")
    create(pods, a_pod())

    pods.tick(START + 500)

    assert [pod.phase for pod in pods.all_pods()] == ["Pending"]


def test_failing_a_node_fails_its_pods_only():
    pods = some_pods(start=0)
    for name, node in (("a-1-0", "n1"), ("b-1-0", "n2"), ("c-1-0", "n1")):
        bind(pods, create(pods, a_pod(name)).pod, node)

    failed = pods.fail_node("n1", "XID 79")

    assert failed == 2
    assert [pod.phase for pod in pods.all_pods()] == ["Failed", "Running", "Failed"]


def restored(pods):
    snapshot = Snapshot(
        records=list(pods._by_key.values()), version=pods.version, serial=pods.serial,
        nodes_down=set(pods.nodes_down), nodes_gone=set(pods.nodes_gone),
    )  # fmt: skip
    return Pods(pods._timing, 7, snapshot)


def test_a_machine_goes_on_where_another_stopped():
    pods = some_pods(start=500)
    pod = create(pods, a_pod(duration_seconds=1)).pod
    bind(pods, pod)
    pods.tick(START + 600)

    after = restored(pods)
    after.tick(START + 1_500)

    assert [pod.phase for pod in after.all_pods()] == ["Succeeded"]
    assert after.version == pods.version + 1


actions = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "bind", "delete", "tick", "fail", "down", "silent", "up", "let-go"]
        ),
        st.integers(0, 3),
        st.integers(0, 700),
    ),
    max_size=60,
)


def step(pods, action, number, now):
    name = f"w{number}-1-0"
    if action == "create":
        kept = ("kept.example.org/by-a-job",) if number == 1 else ()
        create(pods, a_pod(name, duration_seconds=number or None, finalizers=kept), now)
    elif action == "bind":
        bind(pods, a_pod(name), f"n{number % 2}", now)
    elif action == "delete":
        delete(pods, a_pod(name), grace=number + 1, now=now)
    elif action == "fail":
        pods.fail_pod(name, "x")
    elif action == "down":
        pods.node_down(f"n{number % 2}")
    elif action == "silent":
        pods.node_silent(f"n{number % 2}")
    elif action == "let-go":
        pods.let_go(name)
    elif action == "up":
        pods.node_up(f"n{number % 2}", now)
    pods.tick(now)


@given(actions)
def test_the_events_alone_tell_what_the_list_tells(history):
    pods, now = some_pods(), START
    told: dict[str, Pod] = {}
    versions = []

    for action, number, wait in history:
        now += wait
        step(pods, action, number, now)
        for change in pods.take_changes():
            versions.append(change.pod.resource_version)
            if change.type == "DELETED":
                del told[change.pod.name]
            else:
                told[change.pod.name] = change.pod

    assert {pod.name: pod for pod in pods.all_pods()} == told
    assert versions == list(range(1, pods.version + 1))


@given(actions)
def test_a_restart_at_any_point_changes_nothing(history):
    steady, restarted, now = some_pods(), some_pods(), START

    for action, number, wait in history:
        now += wait
        step(steady, action, number, now)
        restarted = restored(restarted)
        step(restarted, action, number, now)

    assert sorted(restarted.all_pods(), key=lambda pod: pod.name) == sorted(
        steady.all_pods(), key=lambda pod: pod.name
    )


def test_a_window_forgets_the_oldest_and_says_so():
    window: EventWindow[str] = EventWindow(10, 2)

    window.extend("abcde")

    assert window.version == 15
    assert window.since(13, 9) == ["d", "e"]
    assert window.since(15, 9) == []
    assert window.since(12, 9) is None
    assert window.since(16, 9) == []


def test_what_happens_on_a_node_that_is_not_heard_of_is_seen_when_it_is_heard_of_again():
    pods = some_pods(start=0, stop=300)
    for name, seconds in (("a-1-0", 1), ("b-1-0", None)):
        bind(pods, create(pods, a_pod(name, duration_seconds=seconds)).pod)
    delete(pods, a_pod("b-1-0"), grace=30)

    pods.node_silent("n1")
    pods.tick(START + 10_000)
    unheard = {pod.name: pod.phase for pod in pods.all_pods()}
    pods.node_up("n1", START + 10_000)
    pods.tick(START + 10_300)

    assert unheard == {"a-1-0": "Running", "b-1-0": "Running"}
    assert {pod.name: pod.phase for pod in pods.all_pods()} == {"a-1-0": "Succeeded"}


def test_an_image_is_pulled_before_a_pod_runs():
    pods = Pods(Timing(start_delay_ms=500, stop_delay_ms=300, pull_ms=60_000), seed=7)
    bind(pods, create(pods, a_pod()).pod)

    pods.tick(START + 60_499)
    before = pods.all_pods()[0]
    pods.tick(START + 60_500)
    after = pods.all_pods()[0]

    assert (before.phase, before.waiting, before.pulling) == (
        "Pending", "ContainerCreating", True,
    )  # fmt: skip
    assert (after.phase, after.waiting, after.pulling) == ("Running", "", False)


def test_what_is_deleted_on_a_node_that_is_lost_for_good_goes_at_once():
    pods = some_pods(start=500)
    pods.node_down("n1")
    pod = create(pods, a_pod()).pod
    bind(pods, pod)

    delete(pods, pod, grace=30)

    assert pods.all_pods() == []
    assert pods.take_changes()[-1].pod.reason == "DeletionByPodGC"
