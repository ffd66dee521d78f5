"""Address and key of Muster: options, environment, the user's file, a local system near by.

The first source that names an address or key wins, separately for each: `--address`/`--key`,
`MUSTER_ADDRESS`/`MUSTER_KEY`, the context of a kubeconfig where one is asked for (`--context`,
`kubectl muster`), `~/.config/muster/config.yaml`, and the nearest `.muster/` upward from here: its
`client.json` if there is one, or the `state.json` of `make up`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from muster.errors import NotConfigured

USER_FILE: Final = Path("muster/config.yaml")
LOCAL_FOLDER: Final = ".muster"
CLIENT_FILE: Final = "client.json"
STATE_FILE: Final = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """An address such as "http://127.0.0.1:8080" and an API key, or a token of the cluster."""

    address: str
    key: str
    team: str = ""
    """The one that is meant, of a user of the cluster that is of several."""


def find(
    address: str | None = None,
    key: str | None = None,
    *,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Configuration:
    """The configuration in force; `context` of a kubeconfig, "" for the current one.

    Raises:
        NotConfigured: no source names an address, or none names a key; or the address has no
            scheme; or the context has no token.
    """
    environment = os.environ if environment is None else environment
    sources = _Sources(environment, folder or Path.cwd(), context)
    found_address = (address or "").strip() or sources.first("address")
    found_key = (key or "").strip() or sources.first("key")
    team = environment.get("MUSTER_TEAM", "").strip()
    if not found_address:
        raise NotConfigured(
            "No address of Muster is known. Give --address, set MUSTER_ADDRESS, write "
            "~/.config/muster/config.yaml (address: ..., key: ...), or start a local system "
            "with `make up`."
        )
    if not re.match(r"https?://[^/]", found_address):
        bare = found_address.rpartition("//")[2]
        raise NotConfigured(
            f"The address {found_address!r} must begin with http:// or https://; "
            f"write http://{bare or '127.0.0.1:8080'}."
        )
    if not found_key:
        raise NotConfigured(
            "No API key is known. Give --key, set MUSTER_KEY, or write `key: ...` to "
            "~/.config/muster/config.yaml; a team admin makes one with `muster admin keys create`."
        )
    if not found_key.isascii() or not found_key.isprintable() or " " in found_key:
        raise NotConfigured(
            "The API key holds a blank, or what is not printable ASCII: is it one?"
        )
    return Configuration(address=found_address.rstrip("/"), key=found_key, team=team)


class _Sources:
    """Reads each source only when the ones before it were silent."""

    def __init__(self, environment: Mapping[str, str], folder: Path, context: str | None) -> None:
        self._environment = environment
        self._folder = folder
        self._context = context

    def first(self, name: str) -> str:
        for source in (
            self._from_environment,
            self._from_context,
            self._from_user,
            self._from_local,
        ):
            value = source(name).strip()  # what a file or `$(...)` gave ends in a line break
            if value:
                return value
        return ""

    def _from_environment(self, name: str) -> str:
        return self._environment.get(f"MUSTER_{name.upper()}", "")

    def _from_context(self, name: str) -> str:
        if self._context is None:
            return ""
        from muster.kubeconfig import KubeContext

        try:
            context = KubeContext(self._context, self._environment)
        except NotConfigured:
            if self._context:
                raise
            return ""  # it was not asked for by its name: other sources may know
        if name == "address":
            return context.address
        token = context.token()
        if self._context and not token:
            raise NotConfigured(
                f"The user of context {context.name!r} has no token: a client certificate is good"
                " for the API server alone. Give --key."
            )
        return token

    def _from_user(self, name: str) -> str:
        home = self._environment.get("HOME", "")
        base = self._environment.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
        path = Path(base) / USER_FILE if base else None
        if path is None or not path.is_file():
            return ""
        import yaml

        try:
            document = yaml.safe_load(path.read_text())
        except yaml.YAMLError as error:
            raise NotConfigured(f"{path} is not YAML: {error}") from error
        return _text(document, name, path)

    def _from_local(self, name: str) -> str:
        for folder in local_folders(self._folder):
            return _of_client(folder, name) or _of_state(folder, name)
        return ""


def local_folders(folder: Path) -> Iterator[Path]:
    """Folders `.muster` with a known system, here and in the folders above, the nearest first."""
    for one in (folder, *folder.parents):
        local = one / LOCAL_FOLDER
        if (local / CLIENT_FILE).is_file() or (local / STATE_FILE).is_file():
            yield local


def _of_client(folder: Path, name: str) -> str:
    path = folder / CLIENT_FILE
    return _text(_json(path), name, path) if path.is_file() else ""


def _of_state(folder: Path, name: str) -> str:
    path = folder / STATE_FILE
    if not path.is_file():
        return ""
    document = _json(path)
    if name == "address":
        return _text(document, "gateway", path)
    key_file = Path(_text(document, "admin_key_file", path))
    return key_file.read_text().strip() if key_file.is_file() else ""


def _json(path: Path) -> Any:  # noqa: ANN401  # any JSON
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise NotConfigured(f"{path} is not JSON: {error}") from error


def _text(document: Any, name: str, path: Path) -> str:  # noqa: ANN401  # any YAML or JSON
    if not isinstance(document, dict):
        raise NotConfigured(f"{path} must be a mapping with `address` and `key`")
    return str(document.get(name) or "")
