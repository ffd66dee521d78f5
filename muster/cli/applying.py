"""What `muster admin apply` does: checks all documents, then makes them so, one by one.

A key or password is told once. So all documents are checked before the first is sent, and what was
done is noted as it is done: whatever ends the run, the caller has it to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from muster.cli.document_kinds import API_KEY, COLLECTIONS, ORDER
from muster.cli.documents import Document, usage_error
from muster.cli.failures import Exit, exit_code_of, show
from muster.cli.keys import apply_key
from muster.cli.output import note
from muster.errors import MusterError, Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]


@dataclass(slots=True)
class Applied:
    """What was done so far: a result for each document, with secrets, and the exit code."""

    results: list[Json] = field(default_factory=list)
    worst: Exit = Exit.OK


def in_order(documents: Sequence[Document]) -> list[Document]:
    """The documents as they need each other.

    Raises:
        UsageError: some can be seen not to be what their kind needs; it tells all of them.
    """
    faults = [f"{one.place}: {fault}" for one in documents for fault in _faults(one.body)]
    if faults:
        raise usage_error(faults)
    return sorted(documents, key=lambda one: ORDER.index(one.body["kind"]))


def _faults(document: Json) -> Iterator[str]:
    kind, name = document.get("kind"), document.get("name")
    if kind not in ORDER:
        yield f"kind: must be one of {', '.join(ORDER)} (given: {kind!r})"
    if not isinstance(name, str) or not name:
        yield f"name: a document of kind {kind} needs a `name`"
    if kind == API_KEY:
        team = document.get("team")
        if not isinstance(team, str) or not team:
            yield f"team: ApiKey {name} needs a `team`"
        if document.get("label", name) != name:
            yield f"label: ApiKey {name}: its `name` is its label; leave `label` out"


async def apply_all(
    client: AsyncClient, documents: Sequence[Document], applied: Applied, *, force: bool = False
) -> None:
    """Each in turn; one that is refused is told and does not keep the others back.

    `force`: the protection of a priority class may be taken away.
    """
    for count, document in enumerate(documents, 1):
        name = f"{document.body['kind']}/{document.body['name']}"
        try:
            result = await _apply(client, document.body, force=force)
        except MusterError as error:
            note(f"{document.place}, {name}:")
            show(error)
            applied.worst = max(applied.worst, exit_code_of(error))
            if isinstance(error, Unreachable):
                note(f"Not tried: {len(documents) - count} more. Apply again when it answers.")
                return
            result = {"result": "refused"}
        applied.results.append({"document": name, **result})


async def _apply(client: AsyncClient, document: Json, *, force: bool) -> Json:
    """Make one document so: {"result": created | changed | unchanged, "key" for a new key}."""
    body = {name: value for name, value in document.items() if name not in ("kind", "name")}
    name = document["name"]
    if document["kind"] == API_KEY:
        return await apply_key(client, name, body)
    collection = COLLECTIONS[document["kind"]]
    before = await client.document(collection, name)
    etag = before[1] if before else None
    after = await client.apply(collection, name, body, etag=etag, force=force)
    if before is None:
        return {"result": "created", **_secrets(after)}
    if before[0].get("protected") and not after.get("protected"):
        note(f"Warning: work of priority class {name} can be evicted for others from now on.")
    same = after.get("version") == before[0].get("version")
    return {"result": "unchanged" if same else "changed"}


def _secrets(created: Json) -> Json:
    """A new team comes with a member's key, and with a user on the broker."""
    return {name: created[name] for name in ("key", "kafka_user") if created.get(name)}
