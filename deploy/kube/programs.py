"""The programs of the control plane, built once from pinned Go modules and kept in a cache.

A folder of the cache is named by a hash of everything that decides the bytes: module files, flags
and the version of Go. So a changed pin builds anew, and a checkout that was built before starts at
once. The cache is outside the checkout: `MUSTER_KUBE_CACHE`, or `~/.cache/muster/kube`.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.cache import locked
from deploy.local.processes import LocalError

MODULES: Final = Path(__file__).resolve().parent
GO_MIN: Final = (1, 26)
VERSION: Final = "v1.37.2"
BUILD_SECONDS_MAX: Final = 3_000
BYTES_FREE_MIN: Final = 8 << 30
"""Go's own cache of modules and compiled packages takes about 6 GiB beside the programs."""
_COMMON_FLAGS: Final = ("-trimpath", "-buildvcs=false", "-mod=readonly")
_STAMP: Final = "k8s.io/component-base/version.git"
_VERSION_FLAGS: Final = " ".join(
    f"-X {_STAMP}{name}={value}"
    for name, value in (
        ("Version", VERSION),
        ("Major", "1"),
        ("Minor", "37"),
        ("TreeState", "clean"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module of this folder and the packages that are built in it.

    `link_flags`: what the linker stamps in. `packages`: in the order of their need, so that those
    that others wait for come first.
    """

    folder: str
    packages: tuple[str, ...]
    link_flags: str = "-s -w"


BUILT: Final = (
    Module(folder="etcd", packages=("muster/etcd",)),
    Module(
        folder="kubernetes",
        packages=(
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kubectl",
            "k8s.io/kubernetes/cmd/kube-scheduler",
        ),
        link_flags=f"-s -w {_VERSION_FLAGS}",
    ),
    Module(folder="kwok", packages=("sigs.k8s.io/kwok/cmd/kwok",)),
)
NAMES: Final = tuple(package.rpartition("/")[2] for one in BUILT for package in one.packages)
KUBELET: Final = (
    Module(
        folder="kubelet",
        packages=("k8s.io/kubernetes/cmd/kubelet",),
        link_flags=f"-s -w {_VERSION_FLAGS}",
    ),
)
"""In a folder of its own: who needs no real node need not build it."""
_HELM_VERSIONS: Final = " ".join(
    f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{name}={value}"
    for package in ("chartutil", "lint/rules")
    for name, value in (("Major", "1"), ("Minor", "37"))
)
HELM: Final = (
    Module(
        folder="helm",
        packages=("helm.sh/helm/v3/cmd/helm",),
        link_flags=f"-s -w {_HELM_VERSIONS}",
    ),
)
"""For the chart alone; it is told which Kubernetes a template without a server is for."""


def programs(modules: Sequence[Module] = BUILT) -> Path:
    """The folder with the programs of these modules; they are built now unless they are there.

    Raises:
        LocalError: Go is missing or too old, the disk is too full, or a build failed.
    """
    version = _go_version()
    folder = _cache() / _digest(version, modules)
    with locked(folder.parent / f"{folder.name}.lock"):
        if any(_missing(folder, modules)):
            _build(folder, modules)
    return folder


def _cache() -> Path:
    return Path(os.environ.get("MUSTER_KUBE_CACHE") or Path.home() / ".cache" / "muster" / "kube")


def _go_version() -> str:
    """What `go env GOVERSION` says; raises LocalError without a Go that is new enough."""
    wanted = ".".join(map(str, GO_MIN))
    if shutil.which("go") is None:
        raise LocalError(
            f"the test cluster is built by Go {wanted} or newer, and there is no `go` on the "
            "PATH: install Go, then run the command again"
        )
    asked = subprocess.run(
        ["go", "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd=MODULES
    )
    found = re.match(r"go(\d+)\.(\d+)", asked.stdout)
    if found is None or (int(found[1]), int(found[2])) < GO_MIN:
        told = (asked.stdout or asked.stderr).strip()
        raise LocalError(f"the test cluster is built by Go {wanted} or newer, not by: {told}")
    return asked.stdout.strip()


def _digest(version: str, modules: Sequence[Module]) -> str:
    """What decides the bytes of the programs."""
    digest = hashlib.sha256(f"{version} {_COMMON_FLAGS}".encode())
    for module in modules:
        digest.update(f"{module.packages} {module.link_flags}".encode())
        for path in sorted((MODULES / module.folder).iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(folder: Path, modules: Sequence[Module]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < BYTES_FREE_MIN:
        raise LocalError(
            f"building the test cluster needs {BYTES_FREE_MIN >> 30} GiB of free disk at "
            f"{folder}, {free >> 30} GiB are free"
        )
    started = time.monotonic()
    for module, package in _missing(folder, modules):
        _say(
            f"building {package}"
            " (the control plane: 670 CPU seconds, a kubelet 130 more, Helm 200; once)"
        )
        _go_build(module, package, folder)
    _say(f"built it in {time.monotonic() - started:.0f} s: {folder}")


def _missing(folder: Path, modules: Sequence[Module]) -> Iterator[tuple[Module, str]]:
    for module in modules:
        for package in module.packages:
            if not (folder / package.rpartition("/")[2]).exists():
                yield module, package


def _go_build(module: Module, package: str, folder: Path) -> None:
    """Build one program; what is half done never has its final name."""
    name = package.rpartition("/")[2]
    partial = folder / f"{name}.partial"
    command = ["go", "build", *_COMMON_FLAGS, "-ldflags", module.link_flags, "-o", str(partial)]
    try:
        done = subprocess.run(
            [*command, package],
            cwd=MODULES / module.folder,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"go build {package} took over {BUILD_SECONDS_MAX} s") from error
    if done.returncode != 0:
        raise LocalError(f"go build {package} failed:\n{done.stdout[-3000:]}")
    partial.rename(folder / name)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
