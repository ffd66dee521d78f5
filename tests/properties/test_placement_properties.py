"""What must hold for every fleet and every sequence of requests; the ledger of the test judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.core.model.decision import Refusal
from shared.core.model.nouns import (
    GpuRequest,
    Level,
    Node,
    Placement,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import explain, helps, place, request_class
from shared.core.placement.room import RoomIndex
from shared.core.scoring.cluster import Cluster
from tests.support import placing
from tests.support.brute_force import STARTS, Ledger, feasible

GPU_MIB = 100


def any_gpu(draw: Random) -> GpuRequest:
    form = draw.choice(("none", "whole", "whole", "share", "share", "mig", "mig"))
    if form == "whole":
        return placing.whole(draw.choice((1, 1, 2, 3)))
    if form == "share":
        return placing.share(draw.choice((300, 400, 500, 700)), draw.choice((20, 35, 60)))
    if form == "mig":
        return placing.mig(draw.choice(sorted(STARTS)), draw.choice((1, 1, 2)))
    return GpuRequest()


def any_workload(draw: Random) -> Workload:
    sizes = draw.choice(((1,), (1,), (2,), (3,), (1, 1), (1, 2), (2, 2)))
    return placing.workload(
        *(
            placing.pods(
                any_gpu(draw),
                count,
                name=f"set{number}",
                cpu_milli=draw.choice((0, 1000, 2000, 3000)),
                memory_mib=draw.choice((0, 10, 30)),
            )
            for number, count in enumerate(sizes)
        ),
        team=draw.choice(("red", "blue")),
        spread=draw.choice((Spread.NONE, Spread.NONE, Spread.REQUIRED)),
        topology=TopologyRequest(
            required=draw.choice((None, None, Level.NODE, Level.RACK, Level.ZONE))
        ),
    )


def any_fleet(draw: Random) -> tuple[Node, ...]:
    plain_only = draw.random() < 0.5
    return tuple(
        placing.node(
            f"n{number}",
            gpus=draw.randint(0 if number else 1, 3),
            mig=() if plain_only else draw.choice(((), (0,), (0, 1), (0, 1, 2))),
            unhealthy=draw.choice(((), (), (), (1,))),
            cpu_milli=draw.choice((4000, 6000, 9000)),
            memory_mib=draw.choice((60, 100)),
            gpu_memory_mib=GPU_MIB,
            product="A100-80GB",
            zone=draw.choice(("", "z1")),
            rack=draw.choice(("", "r1", "r2")),
            cordoned=draw.random() < 0.1,
        )
        for number in range(draw.randint(1, 4))
    )


@dataclass
class Run:
    """A cluster and its shadow, driven by the same steps."""

    cluster: Cluster
    ledger: Ledger
    live: list[tuple[Workload, Placement]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def place(self, workload: Workload) -> Placement | Refusal:
        answer = place(self.cluster, placing.request(workload))
        if isinstance(answer, Placement):
            self.live.append((workload, answer))
            self.ledger.add(workload, answer)
        return answer

    def release(self, which: int) -> None:
        if self.live:
            workload, placement = self.live.pop(which % len(self.live))
            self.cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
            self.ledger.remove(workload, placement)

    def change(self, kind: str, which: int) -> None:
        names = sorted(self.ledger.nodes)
        node = self.ledger.nodes[names[which % len(names)]]
        if kind == "cordon":
            node = replace(node, cordoned=not node.cordoned)
            self.cluster.put_node(node)
        elif kind == "move":
            node = replace(node, rack={"": "r1", "r1": "r2", "r2": ""}[node.rack])
            self.cluster.put_node(node)
        elif kind == "vanish":
            self.cluster.remove_node(node.name)
            self.gone.add(node.name)
            node = replace(node, cordoned=True)
        elif node.gpus:
            gpu = node.gpus[which % len(node.gpus)]
            gpus = tuple(
                replace(each, healthy=not each.healthy) if each is gpu else each
                for each in node.gpus
            )
            node = replace(node, gpus=gpus)
            self.cluster.set_gpu_health(node.name, gpu.index, not gpu.healthy)
        if kind != "vanish" and node.name in self.gone:
            self.cluster.put_node(node)
            self.gone.remove(node.name)
        self.ledger.nodes[node.name] = node


def any_history(seed: int) -> tuple[Run, Random]:
    """A fleet after a few dozen steps, and the source of what is asked next."""
    draw = Random(seed)
    fleet = any_fleet(draw)
    run = Run(placing.cluster(*fleet), Ledger({node.name: node for node in fleet}))
    for _ in range(draw.randint(0, 16)):
        kind = draw.choice(
            ("place",) * 9 + ("release",) * 3 + ("health", "cordon", "move", "vanish")
        )
        if kind == "place":
            run.place(any_workload(draw))
        elif kind == "release":
            run.release(draw.randrange(100))
        else:
            run.change(kind, draw.randrange(100))
    return run, draw


seeds = st.integers(0, 2**40)


@settings(max_examples=1500, deadline=None)
@given(seeds)
@example(2042797460)
def test_a_gang_is_placed_if_and_only_if_brute_force_finds_a_way(seed: int) -> None:
    run, draw = any_history(seed)
    for _ in range(4):
        asked = any_workload(draw)
        possible = feasible(run.ledger, asked)
        answer = run.place(asked)
        assert isinstance(answer, Placement) == possible, answer


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_no_slice_is_given_twice_and_nothing_is_over_sold(seed: int) -> None:
    run, _ = any_history(seed)
    run.ledger.check()
    held = sum(share.milli for row in run.ledger.rows for share in row[2])
    assert run.cluster.gpu_milli_used() == held


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_gang_is_whole_or_absent_and_undo_is_the_identity(seed: int) -> None:
    run, draw = any_history(seed)
    asked = any_workload(draw)
    before = run.cluster.digest()

    answer = run.place(asked)

    if isinstance(answer, Refusal):
        assert run.cluster.digest() == before
        return
    assert len(answer.pods) == asked.pods
    assert [pod.rank for pod in answer.pods] == list(range(asked.pods))
    assert answer.charge.gpu_milli == sum(
        share.milli for pod in answer.pods for share in pod.shares
    )
    if asked.spec.spread is Spread.REQUIRED:
        assert len({pod.node for pod in answer.pods}) == asked.pods
    run.release(len(run.live) - 1)
    assert run.cluster.digest() == before


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_cluster_rebuilt_from_its_ledger_decides_the_same(seed: int) -> None:
    run, draw = any_history(seed)
    rebuilt = Cluster()
    for workload, placement in reversed(run.live):
        rebuilt.charge(workload.team, placement.pods, workload.spec.pod_sets)
    for name in sorted(run.ledger.nodes.keys() - run.gone, reverse=True):
        rebuilt.put_node(run.ledger.nodes[name])

    assert rebuilt.digest() == run.cluster.digest()
    for _ in range(4):
        request = placing.request(any_workload(draw))
        assert place(rebuilt, request) == place(run.cluster, request)


@settings(max_examples=600, deadline=None)
@given(seeds)
def test_a_refused_gang_that_fits_after_a_change_was_told_so_by_helps(seed: int) -> None:
    run, draw = any_history(seed)
    asked = any_workload(draw)
    if isinstance(run.place(asked), Placement) or not run.live:
        return
    which = draw.randrange(len(run.live))
    changed = {pod.node for pod in run.live[which][1].pods}
    run.release(which)

    told = helps(run.cluster, sorted(changed), asked)

    if isinstance(run.place(asked), Placement):
        assert told


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_an_explanation_changes_nothing_and_is_the_same_when_asked_again(seed: int) -> None:
    run, draw = any_history(seed)
    asked = any_workload(draw)
    answer = run.place(asked)
    if isinstance(answer, Placement):
        return
    before = run.cluster.digest()

    again = explain(run.cluster, placing.request(asked))

    assert again == answer
    assert run.cluster.digest() == before
    assert answer.message.endswith(".")
    assert answer.next_step.endswith(".")


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_workloads_of_one_class_get_the_same_answer(seed: int) -> None:
    run, draw = any_history(seed)
    asked = any_workload(draw)
    other = replace(
        asked, id="other", priority=7, spec=replace(asked.spec, name="other", labels={"a": "b"})
    )
    assert request_class(other) == request_class(asked)
    before = run.cluster.digest()
    first = run.place(asked)
    if isinstance(first, Placement):
        run.release(len(run.live) - 1)
    assert run.cluster.digest() == before

    assert run.place(other) == first


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_room_index_that_followed_the_changes_equals_one_built_anew(seed: int) -> None:
    run, _ = any_history(seed)
    for index in run.cluster.rooms.values():
        assert isinstance(index, RoomIndex)
        index.follow(run.cluster)
        anew = RoomIndex(index._node_classes, index._demand, index._team, distinct=index._distinct)
        anew.follow(run.cluster)
        assert index._room == anew._room
        assert index._by_level == anew._by_level
