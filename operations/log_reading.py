"""The reader of the whole log at given addresses, for the checker and for what recovers."""

from __future__ import annotations

from operations.check.log import LogReader
from operations.configuration import Addresses
from shared.adapters.kafka.client import login
from shared.adapters.kafka.unpacking import Unpacking


def log_reader(addresses: Addresses) -> LogReader:
    """It unpacks batches within bounds, as teams write some of them."""
    return LogReader(
        bootstrap=addresses.kafka.bootstrap,
        prefix=addresses.prefix,
        login=login(addresses.kafka),
        bounded=Unpacking,
    )
