"""What else is wrong with a submission that cannot be read: the rules that its sound fields break.

A field that was refused is left at its default, and nothing is said about it twice: so one answer
names everything that is to be mended, not the types first and the names then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from shared.core.admission.errors import ERRORS_MAX, Errors
from shared.core.admission.form import check_form
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.value import replace

_STAND_INS: Final = {"name": "unread", "kind": "training"}
"""For the fields that every submission has."""
_PART: Final = re.compile(r"pod_sets\[[0-9]+\]|[^.\[]*")
"""A field of a submission, or one of its pod sets, at the beginning of a path."""


def further_rules(tree: Any, faults: Sequence[FieldError], prefix: str = "") -> list[FieldError]:  # noqa: ANN401  # any JSON value
    """Broken rules of the form of `tree` where it has no `faults`; their paths get `prefix`."""
    if not isinstance(tree, dict):
        return []
    refused = {_part(one.field.removeprefix(prefix)) for one in faults}
    try:
        spec = msgspec.convert(_sound(tree, refused), WorkloadSpec)
    except (msgspec.ValidationError, UnicodeError):
        return []
    errors = Errors()
    check_form(spec, errors)
    return [replace(one, field=prefix + one.field) for one in errors]


def further_rules_of_batch(tree: Any, faults: Sequence[FieldError]) -> list[FieldError]:  # noqa: ANN401  # any JSON value
    """The same of `items` that have a submission each; at most `ERRORS_MAX`."""
    items = tree.get("items") if isinstance(tree, dict) else None
    found: list[FieldError] = []
    for index, item in enumerate(items if isinstance(items, list) else ()):
        prefix = f"items[{index}].spec."
        spec = item.get("spec") if isinstance(item, dict) else None
        theirs = [one for one in faults if one.field.startswith(prefix)]
        found += further_rules(spec, theirs, prefix)
        if len(found) >= ERRORS_MAX:
            break
    return found[:ERRORS_MAX]


def _sound(tree: Mapping[str, Any], refused: set[str]) -> dict[str, Any]:
    known = set(WorkloadSpec.__struct_fields__)
    sound = {name: value for name, value in tree.items() if name in known - refused}
    pod_sets = sound.get("pod_sets")
    if isinstance(pod_sets, list):
        sound["pod_sets"] = [
            {"name": f"unread-{index}"} if f"pod_sets[{index}]" in refused else one
            for index, one in enumerate(pod_sets)
        ]
    return _STAND_INS | sound


def _part(field: str) -> str:
    found = _PART.match(field)
    assert found is not None  # also an empty field has it
    return found[0]
