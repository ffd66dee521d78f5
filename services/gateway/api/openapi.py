"""OpenAPI 3.1 of the table of routes: `python -m services.gateway.api.openapi --write | --check`.

Schemas come from the very types by which requests are decoded and answers are encoded, so the
document cannot say anything else than what the gateway does.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from services.gateway.api.routes import ROUTES
from services.gateway.http.authorisation import Action
from services.gateway.http.problems import CONTENT_TYPE, ProblemDocument
from services.gateway.http.route import NAME_LENGTH_MAX, Parameter, Route
from services.gateway.protocol import NOT_MODIFIED, headers_of
from shared.events.described import described_components
from shared.events.strict import PRINTABLE

PATH: Final = Path(__file__).parents[3] / "docs" / "openapi.json"
_REF: Final = "#/components/schemas/{name}"
_PARTS: Final = {
    "cohorts": "Name of the cohort.",
    "notifications": "Name of the destination.",
    "flavors": "Name of the flavor.",
    "keys": "Public part of the key, as `prefix` in the list of keys.",
    "nodes": "Name of the node, as it is reported.",
    "priority-classes": "Name of the priority class.",
    "queues": "Name of the queue.",
    "teams": "Name of the team.",
    "workloads": "Id of the workload.",
}
"""What stands behind each part of a path."""
_PROBLEMS: Final = {
    "400": "A parameter or the body breaks a rule; `errors` names each.",
    "401": "No valid key.",
    "403": "The key's role does not allow it.",
    "404": "It does not exist, or belongs to another team.",
    "408": "The body came in too slowly.",
    "409": "What is asked for no longer fits its state.",
    "412": "The document is at another version.",
    "413": "The body is too large.",
    "414": "The address is too long.",
    "415": "The body is not application/json.",
    "422": "The idempotency key was used with another body.",
    "429": "Too many requests; nothing was accepted. See Retry-After.",
    "431": "A header is too long.",
    "503": "Nothing can be accepted now; the same again is safe. See Retry-After.",
}

_MERGED: Final = (
    "JSON Merge Patch (RFC 7396): a field that is left out stays as it is, one that is null gets "
    "its default again, an array is replaced as a whole. What does not exist is made of the "
    "defaults, unless `If-Match` is given."
)
_PATCHED: Final = "Left out: as it is. Null: the default."
_ABOUT: Final = (
    "Submit GPU work, see what becomes of it, and why. What answers to GET answers to HEAD; "
    "answers are gzipped where the client accepts it. An address is at most 8,190 bytes (414)."
)
_STREAM: Final = (
    "Server-sent events: `id` is that of the event, `data` the event as an item of the page. It "
    "begins with the `id` that it goes on from, without data. At `event: resync` it ends, because "
    "it was read too slowly; connected again with the last id (`after` in its data) as "
    "`Last-Event-ID`, it tells what was passed over."
)


def document() -> dict[str, Any]:
    """The whole document as JSON values."""
    types = [route.request for route in ROUTES if route.request]
    types += [view for route in ROUTES for _, view in route.answers if view]
    types = list(dict.fromkeys([*types, ProblemDocument]))
    schemas, components = described_components(types, _REF, _raw)
    for route in ROUTES:
        if route.method == "PATCH":
            components[route.request.__name__] = _merge_patch(components[route.request.__name__])
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    result = {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": "1",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "mk_<prefix>_<secret>"}
            },
        },
    }
    plain: dict[str, Any] = json.loads(json.dumps(result))  # tuples become lists
    return plain


def _merge_patch(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of what may be merged into such an object: any field, or null for its default."""
    properties = {name: _patched(one) for name, one in schema["properties"].items()}
    plain = {name: value for name, value in schema.items() if name != "required"}
    return {**plain, "description": _MERGED, "properties": properties}


def _patched(schema: dict[str, Any]) -> dict[str, Any]:
    rest = {
        name: value for name, value in schema.items() if name not in {"default", "description"}
    }
    description = " ".join(filter(None, (schema.get("description"), _PATCHED)))
    return {"anyOf": [rest, {"type": "null"}], "description": description}


def _raw(kind: Any) -> dict[str, Any]:  # noqa: ANN401  # a type msgspec does not know
    if kind is msgspec.Raw:
        return {"description": "Any JSON."}
    raise NotImplementedError(kind)  # how a schema hook tells msgspec that it cannot help


