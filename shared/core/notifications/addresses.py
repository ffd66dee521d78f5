"""Where a webhook may be sent: never into this network, unless an operator names it.

A URL that users write must not reach what only Muster's own machines reach (server-side request
forgery). A name is judged by what it resolves to, at each connection. Addresses
that hold an IPv4 address inside are refused: a translator would reach what is refused directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

Network = IPv4Network | IPv6Network
URL_CHARACTERS_MAX: Final = 2_048
HTTPS_PORT: Final = 443
SETTING: Final = "MUSTER_NOTIFICATION_NETWORKS"
NEVER: Final = tuple(
    ip_network(one)
    for one in (
        "0.0.0.0/8",
        "169.254.0.0/16",  # link-local, and the metadata of most clouds
        "168.63.129.16/32",  # Azure's
        "100.100.100.200/32",  # Alibaba's
        "192.0.0.192/32",  # Oracle's
        "224.0.0.0/3",
        "::/128",
        "::ffff:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "fd00:ec2::254/128",  # Amazon's
        "fd20:ce::254/128",  # Google's
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
"""Not even where an operator names a network around them."""


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks or addresses, comma-separated; raises ValueError."""
    return tuple(ip_network(one.strip()) for one in text.split(",") if one.strip())


def problem_of_address(text: str, allowed: Sequence[Network], *, plain: bool = False) -> str:
    """Why nothing is sent to an address, or ""; `plain`: by http, or on another port than 443."""
    address = ip_address(text.partition("%")[0])
    if any(address in one for one in NEVER):
        return "is an address that nothing is ever sent to"
    if any(address in one for one in allowed):
        return ""
    if not address.is_global or address.is_reserved:
        return f"is not a public address, and {SETTING} does not name it"
    if plain:
        return f"is public: by https on port {HTTPS_PORT} only"
    return ""


def is_plain(url: str) -> bool:
    """Whether a URL that has no problem goes by http, or to another port than 443."""
    parts = urlsplit(url)
    return parts.scheme != "https" or parts.port not in {None, HTTPS_PORT}


def problem_of_url(url: str, allowed: Sequence[Network]) -> str:  # noqa: PLR0911  # a rule each
    """What is wrong with the URL of a receiver, or ""."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for a port that is none
    except ValueError:
        return "must be a URL"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must be printable ASCII without spaces"
    if len(url) > URL_CHARACTERS_MAX:
        return f"must have at most {URL_CHARACTERS_MAX} characters"
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        return "must be https://HOST/PATH"
    if "@" in parts.netloc or "\\" in url:
        return "must have no user info; sign with a secret instead"
    literal = literal_of(parts.hostname)
    if literal is not None:
        return problem_of_address(str(literal), allowed, plain=is_plain(url))
    if is_plain(url) and not allowed:
        return f"must be https on port {HTTPS_PORT}; others only into {SETTING}"
    return ""


def literal_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as, or None."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
