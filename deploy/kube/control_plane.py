"""The processes of a test cluster: etcd, API server, controller manager and KWOK.

They listen on free ports of 127.0.0.1 and keep everything in one folder. `start` returns when the
API server is ready, the nodes are there and the identities have their kubeconfig files:

    <folder>/admin.kubeconfig     everything (group system:masters, exempt from fairness)
    <folder>/binder.kubeconfig    the service account of the binder: measure and test as this one
    <folder>/checker.kubeconfig   reads alone
    <folder>/gateway.kubeconfig   finds pods and reads their logs
    <folder>/native.kubeconfig    reads pods and Jobs, writes events and conditions
    <folder>/watcher.kubeconfig   reads nodes, their devices and all pods

What every pod has written is in <folder>/pods.log, in the format of the container runtime
interface: `TIME stdout F LINE`. Whoever tests logs writes there. A command
that is run in a pod runs on this machine.
"""

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.kube import kubelet_access, state
from deploy.kube.api import ApiClient, documents_of
from deploy.kube.kubeconfig import write_kubeconfig
from deploy.kube.kubelet_access import RealKubelets
from deploy.kube.nodes import MANAGED, objects_of
from deploy.kube.programs import programs
from deploy.kube.state import State
from deploy.local.health import is_ready
from deploy.local.processes import (
    Program,
    free_ports,
    identity,
    wait_ready,
    wait_until,
)

START_SECONDS_MAX: Final = 120
NODES_DEFAULT: Final = 64
IDENTITIES: Final = ("binder", "checker", "gateway", "native", "watcher")
TOKEN_SECONDS: Final = 86_400
NAMESPACE: Final = "muster-system"
MANIFESTS: Final = Path(__file__).resolve().parent / "manifests"
SERVICES: Final = "10.0.0.0/16"
API_SERVICE: Final = "10.0.0.1"
"""The first address of Services: that of the API server, for pods."""
GANGS: Final = "GenericWorkload=true"
"""PodGroups of Kubernetes itself, which are beta and off by default."""
ETCD, API, CONTROLLERS, KWOK = "etcd", "kube-apiserver", "kube-controller-manager", "kwok"
_OK: Final = 200


