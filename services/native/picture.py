"""The pods that name Muster, by group, and the Indexed Jobs that tell the size of some."""

from __future__ import annotations

from shared.core.native import IndexedJob, PodsByGroup, key_of_job
from shared.ports.native import JobChanged, PodChanged, PodsListed


class NativePicture:
    """What the API server told; each piece of news names the groups that it changes."""

    def __init__(self) -> None:
        self.listed = False
        """Whether all pods were told once."""
        self.jobs: dict[str, IndexedJob] = {}
        self.pods = PodsByGroup()

    def hear(self, news: PodsListed | PodChanged | JobChanged) -> set[str]:
        """Take it in; the groups that it changes."""
        if isinstance(news, JobChanged):
            return self._job(news)
        if isinstance(news, PodChanged):
            return self.pods.put(news.key, news.pod)
        self.listed = True
        changed = set[str]()
        for key in set(self.pods.keys) - news.pods.keys():
            changed |= self.pods.put(key, None)
        for key, pod in news.pods.items():
            changed |= self.pods.put(key, pod)
        return changed

    def _job(self, news: JobChanged) -> set[str]:
        """Only what differs is news; its group may have no pod now."""
        before = self.jobs.pop(news.uid, None)
        if news.job is not None:
            self.jobs[news.uid] = news.job
        if before == news.job:
            return set()
        return {key_of_job(news.namespace, news.uid)}
