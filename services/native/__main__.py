"""`python -m services.native`."""

from __future__ import annotations

from services.native.handler import NativeHandler
from services.native.settings import NativeSettings
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.native.notices import KubernetesPodNotices
from shared.adapters.kubernetes.native.source import KubernetesNativePods
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> NativeHandler:
    """The handler of this process."""
    native, kubernetes = NativeSettings(), KubernetesSettings()
    return NativeHandler(
        source=KubernetesNativePods(kubernetes),
        notices=KubernetesPodNotices(kubernetes),
        clock=SystemClock(),
        pool_labels=native.labels_pool,
        gone_ms=round(1000 * native.native_gone_seconds),
        cell=settings.cell,
    )


if __name__ == "__main__":
    run_service(make)
