"""Pods that no attempt wants: left by a binder that died, or made by one already replaced.

They are deleted only after a grace, by uid. The grace is longer than a lease lives, so that a
binder which does not know yet that it was replaced cannot delete what its successor made. What
has ended and was deleted before holds no device; a finalizer of others keeps it, and only they
can take that away.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Final

from shared.ports.cluster import Pod

GRACE_MS: Final = 15_000


class Orphans:
    """Known orphans by uid, in the order of the time they were first seen."""

    def __init__(self) -> None:
        self._first_seen: dict[str, tuple[int, Pod]] = {}

    def seen(self, pod: Pod, now_ms: int, *, gone: bool) -> None:
        """A pod of no attempt was seen, or was seen to be gone. O(1)."""
        if gone or (pod.ended and pod.deleting):
            self._first_seen.pop(pod.uid, None)
        else:
            self._first_seen.setdefault(pod.uid, (now_ms, pod))

    def keep_only(self, uids: Container[str]) -> None:
        """Forget those that a full list no longer names."""
        self._first_seen = {uid: entry for uid, entry in self._first_seen.items() if uid in uids}

    def due(self, now_ms: int, count_max: int) -> list[Pod]:
        """At most `count_max` pods past their grace; each comes again after another grace."""
        first = list(islice(self._first_seen.values(), count_max))
        late = [pod for first_ms, pod in first if now_ms - first_ms >= GRACE_MS]
        for pod in late:
            del self._first_seen[pod.uid]
            self._first_seen[pod.uid] = (now_ms, pod)
        return late
