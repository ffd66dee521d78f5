"""The image of tests, written without any engine: Debian's static busybox in an empty root.

A `docker save` archive is a tar of layer, configuration and manifest. With times, owners and names
set to nothing it has the same bytes each time.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

IMAGE: Final = "muster.test/busybox:1"
PAUSE: Final = "muster.test/pause:1"
_APPLETS: Final = (
    "cat", "dd", "echo", "env", "false", "grep", "hostname", "ls", "nc", "nslookup", "ps", "sh",
    "sleep", "tail", "test", "touch", "true", "wget",
)  # fmt: skip
_FOREVER: Final = ["/bin/busybox", "sleep", "2147483647"]


def write_images(busybox: Path, archive: Path) -> None:
    """Write both images, which share their one layer, as one archive."""
    layer = _layer(busybox.read_bytes())
    members: dict[str, bytes] = {"layer.tar": layer}
    manifest = []
    for name, command in ((IMAGE, ["/bin/sh"]), (PAUSE, _FOREVER)):
        config = json.dumps(_config(layer, command), sort_keys=True).encode()
        file = f"{hashlib.sha256(config).hexdigest()}.json"
        members[file] = config
        manifest.append({"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]})
    members["manifest.json"] = json.dumps(manifest).encode()
    partial = archive.with_suffix(".partial")
    partial.write_bytes(_tar([_file(name, content) for name, content in members.items()]))
    partial.rename(archive)


def _config(layer: bytes, command: list[str]) -> dict[str, Any]:
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }


def _layer(busybox: bytes) -> bytes:
    folders = [_folder("bin"), _folder("etc"), _folder("tmp", 0o1777)]
    links = [_link(f"bin/{name}") for name in _APPLETS]
    return _tar([*folders, _file("bin/busybox", busybox, 0o755), *links])


def _tar(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _file(name: str, content: bytes, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    return info, content


def _folder(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info, b""


def _link(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = tarfile.SYMTYPE, "busybox", 0o777
    return info, b""
