"""What an API server and real kubelets need to trust each other.

A node shows a token that names it (`system:node:NAME`). The API server shows a kubelet a
certificate of `system:masters`, by which it reads logs and runs commands there; the authority
that signs it is made for one cluster and forgotten with it.
"""

import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.processes import LocalError

AUTHORITY: Final = "kubelet-authority"
CLIENT: Final = "kubelet-client"
DAYS: Final = "2"
GRACE_SECONDS: Final = 12
"""A node that is silent for so long is not Ready: tests wait for it. The default is 50 s."""
_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


@dataclass(frozen=True, slots=True, kw_only=True)
class RealKubelets:
    """Nodes that are not simulated.

    `address`: of this machine, as nodes reach it; the API server listens there. `names`: of the
    nodes, in order.
    """

    address: str
    names: tuple[str, ...]

    def tokens(self) -> Mapping[str, str]:
        """A new token for each node."""
        return {name: secrets.token_urlsafe(32) for name in self.names}


def make_certificates(folder: Path) -> None:
    """Write the authority and the certificate of the API server towards kubelets.

    Raises:
        LocalError: openssl is missing or refuses.
    """
    authority, client = folder / AUTHORITY, folder / CLIENT
    openssl(
        "req", "-x509", *_NEW_KEY, "-days", DAYS, "-subj", f"/CN={AUTHORITY}",
        "-keyout", f"{authority}.key", "-out", f"{authority}.crt",
    )  # fmt: skip
    openssl(
        "req", *_NEW_KEY, "-subj", f"/O=system:masters/CN={CLIENT}",
        "-keyout", f"{client}.key", "-out", f"{client}.csr",
    )  # fmt: skip
    openssl(
        "x509", "-req", "-in", f"{client}.csr", "-days", DAYS, "-CAcreateserial",
        "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-out", f"{client}.crt",
    )  # fmt: skip


def token_line(name: str, token: str) -> str:
    """The line of a node in the file of static tokens."""
    return f"{token},system:node:{name},{name},system:nodes\n"


def api_arguments(folder: Path, kubelets: RealKubelets) -> dict[str, str]:
    """What the API server is told besides."""
    return {
        "bind-address": kubelets.address,
        "advertise-address": kubelets.address,
        "kubelet-client-certificate": str(folder / f"{CLIENT}.crt"),
        "kubelet-client-key": str(folder / f"{CLIENT}.key"),
    }


def controller_arguments() -> dict[str, str]:
    """What the controller manager is told besides."""
    return {
        "node-monitor-grace-period": f"{GRACE_SECONDS}s",
        "node-monitor-period": "1s",
    }


def openssl(*arguments: str) -> None:
    """Run openssl to its end.

    Raises:
        LocalError: it is missing or refuses.
    """
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LocalError("the test cluster needs openssl: apt-get install openssl") from error
    if done.returncode != 0:
        raise LocalError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
