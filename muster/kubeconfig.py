"""A context of a kubeconfig as login: the bearer token of its user, and Muster's address in it.

As kubectl reads it: KUBECONFIG names files, else ~/.kube/config; of entries with one name the
first counts. A user has a token, a file with one, or a program that makes one (exec). Client
certificates are no token: they are good for the API server alone.

The address stands in an extension of the context, where kubectl and others leave it alone:

    contexts:
    - name: prod
      context:
        cluster: prod
        user: alice
        extensions: [{name: muster.dev, extension: {address: "https://muster.example.com"}}]
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from muster.errors import NotConfigured

EXTENSION: Final = "muster.dev"
EXEC_SECONDS_MAX: Final = 60
Document = Mapping[str, Any]


class KubeContext:
    """One context; an empty name is the current one.

    Raises:
        NotConfigured: there is no such file, context or user.
    """

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        files = _files(environment)
        current = (str(one["current-context"]) for _, one in files if one.get("current-context"))
        self.name = name or next(current, "")
        if not self.name:
            raise NotConfigured("No kubeconfig has a current context. Give --context, or --key.")
        _, context = _named(files, "contexts", "context", self.name)
        self._folder, self._user = _named(files, "users", "user", str(context.get("user", "")))
        self._environment = environment
        self.address = _address(context)

    def token(self) -> str:
        """The token of its user; empty where it has none, as one with a client certificate.

        Raises:
            NotConfigured: its file cannot be read, or its program gives none.
        """
        user = self._user
        if user.get("tokenFile"):
            path = self._folder / user["tokenFile"]
            try:
                text: str = path.read_text().strip()
            except OSError as error:
                raise NotConfigured(f"{path}: {error.strerror}") from error
            return text
        if user.get("exec") and not user.get("token"):
            return _made(user["exec"], self._folder, self._environment)
        return str(user.get("token") or "")


def _files(environment: Mapping[str, str]) -> list[tuple[Path, Document]]:
    """Those that are there, with their folders."""
    import yaml

    named = environment.get("KUBECONFIG", "")
    home = Path(environment.get("HOME", "")) / ".kube" / "config"
    paths = [Path(one) for one in named.split(os.pathsep) if one] or [home]
    found: list[tuple[Path, Document]] = []
    for path in paths:
        if not path.is_file():
            continue
        try:
            document = yaml.safe_load(path.read_text())
        except yaml.YAMLError as error:
            raise NotConfigured(f"{path} is not YAML: {error}") from error
        if not isinstance(document, dict):
            raise NotConfigured(f"{path} is no kubeconfig: it must be a mapping")
        found.append((path.parent, document))
    if not found:
        raise NotConfigured(f"There is no kubeconfig: {', '.join(map(str, paths))}")
    return found


def _named(
    files: list[tuple[Path, Document]], many: str, one: str, name: str
) -> tuple[Path, Document]:
    """The first entry of that name, with the folder of its file."""
    for folder, document in files:
        for entry in document.get(many) or ():
            if entry.get("name") == name:
                return folder, entry.get(one) or {}
    raise NotConfigured(f"No kubeconfig has a {one} {name!r}.")


def _address(context: Document) -> str:
    for one in context.get("extensions") or ():
        if one.get("name") == EXTENSION:
            return str((one.get("extension") or {}).get("address") or "")
    return ""


def _made(program: Document, folder: Path, environment: Mapping[str, str]) -> str:
    """What the credential plugin prints (client.authentication.k8s.io); it may ask on stderr."""
    version = program.get("apiVersion", "client.authentication.k8s.io/v1")
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    own = {one["name"]: one["value"] for one in program.get("env") or ()}
    command = str(program.get("command", ""))
    if os.sep in command:
        command = str(folder / command)
    try:
        done = subprocess.run(  # noqa: S603  # the user's own program, as kubectl runs it
            [command, *(program.get("args") or ())],
            env={**environment, **own, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=EXEC_SECONDS_MAX,
            check=True,
        )
        token = json.loads(done.stdout)["status"]["token"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise NotConfigured(f"{command} of the kubeconfig gave no token: {error}") from error
    return str(token)
