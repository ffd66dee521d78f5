"""The organisation as documents: teams, queues, cohorts, flavors, classes, notifications.

One table says for each collection its payload, its request type and the topic fact it becomes.
Applying is idempotent: the same content again changes nothing. What a document refers to must
exist, so that a typing error is told at once and not found as a queue without quota.
"""

from __future__ import annotations

import re
from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from services.gateway.documents.key_views import KafkaUserView
from services.gateway.documents.notifications import DESTINATIONS_MAX, notification_problems
from services.gateway.http.kubernetes_subjects import problems_of_access
from shared.core.admission.pods import CPU_MILLI_MAX, MEMORY_MIB_MAX
from shared.core.admission.products import meant
from shared.core.admission.static_fit import named
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadKind
from shared.core.model.priority_classes import BUILT_IN, PRIORITY_MAX
from shared.core.model.team_policy import budget_problems, idle_problems
from shared.core.notifications.addresses import Network
from shared.core.quota.prices import PRICE_RULE, price_problems
from shared.core.quota.tree import DEPTH_MAX, FLAVORS_MAX, WEIGHT_MAX
from shared.events.organisation import (
    CohortApplied,
    FlavorApplied,
    NotificationApplied,
    PriorityClassApplied,
    QueueApplied,
    TeamApplied,
)
from shared.events.strict import PRINTABLE, strict
from shared.events.workloads import Wire

Applied = (
    TeamApplied
    | QueueApplied
    | CohortApplied
    | FlavorApplied
    | PriorityClassApplied
    | NotificationApplied
)
NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
NAME_RULE: Final = "must be a DNS-1123 label: a-z, 0-9 and '-', at most 63 characters"
OBJECT: Final = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
OBJECT_RULE: Final = "must be the name of an object: a-z, 0-9, '-' and '.', at most 253 characters"
SYSTEM_NAMESPACES: Final = "kube-"
NameText = Annotated[str, msgspec.Meta(max_length=63, pattern=PRINTABLE)]
NewKeyText = Annotated[str, msgspec.Meta(description="A member's API key, shown this once.")]
NewKafkaUser = Annotated[
    KafkaUserView | None,
    msgspec.Meta(
        description="How the team connects to Kafka, shown this once; null: not by Kafka."
    ),
]
_OTHER_NAME: Final = "take another, as old records mean that one"
_IDENTITY: Final = frozenset(("name", "version"))


@dataclass(frozen=True, slots=True)
class DocumentCollection:
    """One kind of document: `path` in URLs, `kind` in the database, its wire type."""

    path: str
    kind: str
    payload: type[Wire]

    @property
    def title(self) -> str:
        """The name of a document of this kind: "Team", "PriorityClass"."""
        return self.payload.__name__.removesuffix("Applied")

    @property
    def request(self) -> type[msgspec.Struct]:
        """What a PUT carries: everything but name and version, and nothing by default.

        A field that could be left out would be wiped by a client that does not know of it.
        """
        return strict(
            self.payload,
            name=f"{self.title}Request",
            printable=True,
            leave_out=_IDENTITY,
            complete=True,
        )

    @property
    def patch(self) -> type[msgspec.Struct]:
        """What a document is once a patch is merged into it; what is absent has its default."""
        return strict(
            self.payload,
            name=f"{self.title}Patch",
            printable=True,
            leave_out=self._left_out(),
            add=self._optional(),
        )

    @property
    def view(self) -> type[msgspec.Struct]:
        """What a GET shows: everything, defaults too."""
        return strict(self.payload, name=self.title, suffix="View")

    def view_of(self, document: Any) -> Any:  # noqa: ANN401  # one of Applied
        """A document with everything that it leaves to the defaults."""
        return msgspec.convert(document, self.view, from_attributes=True)

    @property
    def created(self) -> type[msgspec.Struct]:
        """What the PUT that makes it shows: of a team its first key and Kafka user, too."""
        if self.payload is not TeamApplied:
            return self.view
        shown_once = (("key", NewKeyText, ""), ("kafka_user", NewKafkaUser, None))
        return strict(self.payload, name="CreatedTeam", suffix="View", add=shown_once)

    def _left_out(self) -> frozenset[str]:
        return _IDENTITY | {"default_queue"} if self.payload is TeamApplied else _IDENTITY

    def _optional(self) -> tuple[Any, ...]:
        """A team that names no default queue has the one of its own name."""
        return (("default_queue", NameText, ""),) if self.payload is TeamApplied else ()


