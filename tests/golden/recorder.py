"""Digests every unit of work that the handlers would commit while a history is played."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from services.admission.handler import AdmissionHandler
from services.placement.handlers import PlacementHandler
from services.preemption.handler import PreemptionHandler
from services.quota.handler import QuotaHandler
from shared.events.envelope import Received
from shared.runtime.assemble import Counters, assemble
from shared.runtime.handler import Outcome

HANDLERS: tuple[type[Any], ...] = (
    QuotaHandler,
    PlacementHandler,
    PreemptionHandler,
    AdmissionHandler,
)
FIRST = Counters(next_seq=1, next_unit=1, next_audit=1, last_digest=b"")


class Recorder:
    """One digest over the units of all handlers, in the order of their decisions."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._counters: dict[int, Counters] = {}
        self.units = 0

    def hexdigest(self) -> str:
        """The first 16 digits."""
        return self._digest.hexdigest()[:16]

    def take(
        self, handler: Any, messages: Sequence[Received], outcome: Outcome, now_ms: int
    ) -> None:
        """Add what `handler` decided."""
        counters = self._counters.get(id(handler), FIRST)
        unit = assemble(handler.name, counters, outcome, consumed=messages, dead=(), now_ms=now_ms)
        self._counters[id(handler)] = counters.after(unit)
        refused = [(one.event.id, error) for one, error in outcome.dead]
        told = (handler.name, unit.number, unit.outbox, unit.audits, unit.writes, refused)
        self._digest.update(msgspec.json.encode(told, enc_hook=repr))
        self.units += 1


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record every decision of the four handlers in this block."""
    recorder = Recorder()
    with ExitStack() as stack:
        for kind in HANDLERS:
            stack.enter_context(patch.object(kind, "decide", _recorded(kind.decide, recorder)))
        yield recorder


def _recorded(decide: Callable[..., Outcome], recorder: Recorder) -> Callable[..., Outcome]:
    def decided(handler: Any, messages: Sequence[Received], now_ms: int) -> Outcome:
        outcome = decide(handler, messages, now_ms)
        recorder.take(handler, messages, outcome, now_ms)
        return outcome

    return decided
