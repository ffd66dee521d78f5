"""Runs a gateway process with the settings of the environment."""

from __future__ import annotations

import uvloop

from services.gateway.process import run
from services.gateway.settings import GatewaySettings
from shared.runtime.garbage import relax_garbage_collection

if __name__ == "__main__":
    relax_garbage_collection()
    uvloop.run(run(GatewaySettings()))
