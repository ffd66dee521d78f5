"""What would become of documents if they were applied one after the other; nothing changes."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Sequence

from services.gateway.documents.document_rules import problems_of
from services.gateway.documents.documents import (
    BY_TITLE,
    Applied,
    DocumentCollection,
    Organisation,
    says_the_same,
)
from services.gateway.documents.organisation_views import RehearsedDocument, Result, WantedDocument
from services.gateway.http.problems import Problem
from services.gateway.organisation.merging import fields_of, patched
from services.gateway.organisation.protection import takes_protection_away
from shared.core.model.decision import FieldError
from shared.core.notifications.addresses import Network
from shared.events.organisation import QueueApplied, TeamApplied

FORCE_RULE = "takes protection away from its work; force says that it is meant"


class Rehearsing:
    """An organisation on which changes are tried: a copy, so that the real one stays.

    `products` are those that nodes report.
    """

    def __init__(
        self,
        organisation: Organisation,
        products: Names[str] = (),
        *,
        force: bool = False,
        networks: Sequence[Network] = (),
    ) -> None:
        self._real = organisation
        self._tried = organisation.copy()
        self._told: dict[tuple[str, str], Applied] = {}
        self._products = products
        self._networks = networks
        self._force = force

    def apply(self, one: WantedDocument) -> RehearsedDocument:
        """What becomes of the next document."""
        collection, key = BY_TITLE[one.kind], (one.kind.value, one.name)
        shown = self._told.get(key, self._real.of(collection.kind).get(one.name))
        before = self._tried.of(collection.kind).get(one.name)
        after, errors = self._judged(collection, one, before)
        if after is None or errors:
            return _told(one, Result.REFUSED, shown, None, errors)
        self._told[key] = after
        self._take(collection, after)
        if shown is None:
            return _told(one, Result.CREATED, None, after)
        same = says_the_same(shown, after)
        return _told(one, Result.UNCHANGED if same else Result.CHANGED, shown, after)

    def _judged(
        self, collection: DocumentCollection, one: WantedDocument, before: Applied | None
    ) -> tuple[Applied | None, tuple[FieldError, ...]]:
        try:
            after = patched(collection, one.name, before, one.fields)
        except Problem as problem:
            return None, problem.document.errors
        errors = problems_of(after, self._tried, self._products, self._networks)
        if takes_protection_away(before, after) and not self._force:
            errors.append(FieldError(field="protected", value="false", rule=FORCE_RULE))
        return after, tuple(errors)

    def _take(self, collection: DocumentCollection, after: Applied) -> None:
        """From here on it is so; a team comes with its default queue."""
        self._tried.of(collection.kind)[after.name] = after
        if isinstance(after, TeamApplied) and after.default_queue not in self._tried.queues:
            queue = QueueApplied(name=after.default_queue, version=0, team=after.name)
            self._tried.queues[queue.name] = queue


def _told(
    one: WantedDocument,
    result: Result,
    before: Applied | None,
    after: Applied | None,
    errors: tuple[FieldError, ...] = (),
) -> RehearsedDocument:
    return RehearsedDocument(
        kind=one.kind,
        name=one.name,
        result=result,
        before=None if before is None else fields_of(before),
        after=None if after is None else fields_of(after),
        errors=errors,
    )
