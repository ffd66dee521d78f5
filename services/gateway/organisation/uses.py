"""What uses a document: others that name it, work that is alive, nodes. Used is not deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from services.gateway.app.context import GatewayContext
from services.gateway.documents.documents import BY_KIND, Applied, Organisation
from shared.core.model.decision import FieldError
from shared.core.model.priority_classes import built_in

USERS_MAX: Final = 50
"""Documents that are named; of work and nodes the first three."""
EXAMPLES_MAX: Final = 3
WORK_OF: Final = {
    "team": "w.team = {}::text",
    "queue": "w.queue = {}::text",
    "flavor": "w.flavor = {}::text",
    "priority_class": "w.priority_class = {}::text",
    "cohort": "{}::text IS NULL",
    "notification": "{}::text IS NULL",
}
"""What makes living work one that uses a document of the kind; none uses a cohort or
a notification."""
_SELECT: Final = "SELECT id, count(*) OVER () AS live FROM gateway.workload w WHERE w.live AND "
_NODES: Final = (
    "SELECT name, count(*) OVER () AS nodes FROM gateway.node WHERE NOT removed AND flavor = $1"
    " ORDER BY name LIMIT $2"
)


async def uses_of(
    gateway: GatewayContext, organisation: Organisation, document: Applied
) -> list[FieldError]:
    """Users of the document and how they use it, documents first; empty when it can be deleted."""
    kind = kind_of(document)
    uses = list(named_by(organisation, document))[:USERS_MAX]
    work = await gateway.reader.fetch(
        _SELECT + WORK_OF[kind].format("$1") + " ORDER BY id LIMIT $2",  # constants
        document.name,
        EXAMPLES_MAX,
    )
    if work:
        live, ids = work[0]["live"], [row["id"] for row in work]
        verb = "waits or runs" if live == 1 else "wait or run"
        rule = f"of it {verb}: {_listed(ids, live)}"
        uses.append(_use(_counted(live, "workload"), rule))
    if kind == "flavor":
        nodes = await gateway.reader.fetch(_NODES, document.name, EXAMPLES_MAX)
        if nodes:
            count, names = nodes[0]["nodes"], [row["name"] for row in nodes]
            rule = f"{'reports' if count == 1 else 'report'} it: {_listed(names, count)}"
            uses.append(_use(_counted(count, "node"), rule))
    return uses


def named_by(organisation: Organisation, document: Applied) -> Iterator[FieldError]:
    """Documents that name it, and what else keeps it."""
    yield from _NAMED_BY[kind_of(document)](organisation, document)


def _of_team(organisation: Organisation, team: Any) -> Iterator[FieldError]:  # noqa: ANN401  # TeamApplied
    for queue in _sorted(organisation.queues):
        if queue.team == team.name and queue.name != team.default_queue:
            yield _use(f"Queue/{queue.name}", "belongs to it")
    for one in _sorted(organisation.notifications):
        if one.team == team.name:
            yield _use(f"Notification/{one.name}", "tells of it")


def _of_queue(organisation: Organisation, queue: Any) -> Iterator[FieldError]:  # noqa: ANN401  # QueueApplied
    team = organisation.teams.get(queue.team)
    if team is not None and team.default_queue == queue.name:
        rule = "has it as default_queue; it is deleted with the team"
        yield _use(f"Team/{team.name}", rule)


def _of_flavor(organisation: Organisation, flavor: Any) -> Iterator[FieldError]:  # noqa: ANN401  # FlavorApplied
    for one in (*_sorted(organisation.cohorts), *_sorted(organisation.queues)):
        if flavor.name in {quota.flavor for quota in one.flavors}:
            yield _use(f"{title_of(one)}/{one.name}", "has quota in it")


def _of_class(organisation: Organisation, one: Any) -> Iterator[FieldError]:  # noqa: ANN401  # PriorityClassApplied
    if one.name in built_in():
        yield _use("Muster", "has it built in; it can be changed, not deleted")
    for team in _sorted(organisation.teams):
        if one.name in team.priority_classes:
            yield _use(f"Team/{team.name}", "may use it by its priority_classes")


def _of_cohort(organisation: Organisation, cohort: Any) -> Iterator[FieldError]:  # noqa: ANN401  # CohortApplied
    for one in _sorted(organisation.cohorts):
        if one.parent == cohort.name:
            yield _use(f"Cohort/{one.name}", "has it as parent")
    for one in _sorted(organisation.queues):
        if one.cohort == cohort.name:
            yield _use(f"Queue/{one.name}", "is in it")


_NAMED_BY: Final[dict[str, Callable[[Organisation, Any], Iterator[FieldError]]]] = {
    "team": _of_team,
    "queue": _of_queue,
    "cohort": _of_cohort,
    "flavor": _of_flavor,
    "priority_class": _of_class,
    "notification": lambda organisation, document: iter(()),  # noqa: ARG005  # none can
}


def kind_of(document: Applied) -> str:
    """The kind by which the database and facts know it."""
    return next(kind for kind, one in BY_KIND.items() if isinstance(document, one.payload))


def title_of(document: Applied) -> str:
    """The kind as a file names it."""
    return BY_KIND[kind_of(document)].title


def _sorted(documents: dict[str, Any]) -> list[Any]:
    return [documents[name] for name in sorted(documents)]


def _use(user: str, rule: str) -> FieldError:
    return FieldError(field="used_by", value=user, rule=rule)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _listed(names: list[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
