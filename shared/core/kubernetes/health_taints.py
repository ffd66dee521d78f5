"""The taints by which a node of Kubernetes shows that Muster keeps work off it, or off its GPUs.

They are for schedulers beside Muster, which has a ledger of its own: a node that is cordoned
or drained takes nothing new, one with GPUs out of service only what fits nowhere else, as a device
plugin may hand out any GPU of it (https://kubernetes.io/docs/concepts/scheduling-eviction/
taint-and-toleration/). Taints of others are left as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

CLOSED: Final = "muster.dev/out-of-service"
"""Of a node on which Muster starts nothing; its value is the reason."""
GPUS_OUT: Final = "muster.dev/gpus-out-of-service"
"""Of a node with GPUs that take no work; its value names them by index: 0.3."""
OWN: Final = frozenset((CLOSED, GPUS_OUT))
VALUE_LENGTH_MAX: Final = 63
"""Of a taint's value, as of a label's."""

TaintFields = Mapping[str, Any]
"""A taint with the fields of the API: key, value, effect, timeAdded."""


def wanted(closed: str, gpus: Collection[int]) -> tuple[TaintFields, ...]:
    """The taints of a node: `closed` is why nothing starts there, empty if it is open.

    `gpus`: indexes of those out of service.
    """
    found: list[TaintFields] = []
    if closed:
        found.append({"key": CLOSED, "value": closed, "effect": "NoSchedule"})
    if gpus:
        names = ".".join(map(str, sorted(gpus)))
        if len(names) > VALUE_LENGTH_MAX:
            names = f"{len(gpus)}-gpus"
        found.append({"key": GPUS_OUT, "value": names, "effect": "PreferNoSchedule"})
    return tuple(found)


def changed(
    present: Sequence[TaintFields], ours: Sequence[TaintFields]
) -> list[TaintFields] | None:
    """All taints of a node with `ours` in the place of Muster's; None: they are there already."""
    mine = [_identity(one) for one in present if one["key"] in OWN]
    if sorted(mine) == sorted(map(_identity, ours)):
        return None
    return [*(one for one in present if one["key"] not in OWN), *ours]


def _identity(taint: TaintFields) -> tuple[str, str, str]:
    return taint["key"], taint.get("value", ""), taint.get("effect", "")
