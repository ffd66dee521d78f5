"""Nodes on which nothing starts have no room for anybody; whoever waits is told how many."""

from __future__ import annotations

from shared.core.decision import Refusal
from shared.core.explain.survey import Survey
from shared.core.feasibility import Filter
from shared.core.value import replace
from shared.core.wording import count


def with_shunned(refusal: Refusal, found: Survey) -> Refusal:
    """`refusal` with the nodes that would match and are shunned, if there are any."""
    shunned = found.excluded.get(Filter.SHUNNED, 0)
    if not shunned:
        return refusal
    verb = "are" if shunned > 1 else "is"
    text = f"{count(shunned, 'node')} more {verb} shunned, as nothing started there lately"
    name = f"nodes_excluded_{Filter.SHUNNED.value}"
    evidence = refusal.evidence | {name: shunned}
    return replace(refusal, message=f"{refusal.message} {text}.", evidence=evidence)
