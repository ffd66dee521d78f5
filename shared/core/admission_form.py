"""Is a submission well formed? Every field, before anything else looks at it.

What comes through here can be stored, printed and multiplied without a second thought: names are
DNS-1123 labels, integers are in range, strings have no control characters and bounded lengths.
The limits are those of reliability.md S10 and S19. Broken rules are collected, not raised, so
that a user mends all of them at once; at most `ERRORS_MAX` are told.
"""

from __future__ import annotations

import math
import re
from typing import Final

from shared.core.admission_gang import check_leader, check_slices
from shared.core.decision import FieldError
from shared.core.mig_profiles import is_profile
from shared.core.model import GpuChoice, GpuRequest, PodSet, WorkloadSpec

ERRORS_MAX: Final = 50
SHOWN_MAX: Final = 100
NAME_MAX: Final = 63
PODS_MAX: Final = 4096
POD_SETS_MAX: Final = 16
GPUS_PER_POD_MAX: Final = 1024
CPU_MILLI_MAX: Final = 4_096_000
MEMORY_MIB_MAX: Final = 67_108_864
"""64 TiB."""
GPU_MEMORY_MIB_MAX: Final = 4_194_304
LIST_MAX: Final = 64
ENVIRONMENT_MAX: Final = 100
COMMAND_MAX: Final = 256
TEXT_MAX: Final = 1024
LONG_TEXT_MAX: Final = 4096
SPEC_TEXT_MAX: Final = 65_536
"""Characters of commands and environments of a workload together; the same through every door."""
SECONDS_MAX: Final = 366 * 86_400
GRACE_SECONDS_MAX: Final = 3_600
"""Nobody's room is kept waiting for longer than an hour."""
RESTART_SECONDS_MAX: Final = 86_400
RETRIES_MAX: Final = 1000
WEIGHT_MAX: Final = 1_000_000
PARAMETERS_BILLIONS_MAX: Final = 1_000_000

_name = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_reference = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?").fullmatch
_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,252}").fullmatch
_label_key = re.compile(
    r"(?:[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
).fullmatch
_label_value = re.compile(r"(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?").fullmatch
_product = re.compile(r"[A-Za-z0-9](?:[-_.+/() A-Za-z0-9]{0,126}[-_.+)A-Za-z0-9])?").fullmatch
_version = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,3}").fullmatch
_image = re.compile(r"[A-Za-z0-9][-_.:/@A-Za-z0-9]{0,1023}").fullmatch
_text_unsafe = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search
_long_text_unsafe = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search

NAME_RULE: Final = "must be a DNS-1123 label: a-z, 0-9 and '-', at most 63 characters"
_REFERENCE_RULE: Final = "must be the name of an object: a-z, 0-9, '-' and '.', at most 253"
_VARIABLE_RULE: Final = "must be letters, digits and '_', not beginning with a digit"
_FORBIDDEN_RULE: Final = "is set by the scheduler alone; remove it"
_FORBIDDEN_PREFIXES: Final = ("NVIDIA_", "MUSTER_")
_FORBIDDEN_VARIABLES: Final = frozenset(
    ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")
)
_RESERVED_LABELS: Final = ("muster.", "muster/")
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "nvidia.com")


class Errors(list[FieldError]):
    """Broken rules, collected; silently bounded."""

    def add(self, field: str, value: object, rule: str) -> None:
        """One more, unless there are `ERRORS_MAX` already."""
        if len(self) < ERRORS_MAX:
            self.append(FieldError(field=field, value=shown(value), rule=rule))


def shown(value: object) -> str:
    """`value` as it may be printed anywhere: bounded, without control characters."""
    try:
        text = value if isinstance(value, str) else str(value)
    except ValueError:  # an integer of more than 4,300 digits
        return "(a huge number)"
    if len(text) > SHOWN_MAX:
        text = text[:SHOWN_MAX] + "..."
    return "".join(map(_escaped, text)) if _text_unsafe(text) else text


def _escaped(character: str) -> str:
    if not _text_unsafe(character):
        return character
    return f"\\u{ord(character):04x}"


def check_form(spec: WorkloadSpec, errors: Errors) -> None:
    """Collect every broken rule about the form of `spec`."""
    if not _name(spec.name):
        errors.add("name", spec.name, NAME_RULE)
    if spec.queue and not _name(spec.queue):
        errors.add("queue", spec.queue, NAME_RULE)
    if spec.priority_class and not _name(spec.priority_class):
        errors.add("priority_class", spec.priority_class, NAME_RULE)
    _check_pod_sets(spec.pod_sets, errors)
    if spec.gpu_choice != _ANY_GPU:
        _check_choice(spec.gpu_choice, errors)
    if spec.labels:
        _check_labels(spec.labels, errors)
    _check_times(spec, errors)
    _check_topology(spec, errors)
    _check_model(spec, errors)


_ANY_GPU: Final = GpuChoice()


