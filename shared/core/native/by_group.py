"""Pods by the groups that they may be of, kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shared.core.model.decision import FieldError
from shared.core.native.apart import problem_of_spread
from shared.core.native.groups import group_key, keys_of, whole_of
from shared.core.native.pod import NativePod


class PodsByGroup:
    """Each pod under a key of its own, such as NAMESPACE/NAME, and in each of its `keys_of`."""

    def __init__(self) -> None:
        self._pods: dict[str, NativePod] = {}
        self._groups: dict[str, dict[str, NativePod]] = {}

    def __len__(self) -> int:
        """Number of pods."""
        return len(self._pods)

    @property
    def keys(self) -> Iterable[str]:
        """The keys of all pods."""
        return self._pods.keys()

    @property
    def groups(self) -> Iterable[str]:
        """The keys of groups with pods."""
        return self._groups.keys()

    def get(self, key: str) -> NativePod | None:
        """The pod under a key. O(1)."""
        return self._pods.get(key)

    def uids(self) -> set[str]:
        """Of all pods. O(pods)."""
        return {one.uid for one in self._pods.values()}

    def members(self, group: str) -> list[NativePod]:
        """The pods of a group, in order of rank, then of name. O(members log members)."""
        found = self._groups.get(group, {}).values()
        return sorted(found, key=lambda one: (group_key(one)[1], one.name))

    def keys_of_members(self, group: str) -> set[str]:
        """The keys of all groups that its pods may be of. O(members)."""
        return set[str]().union(*map(keys_of, self._groups.get(group, {}).values()))

    @staticmethod
    def whole_of(key: str) -> str:
        """The key of the whole that a group is, or is a part of. O(1)."""
        return whole_of(key)

    def problem_of_spread(self, group: str, members: Sequence[NativePod]) -> FieldError | None:
        """The first term of members that chooses a pod of another group. O(pods)."""
        return problem_of_spread(members, self._others(group))

    def _others(self, group: str) -> Iterator[NativePod]:
        """Pods of the group's namespace that are of other groups and not over. O(pods)."""
        own, namespace = self._groups.get(group, {}), group.partition("/")[0]
        for key, one in self._pods.items():
            if one.namespace == namespace and key not in own and not one.ended:
                yield one

    def put(self, key: str, pod: NativePod | None) -> set[str]:
        """A pod as it is now; None: it is gone. The groups that this changes. O(1)."""
        before = self._pods.get(key)
        if before == pod:
            return set()
        old = keys_of(before) if before is not None else ()
        new = keys_of(pod) if pod is not None else ()
        for group in old:
            if group not in new:
                self._leave(group, key)
        if pod is None:
            del self._pods[key]
        else:
            self._pods[key] = pod
            for group in new:
                self._groups.setdefault(group, {})[key] = pod
        return {*old, *new}

    def _leave(self, group: str, key: str) -> None:
        del self._groups[group][key]
        if not self._groups[group]:
            del self._groups[group]
