"""What the client raises.

MusterError
├── Unreachable          no answer, or 503 / 429 to the last try
├── NotAuthorised        401, 403
├── NotFound             404
├── Rejected             400, 409, 413, 422: Muster says no, `errors` says why
│   └── Changed          412: another caller applied the document meanwhile
├── ServerError          5xx
└── NotConfigured        no address or key was found
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One broken rule: where, what was given, what is allowed."""

    field: str
    value: str
    rule: str


class MusterError(Exception):
    """Base of all errors of the client; the text is made for people."""

    def __init__(
        self, message: str, *, status: int = 0, errors: tuple[FieldError, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.errors = errors


class Unreachable(MusterError):  # noqa: N818  # says what happened
    """Muster did not answer in time, or asks to come back later."""


class NotAuthorised(MusterError):  # noqa: N818  # says what happened
    """The key is missing, unknown, or may not do this."""


class NotFound(MusterError):  # noqa: N818  # says what happened
    """No such workload or document (or it belongs to another team)."""


class Rejected(MusterError):  # noqa: N818  # says what happened
    """The request is not valid, or the state does not allow it."""


class Changed(Rejected):
    """The document has changed since it was read."""


class ServerError(MusterError):
    """Muster failed."""


class NotConfigured(MusterError):  # noqa: N818  # says what happened
    """No address or key was given or found."""


_BY_STATUS: dict[int, type[MusterError]] = {
    400: Rejected,
    401: NotAuthorised,
    403: NotAuthorised,
    404: NotFound,
    409: Rejected,
    412: Changed,
    413: Rejected,
    422: Rejected,
    429: Unreachable,
    503: Unreachable,
}


def error_of(status: int, document: Any) -> MusterError:  # noqa: ANN401  # any JSON
    """The typed error of a problem document (RFC 9457), or of an answer without one."""
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else MusterError)  # noqa: PLR2004
    if not isinstance(document, dict):
        return kind(f"the server answered {status}", status=status)
    title, detail = document.get("title", f"status {status}"), document.get("detail", "")
    errors = tuple(
        FieldError(
            field=str(one.get("field", "")),
            value=str(one.get("value", "")),
            rule=str(one.get("rule", "")),
        )
        for one in document.get("errors", ())
    )
    return kind(f"{title}: {detail}" if detail else str(title), status=status, errors=errors)
