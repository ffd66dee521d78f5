"""Is a submission well formed? Every field, before anything else looks at it.

What comes through here can be stored, printed and multiplied without a second thought: names are
DNS-1123 labels, integers are in range, strings have no control characters and bounded lengths.
Broken rules are collected, not raised, so
that a user mends all of them at once; at most `ERRORS_MAX` are told.
"""

from __future__ import annotations

import math
import re
from typing import Final

from shared.core.admission.errors import Errors, check_range, shown
from shared.core.admission.gang import check_leader, check_spread
from shared.core.admission.pods import (
    GPU_MEMORY_MIB_MAX,
    LIST_MAX,
    NAME_RULE,
    PODS_MAX,
    check_pod_set,
    is_name,
    text_length,
)
from shared.core.model.nouns import GpuChoice, PodSet, WorkloadSpec

POD_SETS_MAX: Final = 16
SPEC_TEXT_MAX: Final = 65_536
"""Characters of commands and environments of a workload together; the same through every door."""
SECONDS_MAX: Final = 366 * 86_400
GRACE_SECONDS_MAX: Final = 3_600
"""No grace period keeps another workload waiting for room longer than an hour."""
RESTART_SECONDS_MAX: Final = 86_400
RETRIES_MAX: Final = 1000
WEIGHT_MAX: Final = 1_000_000
PARAMETERS_BILLIONS_MAX: Final = 1_000_000
is_label_key = re.compile(
    r"(?:[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
).fullmatch
is_label_value = re.compile(r"(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?").fullmatch
is_product = re.compile(r"[A-Za-z0-9](?:[-_.+/() A-Za-z0-9]{0,126}[-_.+)A-Za-z0-9])?").fullmatch
is_version = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,3}").fullmatch
is_pod_reason = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}").fullmatch
"""Written as Kubernetes writes reasons: one word in camel case."""
_RESERVED_LABELS: Final = ("muster.", "muster/")
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "nvidia.com")


def check_form(spec: WorkloadSpec, errors: Errors) -> None:
    """Collect every broken rule about the form of `spec`."""
    if not is_name(spec.name):
        errors.add("name", spec.name, NAME_RULE)
    if spec.queue and not is_name(spec.queue):
        errors.add("queue", spec.queue, NAME_RULE)
    if spec.priority_class and not is_name(spec.priority_class):
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
        check_pod_set(f"pod_sets[{index}]", pod_set, errors)
    text = sum(text_length(one) for one in pod_sets)
    if text > SPEC_TEXT_MAX:
        rule = f"must have at most {SPEC_TEXT_MAX} characters of command and environment together"
        errors.add("pod_sets", text, rule)
    if len(pod_sets) > 1:
        if len({one.name for one in pod_sets}) < len(pod_sets):
            errors.add("pod_sets", len(pod_sets), "must have different names")
        pods = sum(one.count for one in pod_sets)
        if pods > PODS_MAX:
            errors.add("pod_sets", pods, f"must be at most {PODS_MAX} pods together")


def _check_choice(choice: GpuChoice, errors: Errors) -> None:
    if len(choice.products) > LIST_MAX or len(choice.preferred_products) > LIST_MAX:
        errors.add("gpu_choice.products", "(many)", f"must be at most {LIST_MAX} products")
        return
    for product in choice.products:
        if not is_product(product):
            errors.add("gpu_choice.products", product, _PRODUCT_RULE)
    for product, weight in choice.preferred_products.items():
        path = "gpu_choice.preferred_products"
        if not is_product(product):
            errors.add(path, product, _PRODUCT_RULE)
        else:
            check_range(f"{path}.{product}", weight, 0, WEIGHT_MAX, errors)
    check_range("gpu_choice.min_memory_mib", choice.min_memory_mib, 0, GPU_MEMORY_MIB_MAX, errors)
    for name in ("min_driver", "cuda"):
        text = getattr(choice, name)
        if text and not is_version(text):
            errors.add(f"gpu_choice.{name}", text, "must be a version such as 12.4 or 550.54.15")
    if not is_label_value(choice.node_pool):
        errors.add("gpu_choice.node_pool", choice.node_pool, _LABEL_RULE)


