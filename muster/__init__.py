"""Muster for users: the Python client and the `muster` command line. HTTP only.

    from muster import Client

    with Client() as client:
        accepted = client.submit({"name": "train", "kind": "training", ...})
        print(client.wait(accepted["id"])["state"])

`AsyncClient` has the same methods as coroutines. Address and key are found as the command line
finds them (muster.configuration).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client import AsyncClient
    from muster.synchronous import Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a lazy export, so that `--help` stays fast
    if name == "AsyncClient":
        from muster.client import AsyncClient

        return AsyncClient
    if name == "Client":
        from muster.synchronous import Client

        return Client
    raise AttributeError(name)
