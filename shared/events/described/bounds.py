"""What a submission or document may hold, as words of JSON Schema.

The rules are those of `core.admission` and of the gateway's documents, which judge every field at
once and in words; these are told beside, from the same constants, and judge nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shared.core.admission import form, gang, pods, volumes
from shared.core.model.nouns import WorkloadKind
from shared.core.model.priority_classes import PRIORITY_MAX
from shared.core.model.units import GPU_MILLI
from shared.core.quota import prices
from shared.core.quota.tree import FLAVORS_MAX, WEIGHT_MAX

Schema = dict[str, Any]


def _range(least: int, most: int) -> Schema:
    return {"minimum": least, "maximum": most}


def _text(rule: Callable[[str], Any], *, or_empty: bool = False) -> Schema:
    """The pattern of a rule of the core, which is the bound `fullmatch` of one."""
    pattern: str = rule.__self__.pattern  # type: ignore[attr-defined]  # a bound method
    return {"pattern": f"^(?:{pattern}){'?' if or_empty else ''}$"}


_SECONDS: Final = _range(1, form.SECONDS_MAX)
_NAME: Final = _text(pods.is_name) | {"maxLength": 63}
_NAME_OR_NONE: Final = _text(pods.is_name, or_empty=True) | {"maxLength": 63}
_VERSION_OR_NONE: Final = _text(form.is_version, or_empty=True)
_REASONS: Final = {"maxItems": pods.LIST_MAX, "items": _text(form.is_pod_reason)}
_OBJECTS: Final = {
    "maxItems": pods.LIST_MAX,
    "uniqueItems": True,
    "items": _text(pods.is_reference),
}
_WORD: Final = {"maxLength": pods.LONG_TEXT_MAX}
_PRODUCTS: Final = {"maxItems": pods.LIST_MAX, "items": _text(form.is_product)}
_LIMIT: Final = {"minimum": 0}
_QUOTA: Final[dict[str, Schema]] = {
    "weight": _range(1, WEIGHT_MAX),
    "flavors": {"maxItems": FLAVORS_MAX},
}

BOUNDS: Final[dict[str, dict[str, Schema]]] = {
    "WorkloadSpec": {
        "name": _NAME,
        "queue": _NAME_OR_NONE,
        "priority_class": _NAME_OR_NONE,
        "pod_sets": {"minItems": 1, "maxItems": form.POD_SETS_MAX},
        "labels": {
            "maxProperties": pods.LIST_MAX,
            "propertyNames": _text(form.is_label_key),
            "additionalProperties": _text(form.is_label_value),
        },
        "expected_duration_seconds": _SECONDS,
        "max_duration_seconds": _SECONDS,
        "checkpoint_interval_seconds": _SECONDS,
        "idle_timeout_seconds": _SECONDS,
        "time_to_live_seconds": _SECONDS,
        "grace_seconds": _range(0, form.GRACE_SECONDS_MAX),
        "restart_seconds": _range(0, form.RESTART_SECONDS_MAX),
        "max_retries": _range(0, form.RETRIES_MAX),
        "final_failures": _REASONS,
        "uncounted_failures": _REASONS,
        "model_parameters_billions": {
            "exclusiveMinimum": 0,
            "minimum": None,
            "maximum": form.PARAMETERS_BILLIONS_MAX,
        },
        "model_bytes_per_parameter": _range(1, 16),
    },
    "PodSet": {
        "name": _NAME,
        "count": _range(1, pods.PODS_MAX),
        "min_count": _range(1, pods.PODS_MAX),
        "slices": {"maxItems": gang.SLICES_MAX},
        "cpu_milli": _range(0, pods.CPU_MILLI_MAX),
        "memory_mib": _range(0, pods.MEMORY_MIB_MAX),
        "shm_mib": _range(0, pods.MEMORY_MIB_MAX),
        "image": _text(pods.is_artifact, or_empty=True),
        "weights": _text(pods.is_artifact, or_empty=True),
        "command": {"maxItems": pods.COMMAND_MAX, "items": _WORD},
        "arguments": {"maxItems": pods.COMMAND_MAX, "items": _WORD},
        "environment": {
            "maxProperties": pods.ENVIRONMENT_MAX,
            "propertyNames": _text(pods.is_variable),
            "additionalProperties": _WORD,
        },
        "secrets": _OBJECTS,
        "volumes": _OBJECTS | {"items": _text(volumes.is_volume)},
        "tolerations": {"maxItems": pods.LIST_MAX, "items": _text(pods.is_toleration)},
        "kubernetes_priority_class": _text(pods.is_reference, or_empty=True),
    },
    "GpuRequest": {
        "count": _range(0, pods.GPUS_PER_POD_MAX),
        "milli": _range(0, GPU_MILLI - 1),
        "memory_mib": _range(0, pods.GPU_MEMORY_MIB_MAX),
        "mig_count": _range(0, pods.GPUS_PER_POD_MAX),
    },
    "Slice": {"pods": _range(1, pods.PODS_MAX)},
    "GpuChoice": {
        "products": _PRODUCTS,
        "preferred_products": {
            "maxProperties": pods.LIST_MAX,
            "propertyNames": _text(form.is_product),
            "additionalProperties": _range(0, form.WEIGHT_MAX),
        },
        "min_memory_mib": _range(0, pods.GPU_MEMORY_MIB_MAX),
        "min_driver": _VERSION_OR_NONE,
        "cuda": _VERSION_OR_NONE,
        "node_pool": _text(form.is_label_value),
    },
    "TeamApplied": {
        "default_queue": _NAME_OR_NONE,
        "max_pending": _LIMIT,
        "loss_gpu_seconds_per_hour": _LIMIT,
    },
    "Budget": {"gpu_hours_per_month": _LIMIT, "microdollars_per_month": _LIMIT},
    "IdlePolicy": {
        "utilisation_percent_below": _range(1, 100),
        "warn_after_seconds": _LIMIT,
        "release_after_seconds": _LIMIT,
    },
    "QueueApplied": _QUOTA,
    "CohortApplied": _QUOTA,
    "FlavorApplied": {
        "price_microdollars_per_gpu_hour": _LIMIT,
        "prices": {"maxItems": prices.PRICES_MAX},
    },
    "DatedPrice": {"microdollars_per_gpu_hour": _LIMIT},
    "PriorityClassApplied": {
        "value": _range(-PRIORITY_MAX, PRIORITY_MAX),
        "kinds": {"items": {"enum": [kind.value for kind in WorkloadKind]}},
    },
}
"""By name of the struct and field. A word that is None takes away what the type alone says."""


def bound(schema: Schema, words: Schema) -> None:
    """Put `words` where `schema` says what a value that is not null must be."""
    for branch in schema.get("anyOf", ()):
        if branch.get("type") != "null":
            bound(branch, words)
            return
    for word, value in words.items():
        if value is None:
            schema.pop(word, None)
        elif isinstance(value, dict) and isinstance(schema.get(word), dict):
            bound(schema[word], value)
        else:
            schema[word] = value
