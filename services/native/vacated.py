"""Places in the queue that evicted lone pods left to the pods that their controller makes instead.

A lone pod is a workload of its own, and the pod that follows it is another. It is submitted as of
the time of the one that it follows, which is its place among work of its priority.
"""

from __future__ import annotations


class VacatedPlaces:
    """Times of submission by the owner of the pods; each is taken once, and kept for a while."""

    def __init__(self, kept_ms: int) -> None:
        self._kept_ms = kept_ms
        self._places: dict[str, list[tuple[int, int]]] = {}
        """By uid of the owner: when each was submitted, and until when it is kept."""

    def leave(self, owner_uid: str, submitted_at_ms: int, now_ms: int) -> None:
        """A pod of this owner is evicted. O(places of the owner)."""
        kept = self._kept(owner_uid, now_ms)
        self._places[owner_uid] = sorted([*kept, (submitted_at_ms, now_ms + self._kept_ms)])

    def take(self, owner_uid: str, now_ms: int) -> int:
        """The oldest place that a pod of this owner may have; the time of now: there is none."""
        kept = self._kept(owner_uid, now_ms)
        if not kept:
            self._places.pop(owner_uid, None)
            return now_ms
        self._places[owner_uid] = kept[1:]
        return kept[0][0]

    def _kept(self, owner_uid: str, now_ms: int) -> list[tuple[int, int]]:
        return [one for one in self._places.get(owner_uid, ()) if one[1] > now_ms]
