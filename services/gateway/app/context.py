"""What every handler gets: the parts of the process, and what belongs to the one request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import msgspec
import structlog
from aiohttp import web

from services.gateway.app.backlog import Backlog
from services.gateway.app.committer import Committer, Order, QueueFull
from services.gateway.app.event_hub import EventHub
from services.gateway.app.kubernetes_callers import KubernetesCallers
from services.gateway.app.submission_rows import KnownSubmission
from services.gateway.app.team_access import TeamAccess
from services.gateway.app.told_starts import ToldStarts
from services.gateway.documents.keys import KeyRing
from services.gateway.documents.organisation import OrganisationCache
from services.gateway.http.authorisation import AccessVerdict, Action, Subject, authorise
from services.gateway.http.problems import (
    CONTENT_TYPE,
    Problem,
    forbidden,
    invalid,
    not_found,
    too_many,
)
from services.gateway.http.rate import Rate
from services.gateway.http.read_turns import ReadTurns
from services.gateway.http.route import PAGE_ITEMS, PAGE_ITEMS_MAX, Route
from services.gateway.settings import GatewaySettings
from shared.adapters.no_pod_logs import NoPodLogs
from shared.core.model.decision import FieldError
from shared.core.queueing import SubmissionTimes
from shared.events.written_out import written_out
from shared.ports.clock import Clock
from shared.ports.pod_exec import PodExec
from shared.ports.pod_logs import PodLogs
from shared.ports.reader import Reader

_json: Final = msgspec.json.Encoder()
JSON_HEADERS: Final = {"Content-Type": "application/json"}


@dataclass(slots=True, kw_only=True)
class GatewayContext:
    """The parts of the HTTP process."""

    settings: GatewaySettings
    reader: Reader
    committer: Committer
    keys: KeyRing
    organisation: OrganisationCache
    hub: EventHub
    rate: Rate
    reads: ReadTurns
    backlog: Backlog
    clock: Clock
    random_bytes: Callable[[int], bytes]
    team_access: TeamAccess
    told_starts: ToldStarts = field(default_factory=ToldStarts)
    times: SubmissionTimes = field(default_factory=SubmissionTimes)
    organising: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One document at a time: a commit that is stale costs the session."""
    log: structlog.stdlib.BoundLogger
    prepared: bool = False
    """The operator's key and the default documents are there."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """The committer first; whatever else runs beside the requests."""
    closing: bool = False
    streams: Counter[str] = field(default_factory=Counter)
    """Open streams by the team of their key; "" is the operators'."""
    pod_logs: PodLogs = field(default_factory=NoPodLogs)
    pod_exec: PodExec | None = None
    """None where pods run nothing."""
    kubernetes: KubernetesCallers | None = None
    """None where tokens of the cluster are not taken."""
    cache: dict[Any, tuple[float, Any]] = field(default_factory=dict)

    async def commit(self, order: Order) -> list[KnownSubmission]:
        """Make `order` true; 429 when too much is waiting."""
        try:
            return await self.committer.submit(order)
        except QueueFull as error:
            raise too_many("too many requests are waiting; nothing was accepted") from error


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One authenticated request; `body` is decoded, `text` the caller's key."""

    request: web.Request
    route: Route
    subject: Subject
    text: str = ""
    body: Any = None

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters, the first of each name."""
        return self.request.query

    def part(self, name: str) -> str:
        """A part of the path."""
        return self.request.match_info[name]

    def require(self, team: str | None, what: str = "", action: Action | None = None) -> None:
        """Go on only if the caller may do this to an object of `team`.

        Raises:
            Problem: 404 where the object is another team's, 403 where the role is too weak.
        """
        wanted = action or self.route.action
        assert wanted is not None
        verdict = authorise(self.subject, wanted, team)
        if verdict is AccessVerdict.HIDDEN:
            raise not_found(what or f"team {team}")
        if verdict is AccessVerdict.FORBIDDEN:
            raise forbidden(f"the role {self.subject.role} may not do {wanted}")

    def team_filter(self) -> str | None:
        """The team that a list is about: the caller's own, or what an operator asks for."""
        asked = self.query.get("team")
        if asked:
            self.require(asked)
            return asked
        everything = authorise(self.subject, Action.APPLY_ORGANISATION) is AccessVerdict.ALLOWED
        return None if everything else self.subject.team

    def whole_number(self, name: str, otherwise: int, least: int, most: int) -> int:
        """A query parameter as an integer in range; 400 for anything else."""
        text = self.query.get(name)
        if text is None:
            return otherwise
        rule = f"must be an integer from {least} to {most}"
        if not text.isascii() or not text.isdigit() or len(text) > 19:  # noqa: PLR2004  # digits of 2^63
            bad_parameter(name, text, rule)
        if not least <= int(text) <= most:
            bad_parameter(name, text, rule)
        return int(text)

    def truth(self, name: str) -> bool:
        """A query parameter that is true or false, false if it is not given; 400 for others."""
        text = self.query.get(name, "false")
        if text not in {"true", "false"}:
            bad_parameter(name, text, "must be true or false")
        return text == "true"

    def limit(self) -> int:
        """Items of a page."""
        return self.whole_number("limit", PAGE_ITEMS, 1, PAGE_ITEMS_MAX)


def bad_parameter(name: str, value: str, rule: str) -> NoReturn:
    """400 about one parameter."""
    raise invalid([FieldError(field=name, value=value[:100], rule=rule)])


def answer(
    value: Any,  # noqa: ANN401  # any view
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """`value` as JSON."""
    return web.Response(
        body=_json.encode(written_out(value)),
        status=status,
        headers={**JSON_HEADERS, **(headers or {})},
    )


def problem_answer(problem: Problem) -> web.Response:
    """A problem as `application/problem+json`."""
    headers = {**problem.headers, "Content-Type": CONTENT_TYPE}
    response = web.Response(body=problem.body(), status=problem.status, headers=headers)
    if problem.closes:
        response.force_close()
    return response


def href_of(workload_id: str) -> str:
    """Where a workload is read."""
    return f"/v1/workloads/{workload_id}"
