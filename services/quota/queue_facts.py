"""What waits: what admission queued, and the commands of users that it passed on.

Commands keep a flag of their own, `hold_asked`, beside that of the ledger's facts (`held`),
because the two streams have no order between them. A change of priority is heard as the ledger's
fact alone: a service that read the command too would know another order than placement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from services.quota.memory import Action, QuotaMemory
from shared.core.queueing.nomination import Pending, Phase
from shared.events import workloads
from shared.events.envelope import Received
from shared.events.workloads import Wire


class QueueFacts:
    """Actions for `queue.facts`."""

    def __init__(self, memory: QuotaMemory) -> None:
        self._memory = memory
        self._core = memory.core
        self._records = memory.records

    def actions(self) -> Mapping[type[Wire], Action]:
        """By payload."""
        return {
            workloads.WorkloadQueued: self._queued,
            workloads.CancelWorkload: self._command(self._cancel),
            workloads.HoldWorkload: self._command(self._hold),
            workloads.ReleaseWorkload: self._command(self._release),
        }

    def _queued(self, message: Received, fact: workloads.WorkloadQueued) -> None:  # noqa: ARG002
        identifier = fact.workload.id
        if identifier in self._records.alive:
            return
        early = self._records.take_early(identifier)
        if early is not None and early.gone:
            return
        pending = self._records.add(fact.workload, fact.version)
        if early is not None:
            pending.version, pending.held = early.version, early.held
            if early.priority is not None:
                self._core.reprioritise(pending, early.priority)
        self._memory.enter(pending)

    def _command(self, apply: Callable[[Pending, Any], None]) -> Action:
        """For what is alive; the others have ended, or were never queued."""

        def act(message: Received, command: Any) -> None:  # noqa: ANN401, ARG001  # one of many
            pending = self._records.alive.get(command.workload_id)
            if pending is not None and pending.phase is not Phase.GONE:
                apply(pending, command)
                self._records.touch(pending)

        return act

    def _cancel(self, pending: Pending, command: workloads.CancelWorkload) -> None:  # noqa: ARG002
        pending.cancelled = True
        self._core.leave(pending)

    def _hold(self, pending: Pending, command: workloads.HoldWorkload) -> None:  # noqa: ARG002
        pending.hold_asked = True
        self._core.leave(pending)

    def _release(self, pending: Pending, command: workloads.ReleaseWorkload) -> None:  # noqa: ARG002
        pending.hold_asked = False
        self._memory.enter(pending)
