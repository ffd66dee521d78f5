"""`muster whoami`: the caller that a key stands for, and which Muster answers."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from muster.cli.output import Format, local_time, show_value
from muster.cli.session import call
from muster.cli.tables import printable
from muster.cli.workloads import OutputOption

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]


def whoami(output: OutputOption = Format.TABLE) -> None:
    """Show team, role and label of the key, the address, and both versions.

    Example: muster whoami -o json | jq -r .role
    """

    async def ask(client: AsyncClient) -> Json:
        found = await client.whoami()
        return {"address": client.address, **found, "client_version": version("muster-gpu")}

    found = call(ask)
    if output is Format.NAME:
        print(found["key_prefix"])
    elif output in (Format.JSON, Format.YAML):
        show_value(found, output)
    else:
        _show(found)


def _show(found: Json) -> None:
    expires = found["expires_at_ms"]
    lines = {
        "address": found["address"],
        "team": found["team"] or "none, the key is an operator's",
        "role": found["role"],
        "key": f"{found['key_prefix']}, {found['key_label'] or 'without a label'}",
        "expires": local_time(expires) if expires else "never",
        "server": found["version"],
        "client": found["client_version"],
    }
    for name, text in lines.items():
        print(f"{name:<7}  {printable(text)}")
