"""The placement service as a process."""

from services.placement.handlers import PlacementHandler
from services.placement.nodes.device_health import HealthPolicy
from services.placement.nodes.health_rules import read_overrides
from services.placement.settings import PlacementSettings
from services.placement.state.retention import placement_trims
from shared.core.health.breaker import BreakerLimits
from shared.core.health.ladder import LadderLimits
from shared.core.nodes.shunning import ShunPolicy
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> PlacementHandler:
    """The handler of this process."""
    own = PlacementSettings()
    return PlacementHandler(
        cell=settings.cell,
        seed=settings.seed,
        trims=placement_trims(settings.keep_workloads_days),
        mig_switch_seconds=settings.mig_switch_seconds,
        head_after_hours=own.head_after_hours,
        start_seconds=own.start_seconds,
        silent_seconds=own.silent_seconds,
        shun=ShunPolicy(
            seconds=own.shun_seconds,
            seconds_max=own.shun_seconds_max,
            percent_max=own.shun_percent_max,
        ),
        health=HealthPolicy(
            acts=own.health_mode == "act",
            breaker=BreakerLimits(percent_max=own.health_breaker_percent),
            overrides=read_overrides(own.health_rules_file),
            limits=LadderLimits(probation_ms=1000 * own.health_probation_seconds),
        ),
    )


if __name__ == "__main__":
    run_service(make)
