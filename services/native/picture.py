"""The pods that name Muster, by group, and the objects that tell the size of some groups."""

from __future__ import annotations

from shared.core.native import GroupObject, PodsByGroup
from shared.ports.native import GroupChanged, PodChanged, PodsListed


class NativePicture:
    """What the API server told; each piece of news names the groups that it changes."""

    def __init__(self) -> None:
        self.listed = False
        """Whether all pods were told once."""
        self.told: dict[str, GroupObject] = {}
        """What objects say of groups, by key."""
        self.pods = PodsByGroup()

    def hear(self, news: PodsListed | PodChanged | GroupChanged) -> set[str]:
        """Take it in; the groups that it changes."""
        if isinstance(news, GroupChanged):
            return self._group(news)
        if isinstance(news, PodChanged):
            return self.pods.put(news.key, news.pod)
        self.listed = True
        changed = set[str]()
        for key in set(self.pods.keys) - news.pods.keys():
            changed |= self.pods.put(key, None)
        for key, pod in news.pods.items():
            changed |= self.pods.put(key, pod)
        return changed

    def _group(self, news: GroupChanged) -> set[str]:
        """Only what differs is news; the group may have no pod now."""
        before = self.told.pop(news.key, None)
        if news.told is not None:
            self.told[news.key] = news.told
        return set() if before == news.told else {news.key}
