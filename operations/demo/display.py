"""What people see while the demo runs: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, Final, Self

from operations.replay.tracker import Tracker

ROWS: Final = ("submitted", "rejected", "waiting", "placed", "running", "ended")
LINE_SECONDS: Final = 2.0
BAR_CELLS: Final = 40


class Display:
    """Shows counts and GPUs used, from when it is entered."""

    def __init__(self, tracker: Tracker, total_gpu_milli: int) -> None:
        self._tracker = tracker
        self._total = total_gpu_milli
        self._started = time.monotonic()
        self._told_at = 0.0
        self._live: Any = None
        self.peak_gpu_milli = 0

    def __enter__(self) -> Self:
        """Take over the terminal, if there is one."""
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(self._table(), refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last table standing."""
        if self._live is not None:
            self._live.update(self._table())
            self._live.stop()

    def show(self) -> None:
        """Draw what is known now; cheap enough to call often."""
        now = time.monotonic()
        pause = 0.15 if self._live is not None else LINE_SECONDS
        if now - self._told_at < pause:
            return
        self._told_at = now
        self.peak_gpu_milli = max(self.peak_gpu_milli, gpu_milli_used(self._tracker))
        if self._live is not None:
            self._live.update(self._table())
            return
        counts = self._counts()
        words = [f"{counts[name]} {name}" for name in ROWS]
        print(f"{now - self._started:5.1f} s  " + ", ".join(words) + f", {self._gpus()}")

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = dict(self._tracker.counts())
        counts["placed"] = counts.get("placed", 0) - self._ended_after_placed()
        fates = self._tracker.fates.values()
        counts["submitted"] = sum(fate.submitted_at_ms > 0 or fate.rejected for fate in fates)
        return {name: counts.get(name, 0) for name in ROWS}

    def _ended_after_placed(self) -> int:
        fates = self._tracker.fates.values()
        return sum(fate.placed and (fate.ended or fate.running) for fate in fates)

    def _gpus(self) -> str:
        used = gpu_milli_used(self._tracker)
        return f"{used / 1000:,.0f} of {self._total / 1000:,.0f} GPUs"

    def _table(self) -> Any:  # noqa: ANN401  # rich is imported late
        from rich.table import Table

        table = Table(box=None, show_header=False, pad_edge=False)
        for name, count in self._counts().items():
            table.add_row(name, f"{count:>6,}")
        used = gpu_milli_used(self._tracker)
        cells = BAR_CELLS * used // max(self._total, 1)
        bar = "\N{FULL BLOCK}" * cells + "\N{LIGHT SHADE}" * (BAR_CELLS - cells)
        table.add_row("GPUs", f"{bar} {self._gpus()}")
        table.add_row("time", f"{time.monotonic() - self._started:.1f} s")
        return table


def gpu_milli_used(tracker: Tracker) -> int:
    """Milli-GPU charged now."""
    fates = tracker.fates.values()
    return sum(fate.gpu_milli for fate in fates if fate.placed and not fate.ended)
