"""`muster logs | exec`: what the pods of a workload write, and commands in them."""

from __future__ import annotations

from muster.cli.pods.commands import execute
from muster.cli.pods.logs import logs

__all__ = ["execute", "logs"]
