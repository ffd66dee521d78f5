"""Reads reasons as any version has recorded them.

Older versions told a pod's own reason, which is free text, in place of the code. Their messages in
the log and their rows stay as they are, and are told apart whenever one is read (ADR 71).
"""

from __future__ import annotations

from typing import Final

from shared.core.admission.errors import shown
from shared.core.admission.form import is_pod_reason
from shared.core.model.reason import Reason

_CODES: Final = frozenset(Reason)


def recorded(reason: str, pod_reason: str = "") -> tuple[Reason, str]:
    """Code and the pod's own reason, bounded and printable, of what any version has recorded.

    What is no code of this version is a pod's own reason, which an older one told of work that
    failed; where it is not written like one, it is a code of a newer version.
    """
    if reason in _CODES:
        return Reason(reason), pod_reason
    code = Reason.FAILED if is_pod_reason(reason) else Reason.UNKNOWN
    return code, pod_reason or shown(reason)
