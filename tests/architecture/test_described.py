"""Every property of the API and of the messages is described, each in one place."""

import json
from typing import Any

import msgspec
import pytest

from operations.documents import schemas
from services.gateway.api.openapi import document
from shared.events.described import described_components
from shared.events.described.vocabulary import VOCABULARY
from shared.events.strict import strict

REF = "#/{name}"


class Base(msgspec.Struct):
    """What others are built on."""

    inherited: int
    """Said by the base."""
    both: int
    """Said by the base."""


class Thing(Base):
    """With fields of every sort."""

    both: int
    """Said by the thing,
    on two lines."""
    team: str
    bare: int = 0


def test_every_property_of_the_api_is_described():
    assert [] == bare(document()["components"]["schemas"])


def test_every_parameter_of_the_api_is_described():
    undescribed = {
        f"{method} {path} {one['name']}"
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        for one in operation.get("parameters", ())
        if not one.get("description")
    }

    assert set() == undescribed


def test_every_property_of_every_message_is_described():
    undescribed = {}
    for name, text in schemas.render().items():
        schema = json.loads(text)
        found = bare({name: schema, **schema.get("$defs", {})})
        undescribed.update({name: found} if found else {})

    assert {} == undescribed


def test_every_word_of_the_vocabulary_is_used():
    texts = [*schemas.render().values(), json.dumps(document())]

    unused = {word for word, text in VOCABULARY.items() if not any(text in one for one in texts)}

    assert set() == unused


def test_a_field_without_a_docstring_is_bare_and_the_nearest_text_wins():
    _, components = described_components([Thing], REF)

    properties = components["Thing"]["properties"]

    assert "Said by the base." == properties["inherited"]["description"]
    assert "Said by the thing, on two lines." == properties["both"]["description"]
    assert VOCABULARY["team"] == properties["team"]["description"]
    assert ["Thing.bare"] == bare(components)


def test_a_strict_mirror_is_described_as_its_source_is():
    mirror = strict(Thing, add=(("more", int, 0),))

    _, components = described_components([mirror], REF)

    properties = components["ThingRequest"]["properties"]
    assert "Said by the base." == properties["inherited"]["description"]
    assert ["ThingRequest.bare", "ThingRequest.more"] == bare(components)


def test_two_structs_of_one_name_are_refused():
    other = msgspec.defstruct("Thing", [("team", str)])

    with pytest.raises(ValueError, match="two structs are called Thing"):
        described_components([Thing, other], REF)


def bare(components: dict[str, Any]) -> list[str]:
    """Properties without a description."""
    return [
        f"{name}.{field}"
        for name, schema in components.items()
        for field, property_ in schema.get("properties", {}).items()
        if not property_.get("description")
    ]
