"""Later commands about accepted workloads: passed on behind the verdict, in their order."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import structlog

from services.admission import metrics
from services.admission.judge import Judge
from services.admission.known import ACCEPTED, Verdict
from services.admission.memory import AdmissionMemory
from services.admission.teller import VerdictTeller
from shared.core.admission.admit import class_for_team
from shared.events import workloads
from shared.events.envelope import Received
from shared.events.topics import team_of

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("admission")


class Commands:
    """Actions for commands of users and operators."""

    def __init__(self, memory: AdmissionMemory, teller: VerdictTeller, judge: Judge) -> None:
        self._memory = memory
        self._teller = teller
        self._judge = judge

    def commanded(self, message: Received, command: Any) -> None:  # noqa: ANN401  # four alike
        """Pass on what a team may ask for one of its workloads."""
        if self._may_command(message, command) is not None:
            self._teller.emit(command, command.workload_id, message)

    def reprioritise(self, message: Received, command: workloads.ReprioritiseWorkload) -> None:
        """As `commanded`, with the value of the class filled in."""
        verdict = self._may_command(message, command)
        if verdict is None:
            return
        found = class_for_team(
            command.priority_class,
            command.team,
            self._memory.book.rules,
            shares=verdict.on_shares,
        )
        if found is None:  # the gateway has said why, unless the rules changed since
            _drop(command, "priority class is not the team's to use")
            return
        filled = msgspec.structs.replace(command, priority=found.value)
        self._teller.emit(filled, command.workload_id, message)

    def _may_command(self, message: Received, command: Any) -> Verdict | None:  # noqa: ANN401
        """What was decided about its workload, if that takes commands of the team."""
        if team_of(message.topic) is not None:
            self._teller.outcome.dead.append((message, "ce_type: only submissions are taken here"))
            return None
        parked = self._memory.parking.get(command.workload_id)
        if parked is not None:  # a command may not overtake the verdict
            self._judge.judge(parked, message, final=True)
        verdict = self._memory.known.get(command.workload_id)
        if verdict is None:
            _drop(command, "unknown workload")
        elif verdict.team != command.team:
            _drop(command, "another team's workload")
        elif verdict.state != ACCEPTED:
            _drop(command, "rejected workload")
        else:
            return verdict
        return None


def _drop(command: Any, reason: str) -> None:  # noqa: ANN401
    metrics.DROPPED.labels(reason).inc()
    _log.warning(
        "command dropped",
        command=type(command).__name__,
        workload=command.workload_id[:64],
        reason=reason,
    )
