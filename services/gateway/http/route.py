"""What a route is, and the query parameters and headers that routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from services.gateway.http.authorisation import Action
from services.gateway.http.bodies import BODY_BYTES_MAX, Further
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadKind
from shared.events.strict import INTEGER_MAX, PRINTABLE

NAME_LENGTH_MAX: Final = 253
"""Of a part of the path, and of a parameter that says nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter or header; all are optional text with a bound."""

    name: str
    text: str
    place: str = "query"
    kind: str = "string"
    length_max: int = NAME_LENGTH_MAX
    pattern: str = PRINTABLE
    choices: tuple[str, ...] = ()
    rule: str = ""
    """What is told of a value that is none of `choices`, or not like `pattern`."""
    least: int = 0
    most: int = INTEGER_MAX
    otherwise: int | None = None
    """What holds where an integer is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row. `name` picks the handler; `action` None is open to all callers."""

    method: str
    path: str
    name: str
    summary: str
    action: Action | None
    request: Any = None
    answers: tuple[tuple[int, Any], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    text: str = ""
    """What the answer is, where it is plain text and no view."""
    text_type: str = "text/plain"
    """Content type of `text`."""
    further: Further | None = None
    """What else is told of a body that cannot be read."""
    body_bytes_max: int = BODY_BYTES_MAX
    body_optional: bool = False
    content_types: tuple[str, ...] = ("application/json",)
    """Of the body, the usual one first."""
    tokens: int = 1
    """What a read of it costs beside its rows, about milliseconds (`read_cost.py`)."""
    rehearses: bool = False
    """A POST that only reads."""
    streams: bool = False
    """The answer is a stream for `Accept: text/event-stream`."""
    free_form: bool = False
    """The body is handed on as an object: what it may hold, its handler knows."""


MERGE_PATCH: Final = ("application/merge-patch+json", "application/json")
"""Content types of a body that is merged into what there is (RFC 7396)."""
PAGE_ITEMS: Final = 100
PAGE_ITEMS_MAX: Final = 1_000
SEQ_MAX: Final = (1 << 63) - 1
LIMIT: Final = Parameter(
    name="limit",
    kind="integer",
    least=1,
    most=PAGE_ITEMS_MAX,
    otherwise=PAGE_ITEMS,
    text=f"Items of a page, 1 to {PAGE_ITEMS_MAX}; {PAGE_ITEMS} if not said.",
)
CURSOR: Final = Parameter(name="cursor", text="`next_cursor` of the page before.")
TEAM: Final = Parameter(name="team", text="Only of this team.")
FOR_TEAM: Final = Parameter(
    name="team", text="Only for operators: the team to submit for; others submit for their own."
)
AFTER: Final = Parameter(
    name="after", kind="integer", most=SEQ_MAX, text="Only events behind this id."
)
BEFORE: Final = Parameter(
    name="before", kind="integer", most=SEQ_MAX, text="The newest events in front of this id."
)
EVENTS_SINCE: Final = Parameter(
    name="since",
    kind="integer",
    text="Of the newest, or those in front of `before`: from this time on, Unix milliseconds.",
)
NEWEST: Final = Parameter(
    name="newest", kind="boolean", text="The newest events in place of the oldest, in order."
)
LAST_EVENT_ID: Final = Parameter(
    name="Last-Event-ID",
    place="header",
    length_max=19,
    pattern="^[0-9]*$",
    rule="must be the id of an event",
    text="As `after`, from a broken stream.",
)
IDEMPOTENCY_KEY: Final = Parameter(
    name="Idempotency-Key",
    place="header",
    length_max=200,
    pattern="^[ -~]+$",
    rule="must be 1 to 200 printable ASCII characters",
    text="The same key gives the same workload, however often; 1 to 200 printable characters.",
)
SINCE: Final = Parameter(
    name="since", kind="integer", text="Only from this time on, Unix milliseconds."
)
AT: Final = Parameter(
    name="at",
    kind="integer",
    least=1,
    text="A moment in the past, Unix milliseconds: why it was so then.",
)
DRY_RUN: Final = Parameter(
    name="dryRun", kind="boolean", text="Only say what would become of it; change nothing."
)
RANK_MAX: Final = 65_535
"""Of 16 pod sets with 4,096 pods each."""
LINES_MAX: Final = 1_000_000
LOG_SECONDS_MAX: Final = 31_536_000
RANK: Final = Parameter(
    name="rank", kind="integer", most=RANK_MAX, otherwise=0, text="Rank of the pod; 0 if not said."
)
PREVIOUS: Final = Parameter(
    name="previous",
    kind="boolean",
    text="Of the attempt before this one, while its pods are there.",
)
FOLLOW: Final = Parameter(
    name="follow", kind="boolean", text="Wait for its start, and go on until it ends."
)
TAIL: Final = Parameter(
    name="tail", kind="integer", most=LINES_MAX, text="Only so many lines at the end."
)
SINCE_SECONDS: Final = Parameter(
    name="sinceSeconds",
    kind="integer",
    least=1,
    most=LOG_SECONDS_MAX,
    text="Only what was written in so many seconds before now.",
)
_TAG: Final = r'(W/)?"[!#-~]*"'
IF_MATCH: Final = Parameter(
    name="If-Match",
    place="header",
    pattern=rf"^(\*|{_TAG}(, *{_TAG})*)$",
    rule='must be * or ETags in quotes, such as "3"',
    text="ETag of the version that is meant to be replaced.",
)
IF_NONE_MATCH: Final = Parameter(
    name="If-None-Match",
    place="header",
    choices=("*",),
    rule="must be *",
    text="`*`: only create, never replace.",
)
FORCE: Final = Parameter(
    name="force",
    kind="boolean",
    text="Take the protection of a priority class away, though its work can then be evicted.",
)
FILTERS: Final = (
    TEAM,
    Parameter(name="queue", text="Only in this queue."),
    Parameter(
        name="state",
        pattern=f"^((?:{'|'.join(State)})(,|$))*$",
        text="Only in these states, comma-separated.",
    ),
    Parameter(
        name="kind",
        choices=("", *WorkloadKind),
        text=f"Only of this kind: {', '.join(WorkloadKind)}.",
    ),
    Parameter(name="name", text="Only with exactly this name."),
    Parameter(
        name="id",
        text="Only these: ids, or the first characters of ids; up to 100, comma-separated.",
        length_max=2799,
    ),
    Parameter(
        name="label",
        text="`key=value` or `key`; up to 20, comma-separated, must all hold.",
        length_max=2048,
    ),
    LIMIT,
    CURSOR,
)
