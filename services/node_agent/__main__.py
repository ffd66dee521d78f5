"""`python -m services.node_agent`."""

from __future__ import annotations

import uvloop

from services.node_agent.agent import run_agent

if __name__ == "__main__":
    uvloop.run(run_agent())
