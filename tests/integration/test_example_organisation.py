"""The example organisation on a real gateway: applied, exported, deleted, applied again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli.applying import Applied, apply_all, in_order
from muster.cli.document_kinds import API_KEY, COLLECTIONS, ORDER
from muster.cli.documents import Document, read_documents
from muster.cli.organisation.exporting import documents_of
from muster.cli.organisation.rehearsing import rehearse_all
from muster.cli.output import yaml_of
from muster.client import AsyncClient
from services.gateway.documents.documents import BY_PATH
from tests.fixtures.servers import Database
from tests.support.gateway import Gateway, running_gateway

EXAMPLE = Path(__file__).parents[2] / "examples" / "organisation.yaml"
Json = dict[str, Any]


@pytest.fixture
async def empty(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    """A gateway without any document but those that it begins with."""
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        yield running


def the_example() -> list[Json]:
    return [one.body for one in in_order(read_documents([str(EXAMPLE)]))]


def placed(documents: list[Json]) -> list[Document]:
    return [Document("a file", one) for one in documents]


async def exported(client: AsyncClient) -> list[Json]:
    """All documents, keys too, as the file that `export` writes is read again."""
    found = [*await documents_of(client, "", ""), *await documents_of(client, API_KEY, "")]
    text = "---\n".join(yaml_of(document) for document, _ in found)
    return list(yaml.safe_load_all(text))


async def results(client: AsyncClient, documents: list[Json]) -> set[str]:
    applied = Applied()
    await apply_all(client, placed(documents), applied)
    assert len(documents) == len(applied.results)
    return {one["result"] for one in applied.results}


def named(documents: list[Json]) -> dict[tuple[str, str, str], Json]:
    """By kind, name, and of keys the team."""
    return {
        (one["kind"], one["name"], one["team"] if one["kind"] == API_KEY else ""): one
        for one in documents
    }


async def test_it_is_applied_once_and_again_changes_nothing(empty: Gateway):
    async with AsyncClient(empty.address, empty.operator_key) as client:
        before = {
            one["result"] for one in await rehearse_all(client, placed(the_example()), force=False)
        }
        first = await results(client, the_example())
        second = await results(client, the_example())
        after = {
            one["result"] for one in await rehearse_all(client, placed(the_example()), force=False)
        }

    assert {"created", "changed"} >= first
    assert ({"unchanged"}, {"unchanged"}) == (second, after)
    assert "refused" not in before


async def test_what_is_exported_holds_all_of_it_and_applies_again_unchanged(empty: Gateway):
    async with AsyncClient(empty.address, empty.operator_key) as client:
        await results(client, the_example())
        whole = await exported(client)
        again = await results(client, whole)
        rehearsed = await rehearse_all(client, placed(whole), force=False)
        same = await exported(client)

    known = named(whole)
    for key, document in named(the_example()).items():
        missing = {
            field: (value, known[key].get(field))
            for field, value in document.items()
            if not _holds(known[key].get(field), value)
        }
        assert not missing, f"{key}: {missing}"
    assert {"unchanged"} == again == {one["result"] for one in rehearsed}
    assert whole == same
    assert set(ORDER) == {one["kind"] for one in whole}


async def test_an_export_makes_the_same_organisation_once_all_is_deleted(empty: Gateway):
    async with AsyncClient(empty.address, empty.operator_key) as client:
        await results(client, the_example())
        whole = await exported(client)
        await _forget_all(client, whole)
        bare = await exported(client)
        made = await results(client, [one.body for one in in_order(placed(whole))])
        again = await exported(client)

    assert {"PriorityClass"} == {one["kind"] for one in bare}
    assert {"created", "changed", "unchanged"} >= made
    assert named(whole) == named(again)


async def _forget_all(client: AsyncClient, whole: list[Json]) -> None:
    """Delete what can be deleted, users before what they use."""
    built_in = {"inference-production", "training-interactive", "training-batch"}
    teams = [one for one in whole if one["kind"] == "Team"]
    defaults = {one["default_queue"] for one in teams}
    for kind in ("Notification", "Queue", "Team", "Cohort", "PriorityClass", "Flavor"):
        documents = [one for one in whole if one["kind"] == kind and one["name"] not in built_in]
        if kind == "Queue":
            documents = [one for one in documents if one["name"] not in defaults]
        for one in sorted(documents, key=lambda one: one["name"] == "company"):
            await client.delete_document(COLLECTIONS[kind], one["name"])


def test_it_names_every_field_of_every_kind():
    for kind, path in COLLECTIONS.items():
        fields = {name for one in the_example() if one["kind"] == kind for name in one}
        known = set(BY_PATH[path].request.__struct_fields__)
        assert known == fields - {"kind", "name"}, kind


def _holds(whole: Any, part: Any) -> bool:
    """Whether an exported value says what the example says of it, beside defaults."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            _holds(whole.get(name), one) for name, one in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)
