"""docs/asyncapi.yaml (AsyncAPI 3.0): every topic with its messages, producer and consumers.

From the topic table and the registry alone; payloads refer to the committed JSON Schemas.
"""

from __future__ import annotations

import inspect
from importlib.metadata import version
from typing import Any, Final

import yaml

from shared.events.registry import BY_TOPIC, NAME_BY_TYPE, TEAM_TYPES
from shared.events.topics import DEAD_LETTER_SUFFIX, Topic, team_results, team_submissions
from shared.events.workloads import SubmissionAnswered, SubmitWorkload, Wire, WorkloadChanged

HEADER: Final = (
    "# Generated from shared/events by `make generated`: change the code, not this file.\n"
)
HOUR_MS: Final = 3_600_000
Document = dict[str, Any]
_TEAM: Final = "{team}"
_KEYS: Final = {
    "cell": "The partition is the cell.",
    "team": "One partition.",
    "node": "The partition is the cell of the node.",
}


def render() -> str:
    """The text of the document."""
    text = yaml.dump(document(), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=96)
    return HEADER + str(text)


class _Plain(yaml.SafeDumper):
    """Writes what stands twice in full: references are the document's own."""

    def ignore_aliases(self, data: object) -> bool:  # type: ignore[explicit-override]  # new in Python 3.12
        """Never an alias."""
        del data
        return True


def document() -> Document:
    """The document as data."""
    channels = _channels()
    operations: Document = {}
    for topic, _ in channels:
        operations |= _operations(topic)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Muster",
            "version": version("muster-gpu"),
            "license": {"name": "Apache-2.0"},
            "description": " ".join(_DESCRIPTION.split()),
        },
        "defaultContentType": "application/json",
        "servers": {"kafka": _SERVER},
        "channels": {topic.name: _channel(topic, payloads) for topic, payloads in channels},
        "operations": operations,
        "components": {
            "messages": {_id(name): _message(one, name) for one, name in NAME_BY_TYPE.items()},
            "messageTraits": {"cloudEvent": {"headers": _HEADERS}},
        },
    }


def _channels() -> list[tuple[Topic, tuple[type[Wire], ...]]]:
    assert set(TEAM_TYPES) == {SubmissionAnswered, WorkloadChanged, SubmitWorkload}
    return [
        *BY_TOPIC.items(),
        (team_submissions(_TEAM), (SubmitWorkload,)),
        (team_results(_TEAM), (SubmissionAnswered, WorkloadChanged)),
    ]


def _channel(topic: Topic, payloads: tuple[type[Wire], ...]) -> Document:
    parameters: Document = {"prefix": {"description": "MUSTER_TOPIC_PREFIX", "default": "muster"}}
    if _TEAM in topic.name:
        parameters["team"] = {"description": "Name of the team; only it may write or read here."}
    retention_ms = topic.retention_hours * HOUR_MS if topic.retention_hours > 0 else -1
    return {
        "address": "{prefix}." + topic.name,
        "description": f"{_KEYS[topic.key]} Dead letters: `<address>{DEAD_LETTER_SUFFIX}`.",
        "parameters": parameters,
        "messages": {
            _id(NAME_BY_TYPE[one]): _ref("components", "messages", _id(NAME_BY_TYPE[one]))
            for one in payloads
        },
        "bindings": {
            "kafka": {
                "partitions": topic.partitions,
                "topicConfiguration": {"cleanup.policy": ["delete"], "retention.ms": retention_ms},
                "bindingVersion": "0.5.0",
            }
        },
    }


def _operations(topic: Topic) -> Document:
    channel = _ref("channels", topic.name)
    sender = "team" if topic.producer == _TEAM else topic.producer
    operations = {f"{sender}.sends.{topic.name}": {"action": "send", "channel": channel}}
    for consumer in topic.consumers:
        reader = "team" if consumer == _TEAM else consumer
        operations[f"{reader}.receives.{topic.name}"] = {"action": "receive", "channel": channel}
    return operations


def _message(payload: type[Wire], name: str) -> Document:
    text = inspect.getdoc(payload) or ""
    return {
        "name": name,
        "title": payload.__name__,
        "summary": text.split("\n")[0],
        "contentType": "application/json",
        "traits": [_ref("components", "messageTraits", "cloudEvent")],
        "payload": {"$ref": f"../shared/events/schemas/{name}.json"},
    }


def _id(name: str) -> str:
    return name.replace(".", "-")


def _ref(*path: str) -> Document:
    escaped = (one.replace("~", "~0").replace("/", "~1") for one in path)
    return {"$ref": "#/" + "/".join(escaped)}


_DESCRIPTION: Final = """\
Everything that crosses Kafka between Muster's services. Facts say what happened and cannot be
refused; commands ask. CloudEvents 1.0 in binary mode: attributes in `ce_` headers, the value is
the JSON payload, fields with their default are left out, unknown fields are ignored. Delivery is
at least once; `ce_id` is the same on every copy.
"""
_SERVER: Final = {
    "host": "{bootstrap}",
    "protocol": "kafka",
    "security": [{"type": "scramSha512", "description": "A team's user may use its own topics."}],
    "variables": {"bootstrap": {"default": "127.0.0.1:9092"}},
}
_STRING: Final = {"type": "string"}
_HEADERS: Final = {
    "type": "object",
    "required": ["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time"],
    "properties": {
        "ce_specversion": {"type": "string", "const": "1.0"},
        "ce_id": {
            "type": "string",
            "format": "uuid",
            "description": "48 bits of time, 80 of hash",
        },
        "ce_type": _STRING,
        "ce_source": {"type": "string", "description": "the service that sent it"},
        "ce_subject": {"type": "string", "description": "workload, node or document spoken of"},
        "ce_time": {"type": "string", "format": "date-time"},
        "ce_partitionkey": _STRING,
        "ce_sequence": {"type": "string", "description": "dense number in the sender's outbox"},
        "ce_causationid": {"type": "string", "description": "`ce_id` of what it answers"},
        "ce_correlationid": {"type": "string", "description": "`ce_id` of what began it all"},
        "traceparent": _STRING,
    },
}
