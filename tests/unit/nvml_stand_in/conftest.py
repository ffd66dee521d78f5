"""The stand-in of NVML with a process that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.nvml import StandIn
from tests.support.nvml.asked import AskedNvml

Opened = Callable[[Mapping[str, object]], AbstractContextManager[tuple[StandIn, AskedNvml]]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Boards, and a process that has initialised NVML and calls GPU 0 `h`, GPU 1 `g`."""

    @contextmanager
    def begin(state: Mapping[str, object]) -> Iterator[tuple[StandIn, AskedNvml]]:
        stand_in = StandIn(tmp_path, state)
        asked = AskedNvml(stand_in.environment)
        try:
            assert asked("nvmlInit()") is None
            asked("(h := nvmlDeviceGetHandleByIndex(0)) and None")
            asked("(g := told(nvmlDeviceGetHandleByIndex, 1)) and None")
            yield stand_in, asked
        finally:
            asked.end()

    return begin