def _operation(route: Route, by_type: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [_tag(route)],
        "responses": _responses(route, by_type),
    }
    parts = re.findall(r"/([\w-]+)/{(\w+)}", route.path)
    parameters = [_path_parameter(name, _PARTS[of]) for of, name in parts]
    parameters += [_parameter(one) for one in route.parameters]
    if parameters:
        operation["parameters"] = parameters
    if route.action is None:
        operation["security"] = []
    elif route.action is Action.READ_METRICS:
        operation["security"] = [{"key": []}, {}]  # from the machine itself no key is needed
    else:
        operation["description"] = f"Action `{route.action}`."
    if route.request:
        schema = by_type[route.request]
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {one: {"schema": schema} for one in route.content_types},
        }
    return operation


def _tag(route: Route) -> str:
    parts = route.path.split("/")
    return re.split(r"[:?]", parts[2])[0] if parts[1] == "v1" else "process"


def _responses(route: Route, by_type: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, view in route.answers or ((200, None),):
        answer: dict[str, Any] = {"description": _first_line(view)}
        if view:
            answer["content"] = {"application/json": {"schema": by_type[view]}}
            if route.name in ("events", "workload_events"):
                schema = {"type": "string", "description": _STREAM}
                answer["content"]["text/event-stream"] = {"schema": schema}
        elif route.text:
            answer = _plain_text(route)
        responses[str(status)] = answer
    if route.method == "GET" and route.answers:
        responses["304"] = {"description": NOT_MODIFIED}
    if route.action is not None:
        for problem in _problem_statuses(route):
            responses[problem] = {
                "description": _PROBLEMS[problem],
                "content": {CONTENT_TYPE: {"schema": by_type[ProblemDocument]}},
            }
    elif route.name == "readyz":
        responses["503"] = {"description": "Not now."}
    for code, answer in responses.items():
        headers = headers_of(route, int(code))
        answer.update({"headers": headers} if headers else {})
    return responses


def _plain_text(route: Route) -> dict[str, Any]:
    schema = {"type": "string", "description": route.text}
    return {"description": route.text, "content": {route.text_type: {"schema": schema}}}


def _first_line(view: Any) -> str:  # noqa: ANN401  # a type
    return (view.__doc__ or "Done.").split("\n")[0] if view else "Done."


def _problem_statuses(route: Route) -> list[str]:
    statuses = ["401", "403", "404", "414", "429", "431", "503"]
    if route.parameters or route.request or "{" in route.path:
        statuses.append("400")
    if route.request:
        statuses += ["408", "413", "415"]
    if route.name == "submit":
        statuses.append("422")
    if route.name.startswith("command_") or route.name in {
        "create_kafka_password",
        "logs",
        "exec",
        "node_fence",
        "node_restore",
    }:
        statuses.append("409")
    if route.name.startswith("delete_"):
        statuses += ["409", "412"]
    if route.method in {"PUT", "PATCH"}:
        statuses.append("412")
        statuses += ["409"] if any(one.name == "force" for one in route.parameters) else []
    return sorted(statuses)


def _path_parameter(name: str, description: str) -> dict[str, Any]:
    schema = {
        "type": "string",
        "minLength": 1,
        "maxLength": NAME_LENGTH_MAX,
        "pattern": PRINTABLE,
    }
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": one.kind}
    if one.choices:
        schema["enum"] = list(one.choices)
    elif one.kind == "string":
        schema |= {"maxLength": one.length_max, "pattern": one.pattern}
    elif one.kind == "integer":
        schema |= {"minimum": one.least, "maximum": one.most}
    if one.otherwise is not None:
        schema["default"] = one.otherwise
    return {
        "name": one.name,
        "in": one.place,
        "required": False,
        "description": one.text,
        "schema": schema,
    }


@functools.cache
def document_bytes() -> bytes:
    """What is served at /openapi.json."""
    return json.dumps(document()).encode()


def text() -> str:
    """What stands in docs/openapi.json."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Write the file, or say whether it is fresh."""
    parser = argparse.ArgumentParser(description=__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true")
    choice.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        PATH.write_text(text())
        return 0
    fresh = PATH.exists() and PATH.read_text() == text()
    if not fresh:
        sys.stderr.write(f"{PATH} is stale: python -m services.gateway.api.openapi --write\n")
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main())
