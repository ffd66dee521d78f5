"""Quotas and claims of volumes as the API server has them."""

from typing import Any

import msgspec
import pytest

from shared.adapters.kubernetes.native.objects import NativePodObject
from shared.adapters.kubernetes.native.reading import read_native_pod
from shared.adapters.kubernetes.native.surroundings import QuotaObject, TellingAll, read_quota
from shared.core.kubernetes.namespace_quota import NamespaceQuota

METADATA: dict[str, Any] = {"name": "gpus", "namespace": "red"}
STATUS: dict[str, Any] = {"hard": {"pods": "4"}, "used": {"pods": "1"}}


def test_a_quota_is_read_by_its_status():
    found = msgspec.convert({"metadata": METADATA, "status": STATUS}, QuotaObject)

    assert NamespaceQuota(**METADATA, **STATUS) == read_quota(found)


@pytest.mark.parametrize("spec", [{"scopes": ["BestEffort"]}, {"scopeSelector": {"a": 1}}])
def test_a_quota_of_some_pods_alone_is_not_judged(spec):
    found = msgspec.convert({"metadata": METADATA, "spec": spec, "status": STATUS}, QuotaObject)

    assert None is read_quota(found)


def test_all_of_a_kind_are_told_after_each_change():
    told: list[dict[str, int]] = []
    telling: TellingAll[int] = TellingAll(lambda items: told.append(dict(items)))

    telling.listed({"a": 1, "b": 2}, 1)
    telling.changed("a", None, 2)
    telling.changed("gone", None, 3)
    telling.interrupted("503")
    telling.changed("c", 3, 4)

    assert [{"a": 1, "b": 2}, {"b": 2}, {"b": 2}, {"b": 2, "c": 3}] == told


def test_claims_of_volumes_are_read_also_of_those_that_come_with_the_pod():
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "config", "configMap": {"name": "x"}},
    ]
    pod = {"metadata": {"name": "p", "namespace": "red"}, "spec": {"volumes": volumes}}

    found = read_native_pod(msgspec.convert(pod, NativePodObject))

    assert found is not None
    assert ("c", "p-scratch") == found.volume_claims
