"""Is one set of pods well formed: its counts, its GPUs, and what its pods are made from?"""

from __future__ import annotations

import re
from typing import Final

from shared.core.admission.errors import Errors, check_range
from shared.core.admission.gang import check_slices
from shared.core.admission.volumes import check_volumes
from shared.core.model.mig.profiles import is_profile_name
from shared.core.model.nouns import GpuRequest, PodSet
from shared.core.model.units import GPU_MILLI

PODS_MAX: Final = 4096
GPUS_PER_POD_MAX: Final = 1024
CPU_MILLI_MAX: Final = 4_096_000
MEMORY_MIB_MAX: Final = 67_108_864
"""64 TiB."""
GPU_MEMORY_MIB_MAX: Final = 4_194_304
LIST_MAX: Final = 64
SHARERS_MAX: Final = 48
"""Clients that one GPU serves (NVIDIA Multi-Process Service, since Volta) ..."""
SHARE_MILLI_MIN: Final = -(-GPU_MILLI // SHARERS_MAX)
"""... so no smaller share is given: sums of shares then keep the number, too."""
ENVIRONMENT_MAX: Final = 100
COMMAND_MAX: Final = 256
LONG_TEXT_MAX: Final = 4096
is_name = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?").fullmatch
is_reference = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?").fullmatch
is_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,252}").fullmatch
is_artifact = re.compile(r"[A-Za-z0-9][-_.:/@A-Za-z0-9]{0,1023}").fullmatch
_long_text_unsafe = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search
NAME_RULE: Final = "must be a DNS-1123 label: a-z, 0-9 and '-', at most 63 characters"
_ARTIFACT_RULES: Final = {
    "image": "must be an image reference of at most 1,024 characters, without spaces",
    "weights": "must be a reference as nodes report it: at most 1,024 characters, without spaces",
}
REFERENCE_RULE: Final = (
    "must be the name of an object: a-z, 0-9, '-' and '.', at most 253 characters"
)
is_toleration = re.compile(
    r"(?:[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
    r"(?:=(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?)?"
    r"(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?"
).fullmatch
_TOLERATION_RULE: Final = (
    "must be a taint such as dedicated=research:NoSchedule; value and effect may be left out"
)
_SYSTEM_CLASSES: Final = "system-"
_VARIABLE_RULE: Final = "must be letters, digits and '_', not beginning with a digit"
_FORBIDDEN_RULE: Final = "is set by the scheduler alone; remove it"
_FORBIDDEN_PREFIXES: Final = ("NVIDIA_", "MUSTER_")
_FORBIDDEN_VARIABLES: Final = frozenset(
    ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")
)


def text_length(pod_set: PodSet) -> int:
    """Characters of its command, arguments and environment."""
    length = sum(map(len, pod_set.command)) if pod_set.command else 0
    length += sum(map(len, pod_set.arguments)) if pod_set.arguments else 0
    for name, value in pod_set.environment.items():
        length += len(name) + len(value)
    return length


def check_pod_set(path: str, pod_set: PodSet, errors: Errors) -> None:
    """Every broken rule about the form of one pod set; its fields begin with `path`."""
    if not is_name(pod_set.name):
        errors.add(f"{path}.name", pod_set.name, NAME_RULE)
    if not 1 <= pod_set.count <= PODS_MAX:
        errors.add(f"{path}.count", pod_set.count, f"must be 1 to {PODS_MAX}")
    elif pod_set.min_count is not None and not 1 <= pod_set.min_count <= pod_set.count:
        rule = f"must be 1 to count ({pod_set.count})"
        errors.add(f"{path}.min_count", pod_set.min_count, rule)
    if pod_set.slices:
        check_slices(f"{path}.slices", pod_set, errors)
    _check_gpu(f"{path}.gpu", pod_set.gpu, errors)
    check_range(f"{path}.cpu_milli", pod_set.cpu_milli, 0, CPU_MILLI_MAX, errors)
    check_range(f"{path}.memory_mib", pod_set.memory_mib, 0, MEMORY_MIB_MAX, errors)
    check_range(f"{path}.shm_mib", pod_set.shm_mib, 0, MEMORY_MIB_MAX, errors)
    _check_template(path, pod_set, errors)


def _check_template(path: str, pod_set: PodSet, errors: Errors) -> None:
    """What its pods are made from, and which objects of the cluster they name."""
    _check_artifacts(path, pod_set, errors)
    if pod_set.command:
        _check_words(f"{path}.command", pod_set.command, errors)
    if pod_set.arguments:
        _check_words(f"{path}.arguments", pod_set.arguments, errors)
    if pod_set.environment:
        _check_environment(f"{path}.environment", pod_set.environment, errors)
    if pod_set.secrets:
        _check_references(f"{path}.secrets", pod_set.secrets, errors)
    if pod_set.volumes and _is_short(f"{path}.volumes", pod_set.volumes, errors):
        check_volumes(f"{path}.volumes", pod_set.volumes, errors)
    if pod_set.tolerations and _is_short(f"{path}.tolerations", pod_set.tolerations, errors):
        _check_tolerations(f"{path}.tolerations", pod_set.tolerations, errors)
    _check_kubernetes_class(path, pod_set.kubernetes_priority_class, errors)


