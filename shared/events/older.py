"""Facts as other versions told them, brought into the form of this one.

Asked only when a message does not decode, so that what is told today costs nothing more.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from shared.core.admission.recorded_reasons import recorded
from shared.events.workloads import Wire, WorkloadFact

_fields: Final = msgspec.json.Decoder(dict[str, Any])


def upcast(kind: type[Wire], value: bytes) -> Wire:
    """A fact about a workload with a `reason` that is a pod's own, or a code that came later.

    Raises:
        msgspec.ValidationError: it breaks its schema in another way.
    """
    fields = _fields.decode(value)
    if not issubclass(kind, WorkloadFact) or not isinstance(fields.get("reason"), str):
        raise msgspec.ValidationError("it is of no older form")
    reason, pod_reason = recorded(fields["reason"], fields.get("pod_reason", ""))
    told = {**fields, "reason": reason.value, "pod_reason": pod_reason}
    return msgspec.convert(told, kind)
