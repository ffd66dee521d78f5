"""Decodes the payload of a team's own topic, as strictly as a body of HTTP.

The strict type is the mirror of `SubmitWorkload`: its fields beside `spec` are known, because the
schema of the topic has them, and ignored, because the team is the topic's.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from shared.core.model.decision import FieldError
from shared.events.broken_rules import ERRORS_MAX, VALUE_LENGTH_MAX
from shared.events.codec import Malformed, decode_payload
from shared.events.registry import type_name
from shared.events.strict import strict
from shared.events.strict_reader import BODY_BYTES_MAX, BadInput, read_strictly
from shared.events.submission_faults import further_rules
from shared.events.workloads import SubmitWorkload, Wire

_TYPE: Final = type_name(SubmitWorkload)
_strict: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(strict(SubmitWorkload))


def decode_submission(type_name: str, value: bytes | None) -> Wire:
    """The submission in `value`; raises Malformed with every broken rule."""
    if type_name != _TYPE:
        raise _malformed("ce_type", type_name, f"must be {_TYPE}")
    if value is None or len(value) > BODY_BYTES_MAX:
        given = "" if value is None else f"{len(value)} bytes"
        raise _malformed("", given, f"must be present and at most {BODY_BYTES_MAX} bytes")
    try:
        read_strictly(value, _strict)
    except BadInput as bad:
        raise Malformed(f"value: {bad}", _all_errors(bad)) from bad
    return decode_payload(type_name, value)


def _all_errors(bad: BadInput) -> tuple[FieldError, ...]:
    spec = bad.tree.get("spec") if isinstance(bad.tree, dict) else None
    return (*bad.errors, *further_rules(spec, bad.errors, "spec."))[:ERRORS_MAX]


def _malformed(field: str, value: str, rule: str) -> Malformed:
    error = FieldError(field=field, value=value[:VALUE_LENGTH_MAX], rule=rule)
    return Malformed(f"{field or 'value'}: {rule}", (error,))
