"""The site's own classes of XIDs, from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from shared.core.health.xid import NO_OVERRIDES, XidClass, overrides_of


class XidRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    xid: int
    kind: str = msgspec.field(name="class")


def read_overrides(file: Path | None) -> Mapping[int, XidClass]:
    """Classes by XID; none without a file.

    Raises:
        ValueError: the file is no list of rules, or breaks one; with file, field, value and rule.
        OSError: it cannot be read.
    """
    if file is None:
        return NO_OVERRIDES
    try:
        rules = msgspec.yaml.decode(file.read_bytes(), type=list[XidRule])
        return overrides_of((one.xid, one.kind) for one in rules)
    except ValueError as error:
        raise ValueError(f"MUSTER_HEALTH_RULES_FILE: {file}: {error}") from error