def _check_gpu(path: str, gpu: GpuRequest, errors: Errors) -> None:
    forms = (gpu.count != 0) + (gpu.milli != 0) + bool(gpu.mig_profile)
    if forms > 1:
        given = ", ".join(name for name in ("count", "milli", "mig_profile") if getattr(gpu, name))
        errors.add(path, given, "must have exactly one of count, milli, mig_profile")
        return
    if not 0 <= gpu.count <= GPUS_PER_POD_MAX:
        errors.add(f"{path}.count", gpu.count, f"must be 0 to {GPUS_PER_POD_MAX} GPUs")
    if gpu.milli or gpu.memory_mib:
        _check_share(path, gpu, errors)
    if gpu.mig_profile or gpu.mig_count:
        _check_mig(path, gpu, errors)


def _check_share(path: str, gpu: GpuRequest, errors: Errors) -> None:
    if not gpu.milli:
        errors.add(f"{path}.memory_mib", gpu.memory_mib, "goes only with milli")
        return
    if gpu.milli >= GPU_MILLI:
        errors.add(f"{path}.milli", gpu.milli, "must be below 1000; ask for whole GPUs by count")
    elif gpu.milli < SHARE_MILLI_MIN:
        rule = f"must be at least {SHARE_MILLI_MIN}: at most {SHARERS_MAX} processes share a GPU"
        errors.add(f"{path}.milli", gpu.milli, rule)
    if not 1 <= gpu.memory_mib <= GPU_MEMORY_MIB_MAX:
        rule = f"must be 1 to {GPU_MEMORY_MIB_MAX} beside milli: a share has its own GPU memory"
        errors.add(f"{path}.memory_mib", gpu.memory_mib, rule)


def _check_mig(path: str, gpu: GpuRequest, errors: Errors) -> None:
    if not gpu.mig_profile:
        errors.add(f"{path}.mig_count", gpu.mig_count, "goes only with mig_profile")
        return
    if not is_profile_name(gpu.mig_profile):
        rule = "must be the name of a MIG profile such as 1g.10gb, 3g.40gb or 1g.10gb+me"
        errors.add(f"{path}.mig_profile", gpu.mig_profile, rule)
    if not 0 <= gpu.mig_count <= GPUS_PER_POD_MAX:
        errors.add(f"{path}.mig_count", gpu.mig_count, f"must be 1 to {GPUS_PER_POD_MAX}")


def _check_artifacts(path: str, pod_set: PodSet, errors: Errors) -> None:
    for name, reference in (("image", pod_set.image), ("weights", pod_set.weights)):
        if reference and not is_artifact(reference):
            errors.add(f"{path}.{name}", reference, _ARTIFACT_RULES[name])


def _check_words(path: str, words: tuple[str, ...], errors: Errors) -> None:
    if len(words) > COMMAND_MAX:
        errors.add(path, len(words), f"must have at most {COMMAND_MAX} words")
        return
    for index, word in enumerate(words):
        if len(word) > LONG_TEXT_MAX or _long_text_unsafe(word):
            errors.add(f"{path}[{index}]", word, _LONG_TEXT_RULE)


_LONG_TEXT_RULE: Final = f"must be at most {LONG_TEXT_MAX} characters, none a control character"


def _check_environment(path: str, environment: dict[str, str], errors: Errors) -> None:
    if len(environment) > ENVIRONMENT_MAX:
        errors.add(path, len(environment), f"must have at most {ENVIRONMENT_MAX} variables")
        return
    for name, value in environment.items():
        upper = name.upper()
        if not is_variable(name):
            errors.add(path, name, _VARIABLE_RULE)
        elif upper in _FORBIDDEN_VARIABLES or upper.startswith(_FORBIDDEN_PREFIXES):
            errors.add(f"{path}.{name}", value, _FORBIDDEN_RULE)
        elif len(value) > LONG_TEXT_MAX or _long_text_unsafe(value):
            errors.add(f"{path}.{name}", "(not shown)", _LONG_TEXT_RULE)


def _check_references(path: str, names: tuple[str, ...], errors: Errors) -> None:
    if not _is_short(path, names, errors):
        return
    for index, name in enumerate(names):
        if not is_reference(name):
            errors.add(f"{path}[{index}]", name, REFERENCE_RULE)
    if len(set(names)) < len(names):
        errors.add(path, len(names), "must not name one object twice")


def _is_short(path: str, names: tuple[str, ...], errors: Errors) -> bool:
    if len(names) > LIST_MAX:
        errors.add(path, len(names), f"must have at most {LIST_MAX} names")
    return len(names) <= LIST_MAX


def _check_tolerations(path: str, tolerations: tuple[str, ...], errors: Errors) -> None:
    for index, toleration in enumerate(tolerations):
        if not is_toleration(toleration):
            errors.add(f"{path}[{index}]", toleration, _TOLERATION_RULE)


def _check_kubernetes_class(path: str, name: str, errors: Errors) -> None:
    path = f"{path}.kubernetes_priority_class"
    if name and not is_reference(name):
        errors.add(path, name, REFERENCE_RULE)
    elif name.startswith(_SYSTEM_CLASSES):
        errors.add(path, name, "is for the system of the cluster; choose another")
