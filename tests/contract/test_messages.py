"""Messages of every version decode for ever, and the documents speak of all of them."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from deploy.local.cache import CHECKOUT
from operations.documents.__main__ import SCHEMAS, broken, rendered
from operations.documents.compatibility import broken_promises
from shared.core.model.reason import Reason
from shared.events.codec import Malformed, decode_payload, encode_payload
from shared.events.registry import TYPE_BY_NAME
from shared.events.written_out import written_out

EXAMPLES = Path(__file__).parent / "examples"
FILES = sorted(EXAMPLES.glob("*.json"))
A_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "state": {"$ref": "#/$defs/State"},
        "count": {"type": "integer", "default": 1},
    },
    "required": ["id", "state"],
    "$defs": {"State": {"enum": ["queued", "held"]}},
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_message_of_any_time_decodes_and_loses_nothing(path: Path):
    value = path.read_bytes()

    payload = decode_payload(path.stem, value)

    assert _within(json.loads(value), written_out(payload))
    assert decode_payload(path.stem, encode_payload(payload)) == payload


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_fits_the_committed_schema(path: Path):
    schema = json.loads((CHECKOUT / SCHEMAS / path.name).read_text())

    jsonschema.validate(json.loads(path.read_text()), schema)


def test_every_type_has_an_example():
    assert sorted(TYPE_BY_NAME) == [path.stem for path in FILES]


@pytest.mark.parametrize("name", sorted(TYPE_BY_NAME))
def test_an_example_sets_every_field(name: str):
    fields = {field.name for field in msgspec.structs.fields(TYPE_BY_NAME[name])}
    example = json.loads((EXAMPLES / f"{name}.json").read_text())

    left_out = fields - example.keys()

    assert left_out <= {"version"}, "only what equals its default is left out"


def test_committed_schemas_promise_nothing_that_the_code_breaks():
    assert [] == broken(rendered(), CHECKOUT)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("properties", "state"), None, "state was removed"),
        (("required",), ["id", "state", "count"], "count became required"),
        (("required",), ["id"], "state is required no longer: old consumers still need it"),
        (("properties", "id", "type"), "integer", "id: type was 'string', is 'integer'"),
        (("$defs", "State", "enum"), ["queued"], "State: the value 'held' was removed"),
        (("properties", "count", "default"), 2, "count: default was 1, is 2"),
    ],
)
def test_a_broken_promise_is_found(place: tuple[str, ...], value: object, problem: str):
    changed = json.loads(json.dumps(A_SCHEMA))
    *path, last = place
    spot = changed
    for one in path:
        spot = spot[one]
    if value is None:
        del spot[last]
    else:
        spot[last] = value

    assert problem in broken_promises(json.dumps(A_SCHEMA), json.dumps(changed))


def test_an_optional_field_more_breaks_no_promise():
    changed = json.loads(json.dumps(A_SCHEMA))
    changed["properties"]["reason"] = {"type": "string", "default": ""}
    changed["$defs"]["State"]["enum"].append("placed")

    assert [] == broken_promises(json.dumps(A_SCHEMA), json.dumps(changed))


def test_every_type_and_every_reference_of_the_asyncapi_document_is_there():
    document = yaml.safe_load((CHECKOUT / "docs/asyncapi.yaml").read_text())
    messages = document["components"]["messages"]
    used = {
        message["$ref"]
        for channel in document["channels"].values()
        for message in channel["messages"].values()
    }

    assert sorted(TYPE_BY_NAME) == sorted(one["name"] for one in messages.values())
    assert {f"#/components/messages/{key}" for key in messages} == used
    for message in messages.values():
        assert (CHECKOUT / "docs" / message["payload"]["$ref"]).resolve().is_file()
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]


def _within(part: object, whole: object) -> bool:
    """Whether all that `part` says, `whole` says too."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(part[key], whole[key]) for key in part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(_within, part, whole))
    return part == whole


OF_BEFORE = ("muster.workload.failed.v1", "muster.workload.evicted.v1", "muster.workload.held.v1")


@pytest.mark.parametrize("name", OF_BEFORE)
@pytest.mark.parametrize(
    ("told", "read"),
    [("OOMKilled", (Reason.FAILED, "OOMKilled")), ("HTTP 500", (Reason.UNKNOWN, "HTTP 500"))],
    ids=["a pod's own", "no code"],
)
def test_a_fact_whose_reason_is_free_text_of_a_version_of_before_is_read(
    name: str, told: str, read: tuple[Reason, str]
):
    example = json.loads((EXAMPLES / f"{name}.json").read_text())
    example = {key: value for key, value in example.items() if key != "pod_reason"}
    value = json.dumps(example | {"reason": told}).encode()
    schema = json.loads((CHECKOUT / SCHEMAS / f"{name}.json").read_text())

    fact = decode_payload(name, value)

    assert read == (fact.reason, fact.pod_reason)  # type: ignore[attr-defined]  # of such a fact
    assert decode_payload(name, json.dumps(example).encode()).version == fact.version  # type: ignore[attr-defined]  # as above
    jsonschema.validate(json.loads(value), schema)


@pytest.mark.parametrize("name", [OF_BEFORE[0], "muster.pods.gone.v1"])
def test_a_fact_that_is_wrong_in_another_way_is_refused_for_that(name: str):
    example = json.loads((EXAMPLES / f"{name}.json").read_text())
    value = json.dumps(example | {"attempt": "two"}).encode()

    with pytest.raises(Malformed, match=r"Expected `int`, got `str` - at `\$\.attempt`"):
        decode_payload(name, value)


@pytest.mark.parametrize("told", [{"reason": "Error"}, {"pod_reason": "Error", "reason": "x"}])
def test_a_fact_about_pods_says_the_pods_own_reason_to_readers_of_every_version(told):
    example = json.loads((EXAMPLES / "muster.pods.finished.v1.json").read_text())
    del example["pod_reason"]

    fact = decode_payload("muster.pods.finished.v1", json.dumps(example | told).encode())

    sent = json.loads(encode_payload(fact))
    assert ("Error", "Error") == (sent["reason"], sent["pod_reason"])