COLLECTIONS: Final = (
    DocumentCollection("teams", "team", TeamApplied),
    DocumentCollection("queues", "queue", QueueApplied),
    DocumentCollection("cohorts", "cohort", CohortApplied),
    DocumentCollection("flavors", "flavor", FlavorApplied),
    DocumentCollection("priority-classes", "priority_class", PriorityClassApplied),
    DocumentCollection("notifications", "notification", NotificationApplied),
)
BY_PATH: Final = {one.path: one for one in COLLECTIONS}
BY_KIND: Final = {one.kind: one for one in COLLECTIONS}
BY_TITLE: Final = {one.title: one for one in COLLECTIONS}
IN_ORDER_OF_NEED: Final = tuple(
    BY_TITLE[title]
    for title in ("Flavor", "PriorityClass", "Cohort", "Team", "Queue", "Notification")
)
"""A document names only documents of collections before its own, or of its own."""


@dataclass(slots=True)
class Organisation:
    """All documents by kind and name. Replaced as a whole when something has changed."""

    teams: dict[str, TeamApplied] = field(default_factory=dict)
    queues: dict[str, QueueApplied] = field(default_factory=dict)
    cohorts: dict[str, CohortApplied] = field(default_factory=dict)
    flavors: dict[str, FlavorApplied] = field(default_factory=dict)
    priority_classes: dict[str, PriorityClassApplied] = field(default_factory=dict)
    notifications: dict[str, NotificationApplied] = field(default_factory=dict)
    deleted: dict[tuple[str, str], int] = field(default_factory=dict)
    """By kind and name, the version of the deletion; made again, a document goes on from there."""
    version: int = -1
    """Of the whole; -1 before it was read."""

    def of(self, kind: str) -> dict[str, Any]:
        """The documents of one kind by name."""
        documents: dict[str, Any] = getattr(self, f"{kind}es" if kind[-1] == "s" else f"{kind}s")
        return documents

    def version_of(self, kind: str, name: str) -> int:
        """The last version of a document, deleted or not; 0 where there never was one."""
        known = self.of(kind).get(name)
        return known.version if known is not None else self.deleted.get((kind, name), 0)

    def copy(self) -> Organisation:
        """The same documents, to be changed by itself."""
        return Organisation(
            teams=dict(self.teams),
            queues=dict(self.queues),
            cohorts=dict(self.cohorts),
            flavors=dict(self.flavors),
            priority_classes=dict(self.priority_classes),
            notifications=dict(self.notifications),
            deleted=dict(self.deleted),
            version=self.version,
        )


def organisation_of(rows: Sequence[Mapping[str, Any]], version: int) -> Organisation:
    """The organisation in the rows of `gateway.document`; a row without a kind is none.

    One without a body was deleted.
    """
    organisation = Organisation(version=version)
    for row in rows:
        if row["kind"] is None:
            continue
        if not row["body"]:
            organisation.deleted[row["kind"], row["name"]] = row["version"]
            continue
        payload = msgspec.json.decode(row["body"], type=BY_KIND[row["kind"]].payload)
        document = msgspec.structs.replace(payload, version=row["version"])
        organisation.of(row["kind"])[row["name"]] = document
    return organisation


def applied_of(collection: DocumentCollection, name: str, request: msgspec.Struct) -> Any:  # noqa: ANN401  # one of Applied
    """The payload of version 0 for what was sent."""
    values = {one: getattr(request, one) for one in request.__struct_fields__}
    if collection.payload is TeamApplied:
        values["default_queue"] = values["default_queue"] or name
    return msgspec.convert(
        {"name": name, "version": 0, **values}, collection.payload, from_attributes=True
    )


def content(document: Wire) -> bytes:
    """What is stored: everything but the version."""
    return msgspec.json.encode(msgspec.structs.replace(document, version=0))


def says_the_same(one: Wire, other: Wire) -> bool:
    """Whether two versions of a document differ in nothing but the version.

    Their JSON may differ: a default is left out where it is that very object.
    """
    return msgspec.structs.replace(one, version=0) == msgspec.structs.replace(other, version=0)


