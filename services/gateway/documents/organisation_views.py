"""The organisation as a whole as it is read, and what a rehearsal of changes asks and answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from services.gateway.documents.documents import COLLECTIONS, IN_ORDER_OF_NEED, DocumentCollection
from services.gateway.http.views import Name, Request, View
from shared.core.model.decision import FieldError

DOCUMENTS_MAX: Final = 1_000
DocumentKind = StrEnum("DocumentKind", {one.kind.upper(): one.title for one in COLLECTIONS})  # type: ignore[misc]  # of the table of collections
Fields = Annotated[
    dict[str, Any], Meta(description="Fields by name, as in a PATCH of the document.")
]


def _documents(collection: DocumentCollection) -> Any:  # noqa: ANN401  # an annotation
    text = f"All documents of kind {collection.title}, by name."
    return Annotated[tuple[collection.view, ...], Meta(description=text)]  # type: ignore[name-defined]  # built at run time


OrganisationView: Final = msgspec.defstruct(
    "OrganisationView",
    [
        ("version", Annotated[int, Meta(description="Of the whole; grows with each change.")]),
        *((one.path.replace("-", "_"), _documents(one)) for one in IN_ORDER_OF_NEED),
    ],
    kw_only=True,
    frozen=True,
    namespace={"__doc__": "All documents of one moment, as they were applied, by name."},
)


class WantedDocument(Request, frozen=True, kw_only=True):
    """A document as a file names it, and what is to be merged into it."""

    kind: DocumentKind
    """Which kind of document it is."""
    name: Name
    """The name of the document; it may be one that does not exist yet."""
    fields: Fields = msgspec.field(default_factory=dict)


class RehearsalRequest(Request, frozen=True, kw_only=True):
    """Documents in the order in which they would be applied."""

    items: Annotated[tuple[WantedDocument, ...], Meta(min_length=1, max_length=DOCUMENTS_MAX)]
    """1 to 1,000 documents; one that needs another stands after it."""


class Result(StrEnum):
    """What would become of a document."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class RehearsedDocument(View, frozen=True, kw_only=True):
    """What would become of one document, if those before it were applied."""

    kind: DocumentKind
    """Which kind of document it is."""
    name: str
    """The name of the document."""
    result: Result
    """What would become of it."""
    before: Fields | None
    """As it is now; null where there is none."""
    after: Fields | None
    """As it would be; null where it is refused."""
    errors: tuple[FieldError, ...]
    """Every broken rule of one that is refused."""


class Rehearsal(View, frozen=True, kw_only=True):
    """What would become of all of them; nothing has changed."""

    items: tuple[RehearsedDocument, ...]
    """One for each document of the request, in its order."""
