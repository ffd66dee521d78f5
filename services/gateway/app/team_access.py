"""What a team needs on the broker: two topics, one user, and grants and a quota for just that.

A second login does it (`kafka_admin_user`), which can change rules but has no right to write any
event; the login that publishes the gateway's events can change no rule (docs/adr/0020). Without
that second login the broker's users are kept outside Muster, and only the topics are made here.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Final

from pydantic import SecretStr

from services.gateway.documents.key_views import KafkaUserView
from services.gateway.settings import GatewaySettings
from shared.adapters.kafka.administration import admit_team, dismiss_team, set_passwords
from shared.adapters.kafka.client import MECHANISM
from shared.adapters.kafka.quotas import NO_QUOTA, set_quotas
from shared.adapters.kafka.topic_sizes import limit_topics
from shared.adapters.kafka.topics import create_topics
from shared.events.grants import principal_of_team
from shared.events.topics import Topic, team_results, team_submissions
from shared.ports.kafka_access import UserQuota

PASSWORD_BYTES: Final = 24


class TeamAccess:
    """Every call is idempotent, and raises Transient when the broker is away or refuses."""

    def __init__(self, settings: GatewaySettings, random_bytes: Callable[[int], bytes]) -> None:
        self._access = settings.kafka_admin
        self._prefix = settings.topic_prefix
        self._copies = settings.topic_copies
        self._random_bytes = random_bytes
        self._quota = settings.team_quota
        self._topic_bytes_max = settings.team_topic_bytes_max
        self.keeps_users = bool(settings.kafka_admin_user)
        self._changes_topics = self.keeps_users or not self._access.protocol.has_user

    async def prepare(self, team: str) -> None:
        """Topics, grants and quota; what is written to the topics from now on is read."""
        await create_topics(
            self._access,
            self._prefix,
            _topics(team),
            copies=self._copies,
            bytes_max=self._topic_bytes_max,
        )
        if self.keeps_users:
            await admit_team(self._access, team, self._prefix)
            await set_quotas(self._access, self._quotas((team,)))

    async def restore(self, teams: Sequence[str]) -> Sequence[str]:
        """Make the topics of teams that have none any more, with their grants and quotas.

        The names of these teams. A user of theirs that is gone, too, needs another password.
        """
        if not teams or not self._changes_topics:
            return ()
        made = await create_topics(
            self._access,
            self._prefix,
            [topic for team in teams for topic in _topics(team)],
            copies=self._copies,
            bytes_max=self._topic_bytes_max,
        )
        again = [team for team in teams if made & {topic.name for topic in _topics(team)}]
        if self.keeps_users:
            for team in again:
                await admit_team(self._access, team, self._prefix)
            await set_quotas(self._access, self._quotas(again))
        return again

    async def limit(self, teams: Sequence[str]) -> None:
        """Give teams that have their topics and users the sizes and quotas of today."""
        if self.keeps_users:
            await set_quotas(self._access, self._quotas(teams))
        if self._changes_topics:
            topics = [topic for team in teams for topic in _topics(team)]
            await limit_topics(self._access, self._prefix, topics, self._topic_bytes_max)

    def _quotas(self, teams: Sequence[str]) -> dict[str, UserQuota]:
        return {principal_of_team(team, self._prefix): self._quota for team in teams}

    async def new_password(self, team: str) -> KafkaUserView:
        """Make the team's user, or give it another password; the view is the only copy."""
        user = principal_of_team(team, self._prefix)
        secret = base64.urlsafe_b64encode(self._random_bytes(PASSWORD_BYTES)).decode()
        await set_passwords(self._access, {user: SecretStr(secret)})
        return KafkaUserView(
            bootstrap=self._access.bootstrap,
            security_protocol=self._access.protocol.value,
            mechanism=MECHANISM,
            user=user,
            password=secret,
            submissions_topic=team_submissions(team).on_broker(self._prefix),
            results_topic=team_results(team).on_broker(self._prefix),
            consumer_group=user,
        )

    async def withdraw(self, team: str) -> None:
        """Take user, grants and quota away; the topics stay with what is in them."""
        if self.keeps_users:
            await dismiss_team(self._access, team, self._prefix)
            user = principal_of_team(team, self._prefix)
            await set_quotas(self._access, {user: NO_QUOTA})


def _topics(team: str) -> tuple[Topic, Topic]:
    return team_submissions(team), team_results(team)
