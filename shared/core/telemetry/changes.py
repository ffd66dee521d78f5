"""What two readings one after the other tell of the health of devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.core.health.events import NO_INSTANCE, WHOLE_NODE, HealthEventKind
from shared.core.model.value import Value
from shared.core.telemetry.metrics import PREFIX, RECOVERY_ACTION
from shared.core.telemetry.readings import Answering, GpuReading, NodeReading

DOUBLE_BIT_ECC: Final = PREFIX + "DEV_ECC_DBE_VOL_TOTAL"
_LEVELS: Final = {
    PREFIX + "DEV_ROW_REMAP_PENDING": HealthEventKind.ROW_REMAP_PENDING,
    PREFIX + "DEV_ROW_REMAP_FAILURE": HealthEventKind.ROW_REMAP_FAILURE,
    RECOVERY_ACTION: HealthEventKind.RECOVERY_ACTION,
}
"""Told when the value is another; what is 0 at first is not told."""
_SILENT: Final = {
    Answering.LOST: HealthEventKind.LOST,
    Answering.UNRESPONSIVE: HealthEventKind.UNRESPONSIVE,
}


class HealthEvent(Value, frozen=True, kw_only=True):
    """What happened to a device, or to all of a node."""

    gpu: int
    """Index of the GPU on its node; -1: the whole node."""
    kind: HealthEventKind
    code: int = 0
    instance: int = NO_INSTANCE
    uuid: str = ""
    detail: str = ""


def changes(before: NodeReading | None, after: NodeReading) -> tuple[HealthEvent, ...]:
    """Events, in order of index; `before` None at the first reading. O(GPUs)."""
    if before is not None and before.driver and before.driver != after.driver:
        return (
            HealthEvent(
                gpu=WHOLE_NODE,
                kind=HealthEventKind.BOOTED,
                detail=f"driver {before.driver} became {after.driver}",
            ),
            *_of_gpus(None, after),
        )
    return tuple(_of_gpus(before, after))


def _of_gpus(before: NodeReading | None, after: NodeReading) -> Iterator[HealthEvent]:
    known = {one.index: one for one in before.gpus} if before is not None else {}
    for gpu in after.gpus:
        was = known.get(gpu.index)
        if was is not None and was.uuid != gpu.uuid:
            was = None
        yield from _of_gpu(was, gpu)


def _of_gpu(was: GpuReading | None, gpu: GpuReading) -> Iterator[HealthEvent]:
    answered = Answering.YES if was is None else was.answering
    if gpu.answering is not answered:
        yield _event(gpu, _SILENT.get(gpu.answering, HealthEventKind.RETURNED), 0)
    if gpu.answering is Answering.YES:
        yield from _of_values(was, gpu)


def _of_values(was: GpuReading | None, gpu: GpuReading) -> Iterator[HealthEvent]:
    """A device that was silent has no values: those told before are told again, which is safe."""
    values = {} if was is None else was.values
    for name, kind in _LEVELS.items():
        value = gpu.values.get(name)
        if value is not None and value != values.get(name, 0):
            yield _event(gpu, kind, int(value))
    errors = gpu.values.get(DOUBLE_BIT_ECC, 0)
    if errors > values.get(DOUBLE_BIT_ECC, 0):
        yield _event(gpu, HealthEventKind.DOUBLE_BIT_ECC, int(errors))


def _event(gpu: GpuReading, kind: HealthEventKind, code: int) -> HealthEvent:
    return HealthEvent(gpu=gpu.index, kind=kind, code=code, uuid=gpu.uuid)