def _check_pod_sets(pod_sets: tuple[PodSet, ...], errors: Errors) -> None:
    if not 1 <= len(pod_sets) <= POD_SETS_MAX:
        errors.add("pod_sets", len(pod_sets), f"must be 1 to {POD_SETS_MAX} pod sets")
        return
    for index, pod_set in enumerate(pod_sets):
        _check_pod_set(f"pod_sets[{index}]", pod_set, errors)
    text = sum(_text_length(one) for one in pod_sets)
    if text > SPEC_TEXT_MAX:
        rule = f"must have at most {SPEC_TEXT_MAX} characters of command and environment together"
        errors.add("pod_sets", text, rule)
    if len(pod_sets) > 1:
        if len({one.name for one in pod_sets}) < len(pod_sets):
            errors.add("pod_sets", len(pod_sets), "must have different names")
        pods = sum(one.count for one in pod_sets)
        if pods > PODS_MAX:
            errors.add("pod_sets", pods, f"must be at most {PODS_MAX} pods together")


def _text_length(pod_set: PodSet) -> int:
    length = sum(map(len, pod_set.command)) if pod_set.command else 0
    for name, value in pod_set.environment.items():
        length += len(name) + len(value)
    return length


def _check_pod_set(path: str, pod_set: PodSet, errors: Errors) -> None:
    if not _name(pod_set.name):
        errors.add(f"{path}.name", pod_set.name, NAME_RULE)
    if not 1 <= pod_set.count <= PODS_MAX:
        errors.add(f"{path}.count", pod_set.count, f"must be 1 to {PODS_MAX}")
    elif pod_set.min_count is not None and not 1 <= pod_set.min_count <= pod_set.count:
        rule = f"must be 1 to count ({pod_set.count})"
        errors.add(f"{path}.min_count", pod_set.min_count, rule)
    if pod_set.slices:
        check_slices(f"{path}.slices", pod_set, errors)
    _check_gpu(f"{path}.gpu", pod_set.gpu, errors)
    _in_range(f"{path}.cpu_milli", pod_set.cpu_milli, 0, CPU_MILLI_MAX, errors)
    _in_range(f"{path}.memory_mib", pod_set.memory_mib, 0, MEMORY_MIB_MAX, errors)
    _in_range(f"{path}.shm_mib", pod_set.shm_mib, 0, MEMORY_MIB_MAX, errors)
    if pod_set.image and not _image(pod_set.image):
        rule = "must be an image reference of at most 1,024 characters, without spaces"
        errors.add(f"{path}.image", pod_set.image, rule)
    if pod_set.command:
        _check_command(f"{path}.command", pod_set.command, errors)
    if pod_set.environment:
        _check_environment(f"{path}.environment", pod_set.environment, errors)
    if pod_set.secrets:
        _check_references(f"{path}.secrets", pod_set.secrets, errors)
    if pod_set.volumes:
        _check_references(f"{path}.volumes", pod_set.volumes, errors)


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
    if not 1 <= gpu.milli <= 999:  # noqa: PLR2004  # a share is less than one GPU
        errors.add(f"{path}.milli", gpu.milli, "must be 1 to 999; ask for whole GPUs by count")
    if not 1 <= gpu.memory_mib <= GPU_MEMORY_MIB_MAX:
        rule = f"must be 1 to {GPU_MEMORY_MIB_MAX} beside milli: a share has its own GPU memory"
        errors.add(f"{path}.memory_mib", gpu.memory_mib, rule)


def _check_mig(path: str, gpu: GpuRequest, errors: Errors) -> None:
    if not gpu.mig_profile:
        errors.add(f"{path}.mig_count", gpu.mig_count, "goes only with mig_profile")
        return
    if not is_profile(gpu.mig_profile):
        rule = "must be a MIG profile such as 1g.10gb, 2g.20gb, 3g.40gb or 7g.80gb"
        errors.add(f"{path}.mig_profile", gpu.mig_profile, rule)
    if not 0 <= gpu.mig_count <= GPUS_PER_POD_MAX:
        errors.add(f"{path}.mig_count", gpu.mig_count, f"must be 1 to {GPUS_PER_POD_MAX}")


def _check_command(path: str, command: tuple[str, ...], errors: Errors) -> None:
    if len(command) > COMMAND_MAX:
        errors.add(path, len(command), f"must have at most {COMMAND_MAX} words")
        return
    for index, word in enumerate(command):
        if len(word) > LONG_TEXT_MAX or _long_text_unsafe(word):
            errors.add(f"{path}[{index}]", word, _LONG_TEXT_RULE)


_LONG_TEXT_RULE: Final = f"must be at most {LONG_TEXT_MAX} characters, none a control character"


def _check_environment(path: str, environment: dict[str, str], errors: Errors) -> None:
    if len(environment) > ENVIRONMENT_MAX:
        errors.add(path, len(environment), f"must have at most {ENVIRONMENT_MAX} variables")
        return
    for name, value in environment.items():
        upper = name.upper()
        if not _variable(name):
            errors.add(path, name, _VARIABLE_RULE)
        elif upper in _FORBIDDEN_VARIABLES or upper.startswith(_FORBIDDEN_PREFIXES):
            errors.add(f"{path}.{name}", value, _FORBIDDEN_RULE)
        elif len(value) > LONG_TEXT_MAX or _long_text_unsafe(value):
            errors.add(f"{path}.{name}", "(not shown)", _LONG_TEXT_RULE)


