"""Sends the documents of `muster submit`: many at once, one by one where some are refused."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from muster.cli.documents import Document
from muster.cli.failures import Exit, UsageError, exit_code_of, show
from muster.cli.output import note
from muster.errors import FieldError, MusterError, NotAuthorised, Rejected

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
BATCH_MAX: Final = 100
"""Documents of one request."""
TOLD_MAX: Final = 3
"""Documents with the same error that are told one by one."""

KEY_CHARACTERS_MAX: Final = 200
_KEY: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
"""As the gateway takes it; blanks at the ends of a header are lost on the way."""


@dataclass(slots=True)
class Submitted:
    """What was answered so far, and the exit code."""

    answers: list[Json] = field(default_factory=list)
    worst: Exit = Exit.OK


class Sender:
    """Submits documents in order; a refused one is told, and the others go on."""

    def __init__(
        self,
        client: AsyncClient,
        submitted: Submitted,
        *,
        dry_run: bool,
        team: str,
        telling: bool,
    ) -> None:
        self._client = client
        self._submitted = submitted
        self._dry_run = dry_run
        self._team = team
        self._telling = telling
        self._refused: Counter[tuple[str, ...]] = Counter()
        self._in_doubt = False

    async def send(self, documents: Sequence[Document], keys: Sequence[str], key: str) -> None:
        """All of them, each with its idempotency key, made of `key`.

        Whatever ends it before its end, it is told how to send the rest and nothing twice.
        """
        keyed = list(zip(documents, keys, strict=True))
        size = 1 if self._dry_run or len(documents) == 1 else BATCH_MAX
        self._telling = not self._dry_run and (self._telling or len(documents) > BATCH_MAX)
        self._in_doubt = not self._dry_run
        try:
            for first in range(0, len(keyed), size):
                part = keyed[first : first + size]
                if not (size > 1 and await self._at_once(part)) and not await self._each(part):
                    break
            else:
                self._in_doubt = False
        finally:
            self._tell_the_rest()
            if self._in_doubt:
                again = f"--idempotency-key {shlex.quote(key)}"
                note(f"Run again with {again}: nothing is submitted twice.")

    async def _at_once(self, part: Sequence[tuple[Document, str]]) -> bool:
        """In one request; false without an answer: each for itself, by its key, tells why."""
        items = [{"idempotency_key": key, "spec": one.body} for one, key in part]
        try:
            answers = await self._client.submit_batch(items, team=self._team)
        except MusterError:
            return False
        for (document, _), answer in zip(part, answers, strict=True):
            if answer.get("state") == "conflicted":
                detail = f"the same idempotency key made workload {answer['id']} of another body"
                self._refuse(document, Rejected(detail))
            else:
                self._accept(document, answer)
        return True

    async def _each(self, part: Sequence[tuple[Document, str]]) -> bool:
        """One after the other; false when there is no use in going on."""
        for document, key in part:
            try:
                answer = await self._client.submit(
                    document.body, idempotency_key=key, dry_run=self._dry_run, team=self._team
                )
            except Rejected as error:
                self._refuse(document, error)
                continue
            except MusterError as error:
                self._refuse(document, error)
                denied = isinstance(error, NotAuthorised) and not self._submitted.answers
                self._in_doubt = self._in_doubt and not denied
                return False
            if answer.get("valid") is False:
                self._refuse(document, refusal_of(answer))
            self._accept(document, answer)
        return True

    def _accept(self, document: Document, answer: Json) -> None:
        accepted = {"id": "-", "name": document.body.get("name", ""), **answer}
        self._submitted.answers.append(accepted)
        if answer.get("replayed"):
            now = f"already submitted, now {accepted['state']}"
            note(f"{accepted['id']}  {accepted['name']}  {now}")
        elif self._telling:
            note(f"{accepted['id']}  {accepted['name']}  accepted")

    def _refuse(self, document: Document, error: MusterError) -> None:
        self._submitted.worst = max(self._submitted.worst, exit_code_of(error))
        kind = (str(error), *(f"{one.field}: {one.rule}" for one in error.errors))
        self._refused[kind] += 1
        if self._refused[kind] <= TOLD_MAX:
            note(f"{document.title}:")
            show(error)

    def _tell_the_rest(self) -> None:
        for kind, count in self._refused.items():
            if count > TOLD_MAX:
                note(f"The same of {count - TOLD_MAX} more documents: {kind[-1]}")


def refusal_of(answer: Json) -> Rejected:
    """What a dry run found wrong, as the error that the submission would give."""
    errors = tuple(FieldError(**one) for one in answer.get("errors", ()))
    return Rejected("it would be rejected", errors=errors)


def keys_of(documents: Sequence[Document], key: str) -> list[str]:
    """One key for each document: `key`, numbered if they are several.

    Raises:
        UsageError: it cannot be a key; an empty one least of all, as nothing is the same by it.
    """
    several = len(documents) > 1
    keys = [f"{key}-{number}" for number in range(1, len(documents) + 1)] if several else [key]
    if not _KEY.fullmatch(key) or len(keys[-1]) > KEY_CHARACTERS_MAX:
        rule = f"must be 1 to {KEY_CHARACTERS_MAX} printable ASCII characters, no blank at an end"
        numbered = ", with its number" if several else ""
        raise UsageError(f"--idempotency-key {rule}{numbered} (given: {key!r})")
    return keys