def problems_of(
    document: Any,  # noqa: ANN401  # one of Applied
    organisation: Organisation,
    products: Names[str] = (),
    networks: Sequence[Network] = (),
) -> list[FieldError]:
    """Every broken rule of a document: bounds, and references to what does not exist.

    `products`: those that nodes report, as far as is known; `networks`: those that are not public
    and that an operator lets notifications be sent into.
    """
    errors: list[FieldError] = []
    if not NAME.fullmatch(document.name):
        errors.append(_error("name", document.name, NAME_RULE))
    match document:
        case TeamApplied():
            errors += _team_errors(document, organisation)
        case QueueApplied():
            errors += _queue_errors(document, organisation)
        case CohortApplied():
            errors += _cohort_errors(document, organisation)
        case PriorityClassApplied():
            errors += _class_errors(document)
        case FlavorApplied():
            errors += _flavor_errors(document, products)
        case NotificationApplied():
            errors += notification_problems(document, organisation.teams, networks)
            if document.name not in organisation.notifications and (
                len(organisation.notifications) >= DESTINATIONS_MAX
            ):
                rule = f"there are {DESTINATIONS_MAX} destinations; delete one first"
                errors.append(_error("name", document.name, rule))
        case _:
            pass
    return errors


def _team_errors(team: TeamApplied, organisation: Organisation) -> list[FieldError]:
    errors = [
        _error(f"priority_classes[{index}]", name, "is not a priority class")
        for index, name in enumerate(team.priority_classes)
        if name not in organisation.priority_classes
    ]
    queue = organisation.queues.get(team.default_queue)
    if queue is not None and queue.team != team.name:
        errors.append(_error("default_queue", team.default_queue, "is another team's queue"))
    if ("cohort", team.default_queue) in organisation.deleted:
        rule = f"was the name of a cohort; {_OTHER_NAME}"
        errors.append(_error("default_queue", team.default_queue, rule))
    if team.default_queue in organisation.cohorts:
        rule = "is the name of a cohort; queues and cohorts are one tree"
        errors.append(_error("default_queue", team.default_queue, rule))
    if not NAME.fullmatch(team.default_queue):
        errors.append(_error("default_queue", team.default_queue, NAME_RULE))
    if team.namespace and not NAME.fullmatch(team.namespace):
        errors.append(_error("namespace", team.namespace, NAME_RULE))
    elif team.namespace.startswith(SYSTEM_NAMESPACES):
        rule = f"must not begin with {SYSTEM_NAMESPACES}: these are the cluster's own"
        errors.append(_error("namespace", team.namespace, rule))
    if team.service_account and not OBJECT.fullmatch(team.service_account):
        errors.append(_error("service_account", team.service_account, OBJECT_RULE))
    if team.max_pending < 0:
        errors.append(_error("max_pending", str(team.max_pending), "must be at least 0"))
    errors += problems_of_access(team.kubernetes)
    return errors + _pod_errors(team) + _policy_errors(team)


def _class_errors(document: PriorityClassApplied) -> list[FieldError]:
    errors = [
        _error(f"kinds[{index}]", kind, "must be a kind of workload")
        for index, kind in enumerate(document.kinds)
        if kind not in set(WorkloadKind)
    ]
    if abs(document.value) > PRIORITY_MAX:
        rule = f"must be -{PRIORITY_MAX} to {PRIORITY_MAX}"
        errors.append(_error("value", str(document.value), rule))
    return errors


def _flavor_errors(flavor: FlavorApplied, products: Names[str]) -> list[FieldError]:
    """Short names of products are for submissions: quota compares what nodes report."""
    errors = []
    for index, name in enumerate(flavor.products):
        full = meant(name, products)
        if name not in full:
            rule = f"must be named as nodes report it: {named(full)}"
            errors.append(_error(f"products[{index}]", name, rule))
    price = flavor.price_microdollars_per_gpu_hour
    if price < 0:
        errors.append(_error("price_microdollars_per_gpu_hour", str(price), PRICE_RULE))
    return errors + price_problems(flavor.purchase, flavor.prices, spot=flavor.spot)


def _pod_errors(team: TeamApplied) -> list[FieldError]:
    """A pod that names nothing must be one that the team may have."""
    errors = []
    for name, bound in (("cpu_milli", CPU_MILLI_MAX), ("memory_mib", MEMORY_MIB_MAX)):
        default, most = getattr(team.default_pod, name), getattr(team.max_pod, name)
        if default > most:
            rule = f"must be at most max_pod.{name} ({most})"
            errors.append(_error(f"default_pod.{name}", str(default), rule))
        elif not 0 <= default <= bound:
            errors.append(_error(f"default_pod.{name}", str(default), f"must be 0 to {bound}"))
    gpu = team.default_pod.gpu_milli
    if gpu:
        rule = "must be 0: GPUs are what a submission asks for"
        errors.append(_error("default_pod.gpu_milli", str(gpu), rule))
    return errors


