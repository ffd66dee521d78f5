"""Callers with a bearer token of the cluster: its TokenReview names the user, documents the role.

An answer is trusted for `FRESH_SECONDS`, and the API server itself knows a token for up to 10 s.
Within both a token that ends is refused, and so is one of a user that loses its group. Tokens are
kept as digests. Tokens that were never good cost the cluster a request each: an address may have
`TRIES_PER_SECOND` of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Final

from services.gateway.documents.organisation import OrganisationCache
from services.gateway.http.authorisation import Subject
from services.gateway.http.kubernetes_subjects import NoTeam, subject_of
from services.gateway.http.problems import forbidden, too_many
from services.gateway.http.rate import Rate
from shared.ports.clock import Clock
from shared.ports.token_reviews import TokenOwner, TokenReviews

FRESH_SECONDS: Final = 5.0
REMEMBERED_MAX: Final = 10_000
TRIES_PER_SECOND: Final = 5
TRIES_BURST_SECONDS: Final = 4.0
REVIEWS_AT_ONCE: Final = 8
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def is_token(text: str) -> bool:
    """Whether it has the form of a token (JWS compact, RFC 7515), which no API key has."""
    return _TOKEN.fullmatch(text) is not None


class KubernetesCallers:
    """Asks about each token once in a while; `operators` as in `subject_of`."""

    def __init__(
        self,
        reviews: TokenReviews,
        organisation: OrganisationCache,
        clock: Clock,
        operators: frozenset[str],
    ) -> None:
        self._reviews = reviews
        self._organisation = organisation
        self._clock = clock
        self._operators = operators
        self._known: dict[bytes, tuple[float, TokenOwner | None]] = {}
        self._tries = Rate(TRIES_PER_SECOND, TRIES_BURST_SECONDS)
        self._turns = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def authenticate(self, token: str, peer: str, team: str) -> Subject | None:
        """The caller with `token` at the address `peer`; None where the cluster refuses it.

        Raises:
            Problem: 403 for a user of no team or of several, 429 for too many unknown tokens.
            Transient: the cluster or the database cannot be asked.
        """
        owner = await self._owner(token, peer)
        if owner is None:
            return None
        teams = (await self._organisation.current()).teams
        try:
            return subject_of(owner, teams, self._operators, team)
        except NoTeam as problem:
            raise forbidden(str(problem)) from problem

    async def close(self) -> None:
        """Close all connections."""
        await self._reviews.close()

    async def _owner(self, token: str, peer: str) -> TokenOwner | None:
        digest = hashlib.sha256(token.encode()).digest()
        reviewed_at, owner = self._known.get(digest, (float("-inf"), None))
        now = self._clock.monotonic_seconds()
        if now - reviewed_at < FRESH_SECONDS:
            return owner
        if owner is None and not self._tries.take(peer, now):
            raise too_many("too many tokens that the cluster does not know come from here")
        async with self._turns:
            owner = await self._reviews.review(token)
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[digest] = now, owner
        return owner
