"""docs/workload.md: every field of a submission, from the schema by which it is described.

The same types, bounds and docstrings make the OpenAPI document; here they are tables for people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from shared.core.model.nouns import WorkloadSpec
from shared.events.described import described_components
from shared.events.strict import INTEGER_MAX, strict

HEADER: Final = """\
<!-- Generated from shared/core/model/nouns.py and its bounds by `make generated`: change those.
-->

# The fields of a submission

What `muster submit -f FILE` sends, `POST /v1/workloads` takes and `SubmitWorkload` holds as
`spec`. Whole examples are in [cli.md](cli.md#a-submission). An unknown field is refused; one that
is left out has its default. Broken rules are told all at once.
"""
_CITED: Final = re.compile(r" \(mission [A-Z0-9]+\)")
_REF: Final = "{name}"
_SPEC: Final = strict(WorkloadSpec)
Schema = dict[str, Any]


def render() -> str:
    """The text of the document."""
    _, components = described_components([_SPEC], _REF)
    patterns: list[str] = []
    sections = [
        _section(path, components[name], components, patterns)
        for path, name in _places(components)
    ]
    return "\n".join([HEADER, *sections, *_legend(patterns)])


def _places(components: dict[str, Schema]) -> Iterator[tuple[str, str]]:
    """Each struct below the submission by the path to it, the outermost first."""
    waiting = [("", _SPEC.__name__)]
    while waiting:
        path, name = waiting.pop(0)
        yield path, name
        children = []
        for field, schema in components[name].get("properties", {}).items():
            for below, suffix in ((schema, ""), (schema.get("items", {}), "[]")):
                found = below.get("$ref", "")
                if "properties" in components.get(found, {}):
                    children.append((f"{path}.{field}{suffix}".removeprefix("."), found))
        waiting[:0] = children


def _section(path: str, schema: Schema, components: dict[str, Schema], patterns: list[str]) -> str:
    title = f"`{path}`" if path else "The submission"
    about = schema.get("description", "").split("\n\n")[0].replace("\n", " ")
    about = _CITED.sub("", about)
    lines = [f"## {title}", "", about, ""]
    lines += ["| field | type | bounds | default | meaning |", "|---|---|---|---|---|"]
    required = schema.get("required", ())
    for field, one in schema["properties"].items():
        default = "(required)" if field in required else _default(one)
        cells = (
            f"`{field}`",
            _type(one, components),
            _bounds(one, patterns),
            default,
            one.get("description", ""),
        )
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _type(schema: Schema, components: dict[str, Schema]) -> str:
    """In words; what may be null is told last."""
    branches = schema.get("anyOf")
    if branches:
        words = [_type(one, components) for one in branches if one.get("type") != "null"]
        null = any(one.get("type") == "null" for one in branches)
        return " or ".join([*words, *(["null"] if null else [])])
    target = components.get(schema.get("$ref", ""), {})
    if "enum" in target:
        return "one of " + ", ".join(f"`{one}`" for one in target["enum"])
    if target:
        return "object"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], components)}"
    if schema.get("type") == "object":
        return f"mapping of text to {_type(schema['additionalProperties'], components)}"
    name: str = schema["type"]
    return {"string": "text", "boolean": "true or false"}.get(name, name)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if isinstance(default, dict) and default:
        return "its defaults"
    if isinstance(default, list | tuple) and default:
        return "one, its defaults"
    return f"`{json.dumps(default)}`"


def _bounds(schema: Schema, patterns: list[str]) -> str:
    """Numbers, lengths and patterns; of a list or mapping those of its entries, too."""
    for branch in schema.get("anyOf", ()):
        if branch.get("type") != "null":
            return _bounds(branch, patterns)
    parts = [text for text in (", ".join(_own_bounds(schema, patterns)),) if text]
    for word, title in (
        ("propertyNames", "names"),
        ("items", "each"),
        ("additionalProperties", "values"),
    ):
        inner = schema.get(word)
        if isinstance(inner, dict) and (text := _bounds(inner, patterns)):
            parts.append(f"{title} {text}")
    return "; ".join(parts)


def _own_bounds(schema: Schema, patterns: list[str]) -> Iterator[str]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema.get("exclusiveMinimum") is not None:
        yield f"above {schema['exclusiveMinimum']}"
    if least is not None and most is not None and abs(most) < INTEGER_MAX:
        yield f"{least:,} to {most:,}"
    elif most is not None and abs(most) < INTEGER_MAX:
        yield f"at most {most:,}"
    for least_word, most_word, unit in (
        ("minItems", "maxItems", "entries"),
        ("minProperties", "maxProperties", "entries"),
        ("minLength", "maxLength", "characters"),
    ):
        if most_word in schema:
            few = f"{schema[least_word]} to " if schema.get(least_word) else "at most "
            yield f"{few}{schema[most_word]:,} {unit}"
    if schema.get("uniqueItems"):
        yield "none twice"
    if "pattern" in schema:
        if schema["pattern"] not in patterns:
            patterns.append(schema["pattern"])
        yield f"[pattern {patterns.index(schema['pattern']) + 1}](#patterns)"


def _legend(patterns: list[str]) -> list[str]:
    lines = ["## Patterns", "", "| pattern | regular expression |", "|---|---|"]
    for number, pattern in enumerate(patterns, 1):
        lines.append(f"| {number} | `{pattern.replace('|', chr(92) + '|')}` |")
    return [*lines, ""]