def _policy_errors(team: TeamApplied) -> list[FieldError]:
    errors = budget_problems(team.budget) if team.budget is not None else []
    errors += idle_problems(team.idle) if team.idle is not None else []
    if team.kafka_events and not team.kafka:
        rule = "needs kafka: true: without it the team has no results topic"
        errors.append(_error("kafka_events", "true", rule))
    loss = team.loss_gpu_seconds_per_hour
    if loss is not None and loss < 0:
        errors.append(_error("loss_gpu_seconds_per_hour", str(loss), "must be at least 0"))
    return errors


def _queue_errors(queue: QueueApplied, organisation: Organisation) -> list[FieldError]:
    errors = _quota_errors(queue, organisation)
    if queue.team not in organisation.teams:
        errors.append(_error("team", queue.team, "is not a team; apply it first"))
    if queue.cohort and queue.cohort not in organisation.cohorts:
        errors.append(_error("cohort", queue.cohort, "is not a cohort; apply it first"))
    if queue.name in organisation.cohorts:
        errors.append(_error("name", queue.name, "is the name of a cohort"))
    if ("cohort", queue.name) in organisation.deleted:
        errors.append(_error("name", queue.name, f"was the name of a cohort; {_OTHER_NAME}"))
    before = organisation.queues.get(queue.name)
    if before is not None and before.team != queue.team:
        errors.append(_error("team", queue.team, f"must stay {before.team}: work waits in it"))
    return errors


def _cohort_errors(cohort: CohortApplied, organisation: Organisation) -> list[FieldError]:
    errors = _quota_errors(cohort, organisation)
    if cohort.name in organisation.queues:
        errors.append(_error("name", cohort.name, "is the name of a queue"))
    if ("queue", cohort.name) in organisation.deleted:
        errors.append(_error("name", cohort.name, f"was the name of a queue; {_OTHER_NAME}"))
    seen, parent = {cohort.name}, cohort.parent
    while parent:
        if parent in seen:
            errors.append(_error("parent", cohort.parent, "must not be below this cohort"))
            break
        seen.add(parent)
        above = organisation.cohorts.get(parent)
        if above is None:
            errors.append(_error("parent", parent, "is not a cohort; apply it first"))
            break
        parent = above.parent
    if len(seen) + _height(cohort.name, organisation) > DEPTH_MAX:
        rule = f"makes the tree deeper than {DEPTH_MAX} levels, with a level for the queues"
        errors.append(_error("parent", cohort.parent, rule))
    return errors


def _height(cohort: str, organisation: Organisation) -> int:
    """Levels below a cohort; a level of queues counts, whether there are any or not."""
    level, seen, height = [cohort], {cohort}, 1
    while level := [
        one.name
        for one in organisation.cohorts.values()
        if one.parent in level and one.name not in seen
    ]:
        seen.update(level)
        height += 1
    return height


def _quota_errors(
    document: QueueApplied | CohortApplied, organisation: Organisation
) -> list[FieldError]:
    errors = []
    names = [one.flavor for one in document.flavors]
    if len(names) > FLAVORS_MAX:
        rule = f"must be at most {FLAVORS_MAX} flavors"
        errors.append(_error("flavors", str(len(names)), rule))
    for index, name in enumerate(names):
        if name not in organisation.flavors:
            rule = "is not a flavor; apply it first"
            errors.append(_error(f"flavors[{index}].flavor", name, rule))
        elif name in names[:index]:
            errors.append(_error(f"flavors[{index}].flavor", name, "must be given once"))
    if not 1 <= document.weight <= WEIGHT_MAX:
        errors.append(_error("weight", str(document.weight), f"must be 1 to {WEIGHT_MAX}"))
    return errors


def _error(path: str, value: str, rule: str) -> FieldError:
    return FieldError(field=path, value=value, rule=rule)


def default_documents() -> list[PriorityClassApplied]:
    """What an empty database begins with: the built-in priority classes, open to change."""
    return [
        PriorityClassApplied(
            name=one.name,
            version=0,
            value=one.value,
            protected=one.protected,
            kinds=tuple(str(kind) for kind in one.kinds),
        )
        for one in BUILT_IN
    ]
