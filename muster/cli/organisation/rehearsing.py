"""`muster admin apply --dry-run`: what would change, line by line."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muster.cli.document_kinds import API_KEY
from muster.cli.documents import Document
from muster.cli.failures import Exit
from muster.cli.keys import has_key
from muster.cli.organisation.exporting import applicable
from muster.cli.output import Format, note, show_value, yaml_of
from muster.errors import NotFound, Rejected

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]


async def rehearse_all(
    client: AsyncClient, documents: Sequence[Document], *, force: bool
) -> list[Json]:
    """What would become of each document, in order, keys being last; nothing is changed."""
    bodies = [one.body for one in documents]
    items = [
        {"kind": one["kind"], "name": one["name"], "fields": _fields(one)}
        for one in bodies
        if one["kind"] != API_KEY
    ]
    results = await client.rehearse(items, force=force) if items else []
    keys = [one for one in bodies if one["kind"] == API_KEY]
    return [*results, *[await _of_key(client, one) for one in keys]]


def _fields(document: Json) -> Json:
    return {name: value for name, value in document.items() if name not in {"kind", "name"}}


async def _of_key(client: AsyncClient, document: Json) -> Json:
    """What would become of an API key; its team may be one that is not made yet."""
    result, errors = "created", []
    try:
        if await has_key(client, document["name"], _fields(document)):
            result = "unchanged"
    except NotFound:
        pass
    except Rejected as refused:
        result, errors = "refused", [{"field": "", "value": "", "rule": str(refused)}]
    fields = {"kind": API_KEY, "name": document["name"], "result": result, "errors": errors}
    return {**fields, "before": None, "after": _fields(document) if result == "created" else None}


def show_rehearsal(documents: Sequence[Document], results: Sequence[Json], output: Format) -> Exit:
    """Print it: differences for people, everything for programs; the exit code."""
    counts = Counter(one["result"] for one in results)
    if output in (Format.JSON, Format.YAML):
        show_value({"items": list(results)}, output)
    elif output is Format.NAME:
        for one in results:
            if one["result"] in ("created", "changed"):
                print(f"{one['kind']}/{one['name']}")
    else:
        for document, one in zip(documents, results, strict=True):
            _show_one(document.place, one)
    words = (f"{counts[one]} {one}" for one in ("created", "changed", "unchanged", "refused"))
    note(f"Dry run, nothing is changed. It would be: {', '.join(words)}.")
    return Exit.REJECTED if counts["refused"] else Exit.OK


def _show_one(place: str, one: Json) -> None:
    name = f"{one['kind']}/{one['name']}"
    if one["result"] == "refused":
        note(f"{place}, {name} would be refused:")
        for error in one["errors"]:
            given = f" (given: {error['value']})" if error["value"] else ""
            note(f"  {': '.join(filter(None, (error['field'], error['rule'])))}{given}")
        return
    before, after = (_lines(one["kind"], one[side]) for side in ("before", "after"))
    labels = (f"{name} now" if before else "/dev/null", f"{name} applied")
    for line in difflib.unified_diff(before, after, *labels, lineterm=""):
        print(line)
    taken = (one["before"] or {}).get("protected") and not (one["after"] or {}).get("protected")
    if taken:
        note(f"Warning: work of priority class {one['name']} could be evicted for others.")


def _lines(kind: str, fields: Json | None) -> list[str]:
    return yaml_of(applicable(kind, fields)).splitlines() if fields is not None else []
