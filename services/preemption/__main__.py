"""`python -m services.preemption`."""

from services.preemption.handler import PreemptionHandler
from services.preemption.settings import PreemptionSettings
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> PreemptionHandler:
    """The handler of this process."""
    own = PreemptionSettings()
    return PreemptionHandler(
        cell=settings.cell, seed=settings.seed, moves_per_hour=own.moves_per_hour
    )


if __name__ == "__main__":
    run_service(make)
