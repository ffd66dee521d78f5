"""Rules of a document of kind Notification; which addresses it may name is the core's to say."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from shared.core.model.decision import FieldError
from shared.core.notifications.addresses import Network, problem_of_url
from shared.core.notifications.events import FORMATS, KINDS, SEVERITIES
from shared.events.organisation import NotificationApplied

DESTINATIONS_MAX: Final = 200
"""Each is a label of metrics, and has a task of its own."""
DIGEST_SECONDS_MAX: Final = 86_400
SECRET: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
NAME_ONLY_RULE: Final = "must be the name of a secret (a-z, 0-9 and '-'), never the secret itself"


def notification_problems(
    document: NotificationApplied, teams: Collection[str], networks: Sequence[Network]
) -> list[FieldError]:
    """Every broken rule."""
    errors = _form_errors(document) + _secret_errors(document)
    if bool(document.url) == bool(document.url_from):
        errors.append(_error("url", _shown(document.url), "give either url or url_from"))
    elif document.url:
        problem = problem_of_url(document.url, networks)
        errors += [_error("url", _shown(document.url), problem)] if problem else []
    if document.team and document.team not in teams:
        errors.append(_error("team", document.team, "is not a team; apply it first"))
    return errors


def _form_errors(document: NotificationApplied) -> list[FieldError]:
    errors = []
    for name, value, known in (
        ("format", document.format, FORMATS),
        ("min_severity", document.min_severity, SEVERITIES),
    ):
        if value not in known:
            errors.append(_error(name, value, f"must be one of {', '.join(sorted(known))}"))
    for index, kind in enumerate(document.events):
        if kind not in KINDS:
            rule = f"must be one of {', '.join(sorted(KINDS))}"
            errors.append(_error(f"events[{index}]", kind, rule))
    if not 0 <= document.digest_seconds <= DIGEST_SECONDS_MAX:
        rule = f"must be 0 to {DIGEST_SECONDS_MAX}"
        errors.append(_error("digest_seconds", str(document.digest_seconds), rule))
    return errors


def _secret_errors(document: NotificationApplied) -> list[FieldError]:
    """A secret that was written here by mistake is not repeated."""
    errors = [
        _error(name, "(not shown)", NAME_ONLY_RULE)
        for name, value in (("secret", document.secret), ("url_from", document.url_from))
        if value and not SECRET.fullmatch(value)
    ]
    if document.format == "webhook" and not document.secret:
        errors.append(_error("secret", "", "a webhook is signed; name a secret"))
    return errors


def _shown(url: str) -> str:
    """A URL without what stands before the host: it may be a password."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}{found}{rest.rpartition('@')[2]}"


def _error(path: str, value: str, rule: str) -> FieldError:
    return FieldError(field=path, value=value, rule=rule)
