"""Reads all pods and claims of a Kubernetes API server, and of each only what is compared.

All are read, not only those with our labels: a pod that has the name of ours and not its labels is
a difference too, and so is a device that a claim of others has. Nothing is ever changed: the
role of the identity needs `list` of pods and resourceclaims alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from operations.check.model import CannotCheck

PAGE: Final = 1_000
REQUEST_SECONDS_MAX: Final = 60
OK: Final = 200
ENDED: Final = ("Succeeded", "Failed")


class Reference(msgspec.Struct):
    """Another object, by its uid."""

    uid: str = ""


class Metadata(msgspec.Struct, rename="camel"):
    """Of a pod or a claim."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[Reference, ...] = ()


class _PodClaim(msgspec.Struct, rename="camel"):
    resource_claim_name: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    """Where a pod is, and what it claims."""

    node_name: str = ""
    resource_claims: tuple[_PodClaim, ...] = ()


class _Device(msgspec.Struct):
    resource_id: str = msgspec.field(default="", name="resourceID")


class _Resource(msgspec.Struct):
    name: str = ""
    resources: tuple[_Device, ...] = ()


class _Container(msgspec.Struct, rename="camel"):
    allocated_resources_status: tuple[_Resource, ...] = ()


class PodStatus(msgspec.Struct, rename="camel"):
    """How far a pod is."""

    phase: str = ""
    container_statuses: tuple[_Container, ...] = ()


class ApiPod(msgspec.Struct):
    """A pod as the API server shows it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def ended(self) -> bool:
        """Whether its containers have ended, so that it holds no device."""
        return self.status.phase in ENDED

    @property
    def devices(self) -> tuple[str, ...]:
        """Those that the kubelet says it has, else those noted on it; empty: not known."""
        told = tuple(
            device.resource_id
            for container in self.status.container_statuses
            for resource in container.allocated_resources_status
            if not resource.name.startswith("claim:")
            for device in resource.resources
        )
        noted = self.metadata.annotations.get("muster.dev/devices", "")
        return told or tuple(filter(None, noted.split(",")))


class HeldDevice(msgspec.Struct, frozen=True):
    """A device that a claim holds."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin: bool | None = msgspec.field(default=None, name="adminAccess")


class _Devices(msgspec.Struct):
    results: tuple[HeldDevice, ...] = ()


class _Allocation(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _ClaimStatus(msgspec.Struct, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: tuple[Reference, ...] = ()


class ApiClaim(msgspec.Struct):
    """A ResourceClaim as the API server shows it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def held(self) -> tuple[HeldDevice, ...]:
        """Devices that no other pod may hold."""
        allocation = self.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        return tuple(one for one in results if not one.admin)


class _Continue(msgspec.Struct):
    token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    items: tuple[ApiPod, ...] = ()
    metadata: _Continue = msgspec.field(default_factory=_Continue)


class _ClaimPage(msgspec.Struct):
    items: tuple[ApiClaim, ...] = ()
    metadata: _Continue = msgspec.field(default_factory=_Continue)


_pages: Final = msgspec.json.Decoder(_Page)
_claim_pages: Final = msgspec.json.Decoder(_ClaimPage)


async def read_api_pods(kubeconfig: Path) -> list[ApiPod]:
    """All pods of all namespaces, in pages of one version.

    Raises:
        CannotCheck: the file is no kubeconfig, or the server does not answer or refuses.
    """
    found: list[ApiPod] = await _read_all(
        kubeconfig, "CoreV1Api", "list_pod_for_all_namespaces", _pages
    )
    return found


async def read_api_claims(kubeconfig: Path) -> list[ApiClaim]:
    """All ResourceClaims of all namespaces; raises CannotCheck as `read_api_pods`."""
    found: list[ApiClaim] = await _read_all(
        kubeconfig, "ResourceV1Api", "list_resource_claim_for_all_namespaces", _claim_pages
    )
    return found


async def _read_all(
    kubeconfig: Path, group: str, method: str, pages: msgspec.json.Decoder[Any]
) -> list[Any]:
    """All items that a method of an API group lists."""
    import aiohttp
    import kubernetes_asyncio.client
    from kubernetes_asyncio.client import ApiClient, Configuration

    configuration = Configuration()
    await _load(kubeconfig, _document(kubeconfig), configuration)
    try:
        async with ApiClient(configuration) as client:
            listing = getattr(getattr(kubernetes_asyncio.client, group)(client), method)
            return await _read(listing, kubeconfig, pages)
    except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
        raise CannotCheck(
            f"Kubernetes API at {configuration.host}: {type(error).__name__}: {error}; "
            f"is the address in {kubeconfig} right?"
        ) from error


def _document(kubeconfig: Path) -> Mapping[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(kubeconfig.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CannotCheck(f"--kubeconfig {kubeconfig}: {_line(error)}") from error
    if not isinstance(document, Mapping):
        raise CannotCheck(f"--kubeconfig {kubeconfig}: it is not a kubeconfig file")
    return document


async def _load(
    kubeconfig: Path,
    document: Mapping[str, Any],
    configuration: Any,  # noqa: ANN401  # imported late
) -> None:
    from kubernetes_asyncio.config import ConfigException
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

    folder = str(kubeconfig.parent)
    try:
        loader = KubeConfigLoader(config_dict=document, config_base_path=folder)
        await loader.load_and_set(configuration)
    except (ConfigException, OSError, ValueError, TypeError, AttributeError) as error:
        raise CannotCheck(f"--kubeconfig {kubeconfig}: {_line(error)}") from error
    # A server that signs its own certificate marks it in a way that is refused since 3.13.
    configuration.disable_strict_ssl_verification = True


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


async def _read(
    listing: Any,  # noqa: ANN401  # imported late
    kubeconfig: Path,
    pages: msgspec.json.Decoder[Any],
) -> list[Any]:
    what = listing.__name__.split("_for_")[0].removeprefix("list_").replace("_", "") + "s"
    items: list[Any] = []
    query: dict[str, Any] = {"limit": PAGE}
    while True:
        answer: Any = await listing(
            **query, _preload_content=False, _request_timeout=REQUEST_SECONDS_MAX
        )
        body = await answer.read()
        if answer.status != OK:
            text = " ".join(body[:300].decode(errors="replace").split())
            raise CannotCheck(
                f"Kubernetes API: list of {what}: {answer.status} {text}; the identity of "
                f"{kubeconfig} needs the verb list on {what} in all namespaces"
            )
        page = pages.decode(body)
        items += page.items
        if not page.metadata.token:
            return items
        query["_continue"] = page.metadata.token
