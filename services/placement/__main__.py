"""The placement service as a process."""

from services.placement.handlers import PlacementHandler
from services.placement.trims import placement_trims
from shared.runtime.main import run_service

if __name__ == "__main__":
    run_service(
        lambda settings: PlacementHandler(
            cell=settings.cell,
            seed=settings.seed,
            trims=placement_trims(settings.keep_workloads_days),
        )
    )
