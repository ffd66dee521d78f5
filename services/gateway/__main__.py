"""Runs a gateway process with the settings of the environment."""

from __future__ import annotations

from services.gateway.process import run
from services.gateway.settings import GatewaySettings
from shared.runtime.main import run_until_over

if __name__ == "__main__":
    run_until_over(run(GatewaySettings()))
