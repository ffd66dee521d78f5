"""RFC 9457 problem details: what went wrong, where exactly, and when to try again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from shared.core.model.decision import FieldError
from shared.events.strict_reader import fit_for_utf8

CONTENT_TYPE: Final = "application/problem+json"
PENDING_RETRY_SECONDS: Final = 5
_TITLES: Final = {
    400: "The request is not valid",
    401: "A valid key is needed",
    403: "The key may not do this",
    404: "Not found",
    405: "The route does not know this method",
    408: "The request came in too slowly",
    409: "The state does not allow this",
    412: "The document has changed since",
    413: "The request is too large",
    414: "The address is too long",
    415: "The content type must be application/json",
    422: "The idempotency key was used for another submission",
    431: "A header is too long",
    429: "Too many requests",
    500: "Muster failed",
    503: "Muster cannot answer now",
}


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`application/problem+json`; `errors` names every broken rule with field and value."""

    type: str
    """Stable name of the problem: urn:muster:problem:<name>."""
    title: str
    """The kind of problem, the same for each with this status."""
    status: int
    """The HTTP status."""
    detail: str = ""
    """What is wrong with this request, in one sentence."""
    errors: tuple[FieldError, ...] = ()


class Problem(Exception):  # noqa: N818  # RFC 9457 calls it a problem
    """Ends a request with `status`; `slug` is the stable last part of the type URI.

    With `closes` the connection ends, too, because what is left of the body is not read.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(detail or slug)
        self.status = status
        self.closes = closes
        self.headers = dict(headers or {})
        self.document = ProblemDocument(
            type=f"urn:muster:problem:{slug}",
            title=_TITLES.get(status, "The request failed"),
            status=status,
            detail=fit_for_utf8(detail),
            errors=tuple(_fit_to_send(one) for one in errors),
        )

    def body(self) -> bytes:
        """The JSON of the problem."""
        return msgspec.json.encode(self.document)


def _fit_to_send(error: FieldError) -> FieldError:
    """A caller's bytes that were no UTF-8, as a header may hold, come in as lone surrogates."""
    field, value, rule = map(fit_for_utf8, (error.field, error.value, error.rule))
    return FieldError(field=field, value=value, rule=rule)


def not_found(what: str) -> Problem:
    """404, for what does not exist and for what the caller may not know of."""
    return Problem(404, "not-found", f"{what} does not exist")


def forbidden(detail: str) -> Problem:
    """403: the caller is known, and the role of the caller does not allow it."""
    return Problem(403, "forbidden", detail)


def invalid(errors: Sequence[FieldError], detail: str = "") -> Problem:
    """400 with field, value and rule of everything that is wrong."""
    first = f"{errors[0].field}: {errors[0].rule}" if errors else ""
    return Problem(400, "invalid", detail or first, errors=errors)


def unavailable(detail: str, retry_after_seconds: int = 1) -> Problem:
    """503: the database or the lease is away for a moment."""
    return Problem(503, "unavailable", detail, headers={"Retry-After": str(retry_after_seconds)})


def too_many(detail: str, retry_after_seconds: int = 1) -> Problem:
    """429: nothing was accepted; the same again later is safe."""
    return Problem(
        429, "too-many-requests", detail, headers={"Retry-After": str(retry_after_seconds)}
    )


def too_many_pending(team: str, alive: int, count: int, most: int) -> Problem:
    """429: the team has as many workloads as it may have; nothing was accepted."""
    rule = f"team {team} may have at most {most} workloads that have not ended"
    error = FieldError(field="max_pending", value=str(alive), rule=rule)
    detail = f"too many pending: {alive} have not ended and {count} more came; {rule}"
    headers = {"Retry-After": str(PENDING_RETRY_SECONDS)}
    return Problem(429, "too-many-pending", detail, errors=(error,), headers=headers)
