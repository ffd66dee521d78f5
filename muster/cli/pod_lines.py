"""What pods are made from and where they are, as lines of `muster status`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

from muster.cli.output import gpus

Json = dict[str, Any]
PODS_SHOWN: Final = 8
_SLICES: Final = 8
"""Memory slices of a board."""
_WHOLE_MILLI: Final = 1000


def lines_of_pods(workload: Json) -> dict[str, str]:
    """Image, command and GPUs that each set of pods asked for, then where each pod is."""
    pod_sets = (workload.get("spec") or {}).get("pod_sets") or ()
    pods = (workload.get("placement") or {}).get("pods") or ()
    profiles = {one.get("name", ""): _profile(one) for one in pod_sets}
    lines = _asked(pod_sets)
    for pod in pods[:PODS_SHOWN]:
        lines[f"pod {pod['rank']}"] = _place_of(pod, profiles.get(pod.get("pod_set", ""), ""))
    if len(pods) > PODS_SHOWN:
        lines["..."] = f"and {len(pods) - PODS_SHOWN} more pods; all with -o yaml"
    return lines


def _asked(pod_sets: Sequence[Json]) -> dict[str, str]:
    lines: dict[str, str] = {}
    for one in pod_sets:
        prefix = f"{one.get('name', '')} " if len(pod_sets) > 1 else ""
        words = [*one.get("command", ()), *one.get("arguments", ())]
        lines[f"{prefix}image"] = one.get("image", "")
        lines[f"{prefix}command"] = shlex.join(map(str, words))
        lines[f"{prefix}asks for"] = _demand(one)
    return lines


def _demand(pod_set: Json) -> str:
    """Such as "4 pods with 8 GPUs each"; empty without a GPU."""
    gpu, count = pod_set.get("gpu") or {}, pod_set.get("count", 1)
    if _profile(pod_set):
        what = f"{max(gpu.get('mig_count', 0), 1)} x MIG {_profile(pod_set)}"
    elif gpu.get("milli"):
        what = f"{gpus(gpu['milli'])} GPU, {gpu.get('memory_mib', 0)} MiB"
    elif gpu.get("count"):
        what = f"{gpu['count']} GPU{'s' if gpu['count'] > 1 else ''}"
    else:
        return ""
    return f"{count} pods with {what} each" if count != 1 else f"1 pod with {what}"


def _profile(pod_set: Json) -> str:
    return str((pod_set.get("gpu") or {}).get("mig_profile") or "")


def _place_of(pod: Json, profile: str) -> str:
    """Node and GPUs by index, with the part of a GPU that is not whole."""
    devices = [f"{one['index']}{_part_of(one, profile)}" for one in pod.get("shares", ())]
    return f"{pod['node']}: GPU {', '.join(devices)}" if devices else str(pod["node"])


def _part_of(share: Json, profile: str) -> str:
    if profile:
        return f" (MIG {profile}, slices {_runs(share['mask'])})"
    if share["milli"] == _WHOLE_MILLI:
        return ""
    return f" ({gpus(share['milli'])}, {share['memory_mib']} MiB)"


def _runs(mask: int) -> str:
    """Slices of a mask by number: 0b1011 -> "0-1,3"."""
    runs: list[list[int]] = []
    for one in range(_SLICES):
        if mask >> one & 1:
            if runs and runs[-1][-1] == one - 1:
                runs[-1].append(one)
            else:
                runs.append([one])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
