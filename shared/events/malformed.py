"""A submission on a team's own topic that cannot be read, as a message of its own.

The record itself goes to the dead letters; this one lets admission answer the team. It is never
on a topic, like a passed deadline.
"""

from __future__ import annotations

from shared.core.model.decision import FieldError
from shared.events.workloads import Wire


class SubmissionMalformed(Wire, frozen=True, kw_only=True):
    """`errors` say which fields are wrong and why, as an answer by HTTP would."""

    errors: tuple[FieldError, ...]
