"""`muster run`: submit one command, say why it waits, and end as it ends."""

from __future__ import annotations

from muster.cli.running.command import run

__all__ = ["run"]
