"""The quota service as a process."""

from services.quota.handler import QuotaHandler
from services.quota.settings import HOUR_MS, QuotaSettings
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> QuotaHandler:
    """The handler of this process."""
    half_life_ms = QuotaSettings().usage_half_life_hours * HOUR_MS
    return QuotaHandler(cell=settings.cell, half_life_ms=half_life_ms)


if __name__ == "__main__":
    run_service(make)
