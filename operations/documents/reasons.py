"""docs/reasons.md: every code of a reason with its meaning, from core/model/reason.py."""

from __future__ import annotations

from typing import Final

from shared.core.model.reason import Reason
from shared.events.described.docstrings import of_fields

HEADER: Final = """\
<!-- Generated from shared/core/model/reason.py by `make generated`: change that. -->

# Codes of reasons

Every `reason` that HTTP, the results topics and `muster` tell is one of these. What the cluster
said of a pod is free text, bounded and printable, and stands beside it in `pod_reason`: such as
`OOMKilled` beside `failed`. A later version may tell further codes.

| Code | Means |
|---|---|
"""


def render() -> str:
    """The text of the document."""
    texts = of_fields(Reason)
    return HEADER + "".join(f"| `{one}` | {texts[one.name]} |\n" for one in Reason if one)
