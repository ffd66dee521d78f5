"""`muster logs`: what the pods of a workload have written."""

from __future__ import annotations

from muster.cli.pods.logs import logs

__all__ = ["logs"]
