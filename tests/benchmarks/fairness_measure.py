"""What a fairness run is measured by: shortfall of what is owed, surplus beside the ideal.

**Ideal.** At every moment what all teams could use, by what each has and asks for then, is poured
over departments and teams by weight until it is used up, nobody getting more than he asks for:
weighted max-min fairness on two levels (progressive filling: Bertsekas and Gallager, Data
Networks, 6.5.2), without fragmentation, delays or losses. It has no memory.

**Jain's index** over one half-life is of x = surplus / ideal surplus, both integrated over the
window: "throughput fairness index", x the part of the max-min optimum (Jain, Chiu and Hawe 1984;
Jain, Durresi and Babic, ATM Forum 99-0045). Teams to whom the ideal gives less than 1 % of all
surplus are left out; of `jain_all` those to whom it gives less than 0.1 %. `jain_contended` counts
only the time in which some team wants more than its ideal. `jain_plain` knows nothing of demand:
surplus / weight of every team that ever wanted surplus in vain; 1 is out of reach there.

**Owed** to a team is its waiting work, the oldest first, that fits within its nominal quota beside
what it uses. It is placeable if some node would have room (or enough whole nodes, for a gang) were
everybody gone who may be asked to go: of each queue at most what it has above its nominal quota,
and of another department at most what that has above its own. What is not is `fragmented`: it
would take moving work that is within nominal. Both integrals are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.fairness_live import Live
from tests.benchmarks.fairness_run import EPOCH_MS, Run
from tests.benchmarks.fairness_world import FLAVOR, GPUS, World

LOOKED_AT: Final = 200
"""Waiting jobs of a team, the first ones, that the shortfall looks at."""
STEP_MS: Final = 6 * 3_600_000
"""Windows begin so far apart."""
LEAST_PART: Final = 0.01

Sums = dict[str, float]


@dataclass(slots=True)
class Measure:
    """All that is counted, in GPU-milliseconds by team."""

    used: Sums = field(default_factory=dict)
    surplus: Sums = field(default_factory=dict)
    ideal: Sums = field(default_factory=dict)
    contended: tuple[Sums, Sums] = field(default_factory=lambda: ({}, {}))
    """Surplus and ideal while somebody wants more than his ideal."""
    unmet: set[str] = field(default_factory=set)
    short: int = 0
    fragmented: int = 0
    entitled: int = 0
    marks: list[tuple[Sums, Sums]] = field(default_factory=list)
    """Surplus and ideal so far, each `STEP_MS`."""

    def watch(self, run: Run, interval_ms: int) -> None:
        """Count an interval in which nothing changes."""
        while run.now_ms - EPOCH_MS >= len(self.marks) * STEP_MS:
            self.marks.append((dict(self.surplus), dict(self.ideal)))
        if interval_ms <= 0:
            return
        wants = {}
        for team in run.world.teams:
            used = run.fleet.running[team.name]
            wants[team.name] = used + run.wanted[team.name]
            owed = self._owed(run, team.name, team.nominal - used, interval_ms)
            self.entitled += (min(used, team.nominal) + owed) * interval_ms
            _add(self.used, team.name, used * interval_ms)
        self._compare(run, wants, interval_ms)

    def _compare(self, run: Run, wants: Mapping[str, int], interval_ms: int) -> None:
        ideal = ideal_surplus(run.world, wants)
        short = sum(wants.values()) > run.world.nodes * GPUS
        for team in run.world.teams:
            name, used = team.name, run.fleet.running[team.name]
            pairs = [(self.surplus, max(0, used - team.nominal)), (self.ideal, ideal[name])]
            if short:
                pairs += zip(self.contended, [pair[1] for pair in pairs], strict=True)
            for sums, gpus in pairs:
                _add(sums, name, gpus * interval_ms)
            if wants[name] > max(used, team.nominal):
                self.unmet.add(name)

    def _owed(self, run: Run, team: str, room: int, interval_ms: int) -> int:
        """GPUs of waiting work that is owed, placeable or not; the clocks of the others stop."""
        owed = 0
        for number, one in enumerate(run.waiting[team].values()):
            if number == LOOKED_AT:
                break
            gpus, here = one.job.gpus, False
            if gpus <= room:
                here = placeable(run, team, gpus)
                owed, room = owed + gpus, room - gpus
                if here:
                    self.short += gpus * interval_ms
                else:
                    self.fragmented += gpus * interval_ms
            _clock(run, one, runs=here)
        return owed

    def windows(self, length_ms: int) -> Iterator[tuple[Sums, Sums]]:
        """Surplus and ideal of each window of `length_ms`; of all if that is less."""
        marks = [*self.marks, (self.surplus, self.ideal)]
        steps = min(length_ms // STEP_MS, len(marks) - 1)
        for begin, end in zip(marks, marks[steps:], strict=False):
            yield _minus(end[0], begin[0]), _minus(end[1], begin[1])


def _clock(run: Run, one: Live, *, runs: bool) -> None:
    """Let the clock of one that waits run, or stop it: it is not owed any more."""
    if runs:
        one.owed_since = run.now_ms if one.owed_since is None else one.owed_since
    elif one.owed_since is not None:
        run.owed_no_more(one, run.now_ms)


def placeable(run: Run, team: str, gpus: int) -> bool:
    """Whether there would be devices and quota were all gone who may be asked to go."""
    tree = run.fleet.ledger
    mine = tree.node(team).parent
    assert mine is not None
    sums = {
        name: (node.taken(FLAVOR)[0] // 1000, node.owned(FLAVOR)[0] // 1000)
        for name, node in tree.nodes.items()
    }
    own_room = sums[mine.name][1] - sums[mine.name][0] >= gpus
    over = {}
    for other in run.world.teams:
        above = sums[other.name][0] - sums[other.name][1]
        if other.department != mine.name:
            department = sums[other.department]
            above = min(above, department[0] - department[1]) if own_room else 0
        over[other.name] = max(0, above)
    if (
        not own_room
        and sum(over[one.name] for one in run.world.teams if one.department == mine.name)
        + sums[mine.name][1]
        - sums[mine.name][0]
        < gpus
    ):
        return False
    return _fits(run, over, gpus)


def _fits(run: Run, over: Mapping[str, int], gpus: int) -> bool:
    room = []
    for number in range(run.world.nodes):
        held: dict[str, int] = {}
        for one in run.fleet.occupants.tenants.on(f"n{number:04}"):
            held[one.queue] = held.get(one.queue, 0) + min(
                GPUS, one.placement.charge.gpu_milli // 1000
            )
        stay = sum(max(0, count - over[name]) for name, count in held.items())
        room.append(GPUS - stay)
    return sum(one >= min(gpus, GPUS) for one in room) >= max(1, gpus // GPUS)


def ideal_surplus(world: World, wants: Mapping[str, int]) -> dict[str, float]:
    """What each team would have above its nominal quota."""
    owned = dict.fromkeys(world.departments, 0)
    asked = dict.fromkeys(world.departments, 0)
    for team in world.teams:
        owned[team.department] += team.nominal
        asked[team.department] += wants[team.name]
    base = {name: min(owned[name], asked[name]) for name in owned}
    more = {name: asked[name] - base[name] for name in owned}
    spare = world.nodes * GPUS - sum(base.values())
    extra = pour(spare, more, world.departments)
    found: dict[str, float] = {}
    for name in owned:
        teams = [one for one in world.teams if one.department == name]
        own = {one.name: min(one.nominal, wants[one.name]) for one in teams}
        left = base[name] + extra[name] - sum(own.values())
        beyond = {one.name: wants[one.name] - own[one.name] for one in teams}
        found |= pour(left, beyond, {one.name: one.weight for one in teams})
    return found


def pour(amount: float, wants: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, float]:
    """`amount` by weight, nobody more than he wants."""
    got, weight_left = {}, sum(weights[name] for name in wants)
    for name in sorted(wants, key=lambda one: wants[one] / weights[one]):
        got[name] = min(float(wants[name]), amount * weights[name] / weight_left)
        amount, weight_left = amount - got[name], weight_left - weights[name]
    return got


def jain(parts: Iterable[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything; 1 of nobody."""
    found = list(parts)
    squares = sum(part * part for part in found)
    return sum(found) ** 2 / (len(found) * squares) if squares else 1.0


def parts_of(surplus: Sums, ideal: Sums, least: float = LEAST_PART) -> dict[str, float]:
    """By team what it got of what it ideally would have."""
    whole = sum(ideal.values())
    return {
        name: surplus[name] / gpu_ms for name, gpu_ms in ideal.items() if gpu_ms > least * whole
    }


def _add(sums: Sums, name: str, gpu_ms: float) -> None:
    sums[name] = sums.get(name, 0) + gpu_ms


def _minus(end: Sums, begin: Sums) -> Sums:
    return {name: end[name] - begin.get(name, 0) for name in end}
