"""Runs a gateway process with the settings of the environment."""

from __future__ import annotations

import uvloop

from services.gateway.process import run
from services.gateway.settings import GatewaySettings

if __name__ == "__main__":
    uvloop.run(run(GatewaySettings()))
