"""Pods by their group, as they come, change and go."""

from shared.core.native import NativePod, PodsByGroup

INDEX = "batch.kubernetes.io/job-completion-index"


def a_pod(name, group="", index=""):
    labels = {"muster.dev/group": group} if group else {}
    return NativePod(
        namespace="red", name=name, uid=name, labels=labels | ({INDEX: index} if index else {})
    )


def test_a_pod_is_in_the_group_that_it_tells_now():
    pods = PodsByGroup()

    assert {"red/group/g"} == pods.put("red/a", a_pod("a", "g"))
    assert set() == pods.put("red/a", a_pod("a", "g")), "nothing changed"
    assert {"red/group/g", "red/group/h"} == pods.put("red/a", a_pod("a", "h"))
    assert ({"red/group/h"}, 1) == (set(pods.groups), len(pods))
    assert {"red/group/h"} == pods.put("red/a", None)
    assert set() == pods.put("red/a", None)
    assert ([], [], 0) == (list(pods.groups), list(pods.keys), len(pods))


def test_members_are_in_order_of_rank_then_of_name():
    pods = PodsByGroup()
    for name, index in (("b", ""), ("a", ""), ("z", "0"), ("c", "10"), ("d", "9")):
        pods.put(name, a_pod(name, "g", index))

    assert ["a", "b", "z", "d", "c"] == [one.name for one in pods.members("red/group/g")]
    assert [] == pods.members("red/group/none")
