"""`python -m services.notifications`."""

from __future__ import annotations

from services.notifications.courier import DeliveryPace
from services.notifications.handler import NotificationsHandler
from services.notifications.secrets import SecretFiles
from services.notifications.settings import NotificationSettings
from shared.adapters.clock import SystemClock
from shared.adapters.webhooks import HttpWebhooks, SystemNames
from shared.core.notifications.addresses import networks_of
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> NotificationsHandler:
    """The handler of this process."""
    own = NotificationSettings()
    networks, names = networks_of(own.notification_networks), SystemNames()
    return NotificationsHandler(
        connect=lambda: HttpWebhooks(names, networks, own.notification_timeout_seconds),
        secrets=SecretFiles(own.notification_secrets),
        clock=SystemClock(),
        pace=DeliveryPace(
            first_retry_seconds=own.notification_first_retry_seconds,
            last_retry_seconds=own.notification_last_retry_seconds,
            keep_seconds=own.notification_keep_seconds,
        ),
        waiting_max=own.notification_waiting_max,
        cell=settings.cell,
    )


if __name__ == "__main__":
    run_service(make)
