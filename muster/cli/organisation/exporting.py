"""Reads documents in the form in which they are applied: kind, name, and every field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from muster.cli.document_kinds import API_KEY, COLLECTIONS
from muster.cli.keys import document_of_key, state_of
from muster.cli.output import note
from muster.cli.session import now_ms
from muster.errors import NotFound

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
UNLIMITED: Final = 1 << 62
"""What a unit of a limit has that is not named."""
_LIMITS: Final = ("nominal", "borrowing_limit", "lending_limit")


async def documents_of(client: AsyncClient, kind: str, name: str) -> list[tuple[Json, int]]:
    """Documents with their versions, of one kind or ("") of all but keys; of one name or all.

    Raises:
        NotFound: there is none of this name.
    """
    if kind == API_KEY:
        found = [(one, 0) for one in await _keys(client)]
    else:
        found = await _organisation(client, kind)
    if not name:
        return found
    named = [one for one in found if one[0]["name"] == name]
    if not named:
        there = ", ".join(sorted({one["name"] for one, _ in found})) or "none"
        raise NotFound(f"{kind} {name} does not exist; there are: {there}", status=404)
    return named


async def _organisation(client: AsyncClient, kind: str) -> list[tuple[Json, int]]:
    whole = await client.organisation()
    return [
        ({"kind": one_kind, "name": view["name"], **applicable(one_kind, view)}, view["version"])
        for one_kind, collection in COLLECTIONS.items()
        if kind in {"", one_kind}
        for view in whole.get(collection.replace("-", "_"), ())  # an older service has fewer kinds
    ]


def applicable(kind: str, view: Json) -> Json:
    """The fields of a document as a file would hold them."""
    fields = {name: value for name, value in view.items() if name not in {"name", "version"}}
    if kind in {"Queue", "Cohort"}:
        fields["flavors"] = [_quota(one) for one in fields["flavors"]]
    return fields


def _quota(flavor: Json) -> Json:
    """A unit without a limit is not named: 4611686018427387904 does not read as that."""
    limited = dict(flavor)
    for name in _LIMITS:
        if limited.get(name) is not None:
            units = limited[name].items()
            limited[name] = {unit: most for unit, most in units if most < UNLIMITED}
    return limited


async def _keys(client: AsyncClient) -> list[Json]:
    """Valid keys of all teams; a key without a label has no name by which it could be applied."""
    documents, unnamed, now = [], 0, now_ms()
    for team in await client.listing("teams"):
        for key in await client.keys(team["name"]):
            if state_of(key, now) != "valid":
                continue
            if key.get("label"):
                documents.append(document_of_key(team["name"], key))
            else:
                unnamed += 1
    if unnamed:
        note(
            f"{unnamed} valid keys without a label are left out: `muster admin keys list -t TEAM`"
        )
    return documents
