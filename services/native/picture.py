"""The pods that name Muster, by group, and the Indexed Jobs that tell the size of some."""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.native import IndexedJob, NativePod, group_key, key_of_job
from shared.ports.native import JobChanged, PodChanged, PodsListed


class NativePicture:
    """What the API server told; each piece of news names the groups that it changes."""

    def __init__(self) -> None:
        self.listed = False
        """Whether all pods were told once."""
        self.jobs: dict[str, IndexedJob] = {}
        self._pods: dict[str, NativePod] = {}
        self._groups: dict[str, dict[str, NativePod]] = {}

    @property
    def groups(self) -> Iterable[str]:
        """The keys of groups with pods."""
        return self._groups.keys()

    @property
    def pods(self) -> int:
        """Number of pods."""
        return len(self._pods)

    def members(self, group: str) -> list[NativePod]:
        """The pods of a group, in order of rank, then of name."""
        found = self._groups.get(group, {}).values()
        return sorted(found, key=lambda one: (group_key(one)[1], one.name))

    def hear(self, news: PodsListed | PodChanged | JobChanged) -> set[str]:
        """Take it in; the groups that it changes."""
        if isinstance(news, JobChanged):
            return self._job(news)
        if isinstance(news, PodChanged):
            return self._put(news.key, news.pod)
        self.listed = True
        changed = set[str]()
        for key in self._pods.keys() - news.pods.keys():
            changed |= self._put(key, None)
        for key, pod in news.pods.items():
            changed |= self._put(key, pod)
        return changed

    def _job(self, news: JobChanged) -> set[str]:
        """Only what differs is news; its group may have no pod now."""
        before = self.jobs.pop(news.uid, None)
        if news.job is not None:
            self.jobs[news.uid] = news.job
        if before == news.job:
            return set()
        return {key_of_job(news.namespace, news.uid)}

    def _put(self, key: str, pod: NativePod | None) -> set[str]:
        before = self._pods.get(key)
        if before == pod:
            return set()
        changed = set[str]()
        if before is not None:
            group = group_key(before)[0]
            del self._pods[key], self._groups[group][key]
            if not self._groups[group]:
                del self._groups[group]
            changed.add(group)
        if pod is not None:
            group = group_key(pod)[0]
            self._pods[key] = pod
            self._groups.setdefault(group, {})[key] = pod
            changed.add(group)
        return changed