_PRODUCT_RULE: Final = "must be a product name such as NVIDIA-H100-80GB-HBM3"
_LABEL_RULE: Final = "must be at most 63 letters, digits, '-', '_', '.', ends alphanumeric"


def is_label(key: str, value: str) -> bool:
    """Whether work can have this label; an empty value is one."""
    return bool(is_label_key(key) and is_label_value(value))


def _check_labels(labels: dict[str, str], errors: Errors) -> None:
    if len(labels) > LIST_MAX:
        errors.add("labels", len(labels), f"must be at most {LIST_MAX} labels")
        return
    for key, value in labels.items():
        if not is_label_key(key):
            rule = "must be a label key: an optional DNS prefix with '/', then a label"
            errors.add("labels", key, rule)
        elif key.startswith(_RESERVED_LABELS) or key.rpartition("/")[0].endswith(
            _RESERVED_DOMAINS
        ):
            errors.add("labels", key, "uses a reserved prefix; choose another")
        elif not is_label_value(value):
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
    check_range("max_retries", spec.max_retries, 0, RETRIES_MAX, errors)
    _check_failures("final_failures", spec.final_failures, errors)
    _check_failures("uncounted_failures", spec.uncounted_failures, errors)
    for reason in sorted(set(spec.final_failures) & set(spec.uncounted_failures)):
        errors.add("uncounted_failures", reason, "must not be in final_failures as well")
    check_range("grace_seconds", spec.grace_seconds, 0, GRACE_SECONDS_MAX, errors)
    check_range("restart_seconds", spec.restart_seconds, 0, RESTART_SECONDS_MAX, errors)


_DURATIONS: Final = (
    "expected_duration_seconds",
    "max_duration_seconds",
    "checkpoint_interval_seconds",
    "idle_timeout_seconds",
    "time_to_live_seconds",
)


def _check_failures(path: str, reasons: tuple[str, ...], errors: Errors) -> None:
    if len(reasons) > LIST_MAX:
        errors.add(path, len(reasons), f"must be at most {LIST_MAX} reasons")
        return
    for index, reason in enumerate(reasons):
        if not is_pod_reason(reason):
            rule = "must be a pod's reason as Kubernetes writes it, such as OOMKilled or Error"
            errors.add(f"{path}[{index}]", reason, rule)


def _check_topology(spec: WorkloadSpec, errors: Errors) -> None:
    check_leader(spec, errors)
    check_spread(spec, errors)
    if spec.topology.numa_aligned:
        _check_alignment(spec.pod_sets, errors)
    required, preferred = spec.topology.required, spec.topology.preferred
    if required is None or preferred is None:
        return
    levels = list(type(required))
    if levels.index(preferred) > levels.index(required):
        rule = f"must not be wider than the required level ({required})"
        errors.add("topology.preferred", preferred.value, rule)


def _check_alignment(pod_sets: tuple[PodSet, ...], errors: Errors) -> None:
    for index, one in enumerate(pod_sets):
        if one.gpu.milli or one.gpu.mig_profile:
            form = "a share of a GPU" if one.gpu.milli else "MIG"
            rule = f"goes only with whole GPUs: pod_sets[{index}] asks for {form}; leave it out"
            errors.add("topology.numa_aligned", "true", rule)


def _check_model(spec: WorkloadSpec, errors: Errors) -> None:
    billions = spec.model_parameters_billions
    if billions is not None and not (
        math.isfinite(billions) and 0 < billions <= PARAMETERS_BILLIONS_MAX
    ):
        rule = f"must be above 0 and at most {PARAMETERS_BILLIONS_MAX}"
        errors.add("model_parameters_billions", billions, rule)
    check_range("model_bytes_per_parameter", spec.model_bytes_per_parameter, 1, 16, errors)
