"""Which GPUs kubelets chose for the pods of one attempt, and what of that is to be told."""

from __future__ import annotations


class Allocated:
    """UUIDs by rank, as they were seen last."""

    __slots__ = ("_seen", "_untold")

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, ...]] = {}
        self._untold: set[int] = set()

    def __bool__(self) -> bool:
        """Whether anything is to be told."""
        return bool(self._untold)

    def saw(self, rank: int, devices: tuple[str, ...]) -> None:
        """The cluster showed a pod; nothing, where its kubelet says nothing."""
        if devices and self._seen.get(rank) != devices:
            self._seen[rank] = devices
            self._untold.add(rank)

    def ended(self, rank: int) -> None:
        """A pod has ended: its kubelet may give its GPUs to others, though the rest runs on."""
        if self._seen.get(rank):
            self._seen[rank] = ()
            self._untold.add(rank)

    def take(self) -> list[tuple[int, tuple[str, ...]]]:
        """All that is to be told, by rank; it counts as told."""
        ranks, self._untold = sorted(self._untold), set()
        return [(rank, self._seen[rank]) for rank in ranks]
