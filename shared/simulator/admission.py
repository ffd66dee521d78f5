"""What the simulated API server refuses to create, in the words of the real one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from shared.core.model.decision import FieldError
from shared.ports.cluster import PodOperation, PodResult

NAME_MAX: Final = 253
_is_subdomain = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character"
)


def refused_by_admission(
    operation: PodOperation, pods: int, quotas: Mapping[str, int]
) -> PodResult | None:
    """422 or 403, or None; the namespace has so many pods that have not ended."""
    pod, name = operation.pod, operation.name
    if pod is None or pod.name != name or pod.namespace != operation.namespace:
        return _invalid("metadata.name", name, "must be the name and namespace of the request")
    if len(name) > NAME_MAX or not _is_subdomain.fullmatch(name):
        return _invalid("metadata.name", name, _NAME_RULE)
    most = quotas.get(operation.namespace)
    if most is not None and pods >= most:
        message = (
            f'pods "{name}" is forbidden: exceeded quota: pods, requested: pods=1,'
            f" used: pods={pods}, limited: pods={most}"
        )
        return PodResult(status=403, reason="Forbidden", message=message)
    return None


def _invalid(field: str, value: str, rule: str) -> PodResult:
    message = f'Pod "{value}" is invalid: {field}: Invalid value: "{value}": {rule}'
    error = FieldError(field=field, value=value, rule=rule)
    return PodResult(status=422, reason="Invalid", message=message, errors=(error,))