class ControlPlane:
    """See the module. Every method returns when what it does is done."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = NODES_DEFAULT,
        kubelets: RealKubelets | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Nothing starts yet.

        `nodes`: how many simulated nodes, none without KWOK; `kubelets`: nodes that somebody else
        starts; `environment`: what every process gets besides.
        """
        self.folder = folder
        self._nodes = nodes
        self._kubelets = kubelets
        self._environment = dict(environment or {})
        self._ports = dict(zip((ETCD, "peer", API, CONTROLLERS, KWOK), free_ports(5), strict=True))
        self.processes: dict[str, Program] = {}

    @property
    def server(self) -> str:
        """The address of the API server."""
        address = self._kubelets.address if self._kubelets else "127.0.0.1"
        return f"https://{address}:{self._ports[API]}"

    @property
    def certificate(self) -> Path:
        """The certificate that the API server signed for itself."""
        return self.folder / "certificates" / "apiserver.crt"

    def kubeconfig(self, identity: str = "admin") -> Path:
        """The kubeconfig of an identity: admin, binder or checker."""
        return self.folder / f"{identity}.kubeconfig"

    def pids(self) -> dict[str, int]:
        """The process ids by name, of those that run."""
        return {name: one.pid for name, one in self.processes.items() if one.pid is not None}

    def start(self) -> None:
        """Start everything on an empty folder.

        Raises:
            LocalError: a program could not be built, or did not start; with the end of its log.
        """
        found = programs()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write_secrets()
        self._write_logs()
        self.processes = self._commands(found)
        try:
            self.start_etcd()
            self.start_api_server()
            self._start(CONTROLLERS)
            self._furnish()
            if self._nodes:
                self._start(KWOK)
            self._wait_for_nodes()
            self.note()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything that runs, the store last."""
        for name in reversed(self.processes):
            self.processes[name].stop()

    def start_etcd(self) -> None:
        """Start the store and wait until it answers."""
        url = f"http://127.0.0.1:{self._ports[ETCD]}/health"
        self._start(ETCD)
        wait_ready(self.processes[ETCD], lambda: is_ready(url), seconds=START_SECONDS_MAX)

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready."""
        self._start(API)
        wait_ready(self.processes[API], self._api_ready, seconds=START_SECONDS_MAX)

    def admin(self) -> contextlib.closing[ApiClient]:
        """A client that may do everything; closed at the end of its `with`."""
        return contextlib.closing(ApiClient(self.kubeconfig()))

    def _start(self, name: str) -> None:
        self.processes[name].start()

    def _api_ready(self) -> bool:
        if not self.certificate.exists():
            return False
        try:
            with self.admin() as client:
                return client.request("GET", "/readyz")[0] == _OK
        except OSError:
            return False

    def _write_secrets(self) -> None:
        """The administrator's token, and the key that signs tokens of service accounts."""
        token = secrets.token_urlsafe(32)
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f"{token},admin,admin,system:masters\n")
        kubelet_access.openssl("genrsa", "-out", str(self.folder / "service-accounts.key"), "2048")
        self._write_kubeconfig("admin", token)
        if self._kubelets:
            self._admit(self._kubelets, tokens)

    def _admit(self, kubelets: RealKubelets, tokens: Path) -> None:
        """Certificates, and a token for each node."""
        kubelet_access.make_certificates(self.folder)
        for name, token in kubelets.tokens().items():
            with tokens.open("a") as file:
                file.write(kubelet_access.token_line(name, token))
            self._write_kubeconfig(name, token)

    def _write_kubeconfig(self, identity: str, token: str) -> None:
        write_kubeconfig(
            self.kubeconfig(identity),
            server=self.server,
            certificate=self.certificate,
            token=token,
        )

    def _write_logs(self) -> None:
        """What simulated kubelets do for a container: one file of logs, commands run here."""
        logs = self.folder / "pods.log"
        logs.touch()
        rule = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "every-pod"},
            "spec": {"logs": [{"logsFile": str(logs), "follow": True}]},
        }
        commands = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterExec",
            "metadata": {"name": "every-pod"},
            "spec": {"execs": [{"local": {"workDir": str(self.folder)}}]},
        }
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump_all([rule, commands]))

    def _commands(self, found: Path) -> dict[str, Program]:
        arguments = {
            ETCD: self._etcd_arguments(),
            API: self._api_arguments(),
            CONTROLLERS: self._controller_arguments(),
            KWOK: self._kwok_arguments(),
        }
        return {
            name: Program(
                name=name,
                command=[str(found / name), *(f"--{key}={value}" for key, value in flags.items())],
                log=self.folder / "logs" / f"{name}.log",
                environment=self._environment,
                folder=self.folder,
            )
            for name, flags in arguments.items()
        }

    def _etcd_arguments(self) -> dict[str, str]:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in (ETCD, "peer"))
        return {
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
            "quota-backend-bytes": str(4 << 30),
            "log-level": "warn",
        }

    def _api_arguments(self) -> dict[str, str]:
        key = str(self.folder / "service-accounts.key")
        return {
            "etcd-servers": f"http://127.0.0.1:{self._ports[ETCD]}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self._ports[API]),
            "cert-dir": str(self.certificate.parent),
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": SERVICES,
            "authorization-mode": "Node,RBAC",
            "token-auth-file": str(self.folder / "tokens.csv"),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "allow-privileged": "true",
            "kubelet-preferred-address-types": "InternalIP",
            "profiling": "false",
            "feature-gates": GANGS,
            "runtime-config": "scheduling.k8s.io/v1beta1=true",
            **(
                kubelet_access.api_arguments(self.folder, self._kubelets) if self._kubelets else {}
            ),
        }

    def _controller_arguments(self) -> dict[str, str]:
        return {
            "kubeconfig": str(self.kubeconfig()),
            "bind-address": "127.0.0.1",
            "secure-port": str(self._ports[CONTROLLERS]),
            "cert-dir": str(self.folder / "controller-certificates"),
            "service-account-private-key-file": str(self.folder / "service-accounts.key"),
            "root-ca-file": str(self.certificate),
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "kube-api-qps": "500",
            "kube-api-burst": "1000",
            "profiling": "false",
            "feature-gates": GANGS,
            **(kubelet_access.controller_arguments() if self._kubelets else {}),
        }

    def _kwok_arguments(self) -> dict[str, str]:
        return {
            "kubeconfig": str(self.kubeconfig()),
            "config": f"{MANIFESTS / 'stages.yaml'},{self.folder / 'kubelet.yaml'}",
            "manage-all-nodes": "false",
            "manage-nodes-with-label-selector": MANAGED,
            "node-lease-duration-seconds": "40",
            "node-ip": "127.0.0.1",
            "server-address": f"127.0.0.1:{self._ports[KWOK]}",
        }

    def _furnish(self) -> None:
        """Create identities, device classes, nodes and slices."""
        with self.admin() as client:
            client.create_all(documents_of(MANIFESTS / "identities.yaml"))
            client.create_all(documents_of(MANIFESTS / "devices.yaml"))
            for identity in IDENTITIES:
                self.write_identity(client, identity)
            for number in range(self._nodes):
                client.create_all(objects_of(number, self._ports[KWOK]))

    def write_identity(self, client: ApiClient, identity: str) -> None:
        """The kubeconfig of a service account in the namespace of Muster, which is there."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{identity}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        token = client.demand("POST", path, body)["status"]["token"]
        self._write_kubeconfig(identity, token)

    def note(self, others: Mapping[str, int] | None = None) -> None:
        """Write down what runs, here and besides (process ids by name)."""
        pids = {**self.pids(), **(others or {})}
        known = {name: identity(pid) or "" for name, pid in pids.items()}
        state.write(self.folder, State(server=self.server, nodes=self._nodes, processes=known))

    def _wait_for_nodes(self) -> None:
        """Return when every node is Ready and has lost the taint of a new one."""
        with self.admin() as client:
            wait_until(
                lambda: _usable_nodes(client) == self._nodes,
                seconds=START_SECONDS_MAX,
                what=f"{self._nodes} nodes to be Ready (logs: {self.folder / 'logs'})",
            )


def _usable_nodes(client: ApiClient) -> int:
    answer = client.demand("GET", "/api/v1/nodes")
    return sum(_usable(node) for node in answer["items"])


def _usable(node: Mapping[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
