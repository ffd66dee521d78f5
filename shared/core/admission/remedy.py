"""What would make a refused submission acceptable, in words: one remedy for each broken rule.

A rule about the fleet or the organisation brings its remedy along (`FieldError.remedy`). A rule of
form says what a value must be, and that is its remedy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shared.core.model.decision import FieldError

TOLD_MAX: Final = 3
"""Remedies in one sentence."""
_head: Final = re.compile(r"[^:;]*").match


def next_step(errors: Sequence[FieldError]) -> str:
    """Such as `ask for at most 400 pods, then submit it again`; of several rules the first ones.

    "" where no rule is named.
    """
    told = list(dict.fromkeys(map(remedy, errors[:TOLD_MAX])))
    return f"{'; '.join(told)}, then submit it again" if told else ""


def remedy(error: FieldError) -> str:
    """What to change because of one broken rule."""
    if error.remedy:
        return error.remedy
    found = _head(error.rule)
    assert found is not None, "it matches an empty text too"
    rule, field = found[0].strip(), error.field or "the body"
    if rule.startswith("must be "):
        return f"set {field} to {rule.removeprefix('must be ')}"
    if rule.startswith("must "):
        return f"change {field}, which {rule}"
    return f"change {field}: {error.rule}"