def _check_references(path: str, names: tuple[str, ...], errors: Errors) -> None:
    if len(names) > LIST_MAX:
        errors.add(path, len(names), f"must have at most {LIST_MAX} names")
        return
    for index, name in enumerate(names):
        if not _reference(name):
            errors.add(f"{path}[{index}]", name, _REFERENCE_RULE)
    if len(set(names)) < len(names):
        errors.add(path, len(names), "must not name one object twice")


def _check_choice(choice: GpuChoice, errors: Errors) -> None:
    if len(choice.products) > LIST_MAX or len(choice.preferred_products) > LIST_MAX:
        errors.add("gpu_choice.products", "(many)", f"must be at most {LIST_MAX} products")
        return
    for product in choice.products:
        if not _product(product):
            errors.add("gpu_choice.products", product, _PRODUCT_RULE)
    for product, weight in choice.preferred_products.items():
        path = "gpu_choice.preferred_products"
        if not _product(product):
            errors.add(path, product, _PRODUCT_RULE)
        else:
            _in_range(f"{path}.{product}", weight, 0, WEIGHT_MAX, errors)
    _in_range("gpu_choice.min_memory_mib", choice.min_memory_mib, 0, GPU_MEMORY_MIB_MAX, errors)
    for name in ("min_driver", "cuda"):
        text = getattr(choice, name)
        if text and not _version(text):
            errors.add(f"gpu_choice.{name}", text, "must be a version such as 12.4 or 550.54.15")
    if not _label_value(choice.node_pool):
        errors.add("gpu_choice.node_pool", choice.node_pool, _LABEL_RULE)


_PRODUCT_RULE: Final = "must be a product name such as NVIDIA-H100-80GB-HBM3"
_LABEL_RULE: Final = "must be at most 63 letters, digits, '-', '_', '.', ends alphanumeric"


def _check_labels(labels: dict[str, str], errors: Errors) -> None:
    if len(labels) > LIST_MAX:
        errors.add("labels", len(labels), f"must be at most {LIST_MAX} labels")
        return
    for key, value in labels.items():
        if not _label_key(key):
            rule = "must be a label key: an optional DNS prefix with '/', then a label"
            errors.add("labels", key, rule)
        elif key.startswith(_RESERVED_LABELS) or key.rpartition("/")[0].endswith(
            _RESERVED_DOMAINS
        ):
            errors.add("labels", key, "uses a reserved prefix; choose another")
        elif not _label_value(value):
            errors.add(f"labels.{key}", value, _LABEL_RULE)


def _check_times(spec: WorkloadSpec, errors: Errors) -> None:
    for name in _DURATIONS:
        seconds = getattr(spec, name)
        if seconds is not None and not 1 <= seconds <= SECONDS_MAX:
            errors.add(name, seconds, f"must be 1 to {SECONDS_MAX} seconds")
    expected, limit = spec.expected_duration_seconds, spec.max_duration_seconds
    if expected is not None and limit is not None and expected > limit:
        rule = f"must not be longer than max_duration_seconds ({shown(limit)})"
        errors.add("expected_duration_seconds", expected, rule)
    _in_range("max_retries", spec.max_retries, 0, RETRIES_MAX, errors)
    _in_range("grace_seconds", spec.grace_seconds, 0, GRACE_SECONDS_MAX, errors)
    _in_range("restart_seconds", spec.restart_seconds, 0, RESTART_SECONDS_MAX, errors)


_DURATIONS: Final = (
    "expected_duration_seconds",
    "max_duration_seconds",
    "checkpoint_interval_seconds",
    "idle_timeout_seconds",
    "time_to_live_seconds",
)


def _check_topology(spec: WorkloadSpec, errors: Errors) -> None:
    check_leader(spec, errors)
    required, preferred = spec.topology.required, spec.topology.preferred
    if required is None or preferred is None:
        return
    levels = list(type(required))
    if levels.index(preferred) > levels.index(required):
        rule = f"must not be wider than the required level ({required})"
        errors.add("topology.preferred", preferred.value, rule)


def _check_model(spec: WorkloadSpec, errors: Errors) -> None:
    billions = spec.model_parameters_billions
    if billions is not None and not (
        math.isfinite(billions) and 0 < billions <= PARAMETERS_BILLIONS_MAX
    ):
        rule = f"must be above 0 and at most {PARAMETERS_BILLIONS_MAX}"
        errors.add("model_parameters_billions", billions, rule)
    _in_range("model_bytes_per_parameter", spec.model_bytes_per_parameter, 1, 16, errors)


def _in_range(path: str, value: int | None, low: int, high: int, errors: Errors) -> None:
    if value is not None and not low <= value <= high:
        errors.add(path, value, f"must be {low} to {high}")
