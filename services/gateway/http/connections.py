"""Which connections stay open when there are too many, or when they send nothing.

A connection waits for a head (from its opening, or from the first byte of a further request),
has a request in hand, or is idle until the next request. The number is limited, for all and for
each peer. At the limit of all, the connection that has been longest without a request in hand is
closed for the new one, so sockets that send nothing keep no client out.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Generic, TypeVar

HEAD_SECONDS: Final = 10.0
"""In which the head of a request must be complete."""
UNREAD_SECONDS: Final = 30.0
"""In which a client must take of an answer what lets more be written."""
IPV6_HOST_BITS: Final = 64
"""One host has all addresses of a network of this size."""
PEERS_REMEMBERED: Final = 4_096
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
C = TypeVar("C")


class Closed(StrEnum):
    """Why the gateway refused or closed a connection."""

    FULL = "full"
    PEER_SHARE = "peer-share"
    IDLE = "idle"
    SLOW_HEAD = "slow-head"
    SLOW_READER = "slow-reader"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections may be open; peers in `shared` networks have no share of their own."""

    most: int
    of_peer: int
    shared: tuple[Network, ...] = ()

    def peer_of(self, address: str) -> str:
        """The peer that a connection counts for; "" for an address in `shared`."""
        return _peer_of(address, self.shared)


def networks_of(text: str) -> tuple[Network, ...]:
    """Addresses and networks, comma-separated; ValueError for anything else."""
    names = (one.strip() for one in text.split(","))
    return tuple(ipaddress.ip_network(one) for one in names if one)


@lru_cache(PEERS_REMEMBERED)
def _peer_of(text: str, shared: Sequence[Network]) -> str:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if any(address in network for network in shared):
        return ""
    if address.version == 4:  # noqa: PLR2004  # IPv4
        return str(address)
    return str(ipaddress.ip_network((address, IPV6_HOST_BITS), strict=False))


class Connections(Generic[C]):
    """The open connections and their peers; every call takes constant time.

    `now_seconds` is always of one clock that only goes forward: the dictionaries are in the order
    of their times.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._peers: dict[C, str] = {}
        self._of_peer: Counter[str] = Counter()
        self._heads: dict[C, float] = {}
        """Connections that wait for a head, with the time since when."""
        self._idle: dict[C, float] = {}
        self._unread: dict[C, float] = {}
        """Connections whose client takes nothing of an answer, with the time since when."""

    def __len__(self) -> int:
        return len(self._peers)

    def refusal(self, address: str) -> Closed | None:
        """Why no connection from `address` can be had now; None if it can be had."""
        peer = self.limits.peer_of(address)
        if peer and self._of_peer[peer] >= self.limits.of_peer:
            return Closed.PEER_SHARE
        full = len(self) >= self.limits.most and not (self._heads or self._idle)
        return Closed.FULL if full else None

    def surplus(self) -> C | None:
        """What must be closed for the next one: the longest without a request in hand."""
        if len(self) < self.limits.most:
            return None
        oldest = [next(iter(one.items()), None) for one in (self._heads, self._idle)]
        return min((one for one in oldest if one), key=lambda one: one[1], default=(None, 0))[0]

    def opened(self, connection: C, address: str, now_seconds: float) -> None:
        """A connection is open, and its first head is waited for."""
        peer = self.limits.peer_of(address)
        self._peers[connection] = peer
        self._of_peer[peer] += 1
        self._heads[connection] = now_seconds

    def head_began(self, connection: C, now_seconds: float) -> None:
        """Bytes have come that are no whole head yet; the time counts from the first of them."""
        self._idle.pop(connection, None)
        if connection in self._peers:
            self._heads.setdefault(connection, now_seconds)

    def request_came(self, connection: C) -> None:
        """A head is complete."""
        self._heads.pop(connection, None)
        self._idle.pop(connection, None)

    def request_ended(self, connection: C, now_seconds: float) -> None:
        """All is answered that has come so far."""
        if connection in self._peers:
            self._idle[connection] = now_seconds

    def unread(self, connection: C, now_seconds: float) -> None:
        """The client takes less than is written."""
        if connection in self._peers:
            self._unread[connection] = now_seconds

    def taken(self, connection: C) -> None:
        """The client has taken enough for more to be written."""
        self._unread.pop(connection, None)

    def closed(self, connection: C) -> None:
        """It counts no more; harmless for one that is not known."""
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        self._of_peer[peer] -= 1
        if not self._of_peer[peer]:
            del self._of_peer[peer]
        for times in (self._heads, self._idle, self._unread):
            times.pop(connection, None)

    def overdue(self, now_seconds: float) -> Iterator[tuple[C, Closed]]:
        """Connections whose head is not complete, or whose answer is not taken, in time."""
        for times, most, reason in (
            (self._heads, HEAD_SECONDS, Closed.SLOW_HEAD),
            (self._unread, UNREAD_SECONDS, Closed.SLOW_READER),
        ):
            late = itertools.takewhile(lambda one: now_seconds - one[1] >= most, times.items())  # noqa: B023  # used at once
            yield from [(connection, reason) for connection, _ in late]
