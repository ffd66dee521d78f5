"""The organisation as documents: teams, queues, cohorts, flavors, classes, notifications.

One table says for each collection its payload, its request type and the topic fact it becomes.
Applying is idempotent: the same content again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from services.gateway.documents.key_views import KafkaUserView
from shared.core.model.priority_classes import BUILT_IN
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
NameText = Annotated[str, msgspec.Meta(max_length=63, pattern=PRINTABLE)]
NewKeyText = Annotated[str, msgspec.Meta(description="A member's API key, shown this once.")]
NewKafkaUser = Annotated[
    KafkaUserView | None,
    msgspec.Meta(
        description="How the team connects to Kafka, shown this once; null: not by Kafka."
    ),
]
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
