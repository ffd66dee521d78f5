"""`If-Match` and `If-None-Match`: which version of a document is meant."""

from __future__ import annotations

from services.gateway.app.context import RequestContext
from services.gateway.documents.documents import Applied
from services.gateway.http.problems import Problem
from services.gateway.protocol import versions_named


def check_conditions(call: RequestContext, before: Applied | None) -> None:
    """Whether the document is at the version that the caller means.

    Raises:
        Problem: 412 where it is not.
    """
    wanted = call.request.headers.get("If-Match")
    if wanted is not None:
        tags = versions_named(wanted)
        current = f'"{before.version}"' if before else ""
        if before is None or (wanted.strip() != "*" and current not in tags):
            raise Problem(412, "changed", f"the document is at {current or 'no version'}")
    unwanted = call.request.headers.get("If-None-Match")
    if unwanted is not None and before is not None:
        raise Problem(412, "exists", f'the document exists at "{before.version}"')
