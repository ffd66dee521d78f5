"""The pods that name Muster, by group, and the objects that tell the size of some groups."""

from __future__ import annotations

from collections.abc import Mapping

from shared.core.kubernetes.namespace_quota import NamespaceQuota, full_for
from shared.core.native import GroupObject, NativePod, PodsByGroup, key_of, may_come_back
from shared.ports.native import (
    GroupChanged,
    GroupNotice,
    NativeNotice,
    PodChanged,
    PodsListed,
    QuotasTold,
    VolumeClaimsTold,
)

Heard = PodsListed | PodChanged | GroupChanged | QuotasTold | VolumeClaimsTold


class NativePicture:
    """What the API server told; each piece of news names the groups that it changes."""

    def __init__(self) -> None:
        self.listed = False
        """Whether all pods were told once."""
        self.told: dict[str, GroupObject] = {}
        """What objects say of groups, by key."""
        self.pods = PodsByGroup()
        self.quotas: Mapping[str, NamespaceQuota] = {}
        """By NAMESPACE/NAME."""
        self.volumes: Mapping[str, bool] | None = None
        """Whether claims have their volume, by NAMESPACE/NAME; None: not told yet."""

    def uids(self) -> set[str]:
        """Of all pods, and of the objects of groups that are told why they wait. O(pods)."""
        objects = {one.uid for one in self.told.values()}
        return objects | self.pods.uids()

    def is_timely(self, notice: NativeNotice) -> bool:
        """Whether its object is there and is what the notice was made for. O(1)."""
        if isinstance(notice, GroupNotice):
            told = self.told.get(key_of(notice.namespace, notice.source, notice.name))
            return told is not None and told.uid == notice.uid
        pod = self.pods.get(f"{notice.namespace}/{notice.name}")
        return pod is not None and pod.uid == notice.uid and pod.waits

    def waiting(self, key: str) -> tuple[str, ...]:
        """Uids of the pods of a group that can be bound, in order of rank."""
        return tuple(one.uid for one in self.pods.members(key) if one.waits)

    def owner_of_lone(self, key: str) -> str:
        """The owner that makes another pod in place of a lone one; empty: there is none."""
        if may_come_back(key):
            return ""
        return next((one.owner_uid for one in self.pods.members(key)), "")

    def full_for(self, pod: NativePod) -> str:
        """Which quota of its namespace admits no further pod like it; empty: none."""
        own = (one for one in self.quotas.values() if one.namespace == pod.namespace)
        devices = {name: text for one in pod.gpus for name, text in one.amounts.items()}
        return full_for(pod.name, pod.taken, devices, own)

    def unbound(self, pod: NativePod) -> str | None:
        """A claim of the pod that has no volume; empty: there is none; None: not known yet."""
        if not pod.volume_claims:
            return ""
        if self.volumes is None:
            return None
        found = (one for one in pod.volume_claims if not self._has_volume(pod.namespace, one))
        return next(found, "")

    def _has_volume(self, namespace: str, claim: str) -> bool:
        return (self.volumes or {}).get(f"{namespace}/{claim}", False)

    def hear(self, news: Heard) -> set[str]:
        """Take it in; the groups that it changes. Waits for quotas or volumes are timed."""
        if isinstance(news, QuotasTold):
            self.quotas = news.quotas
            return set()
        if isinstance(news, VolumeClaimsTold):
            self.volumes = news.bound
            return set()
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
        if before == news.told:
            return set()
        return {news.key} | self.pods.keys_of_members(news.key)
