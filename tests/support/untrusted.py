"""Input that must never get past a door, around a spec of `VALID`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

VALID = {"name": "train", "kind": "training", "pod_sets": [{"gpu": {"count": 1}}]}


def of(**fields: object) -> bytes:
    """The valid spec with other fields."""
    return json.dumps({**VALID, **fields}).encode()


def with_raw(field: str, value: bytes) -> bytes:
    """The valid spec with one more field that no encoder would write."""
    return of()[:-1] + b', "' + field.encode() + b'": ' + value + b"}"


def least_cpu_seconds(call: Callable[[], object]) -> float:
    """Of three calls: one may meet the garbage collector of a process with thousands of tests."""
    return min(_cpu_seconds(call) for _ in range(3))


def _cpu_seconds(call: Callable[[], object]) -> float:
    """Of this process alone: others may want the processor too."""
    started = time.process_time()
    call()
    return time.process_time() - started


CORPUS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", ""),
    "not JSON": (b"hello", ""),
    "truncated": (of()[:-7], ""),
    "not UTF-8": (b'{"name":"\xff","kind":"training"}', ""),
    "null": (b"null", ""),
    "a list": (b"[]", ""),
    "escaped NUL": (of(name="a\x00b"), ""),
    "raw NUL": (of(name="ab").replace(b"ab", b"a\x00b"), ""),
    "lone surrogate": (b'{"name":"\\ud800","kind":"training"}', ""),
    "lone surrogate in UTF-8": (b'{"name":"\xed\xa0\x80","kind":"training"}', ""),
    "lone surrogate behind an unknown field": (b'{"nmae":"a","\\ud800":1}', "nmae"),
    "NaN": (with_raw("model_parameters_billions", b"NaN"), ""),
    "Infinity": (with_raw("model_parameters_billions", b"Infinity"), ""),
    "1e400": (with_raw("model_parameters_billions", b"1e400"), ""),
    "100,000 open lists": (b"[" * 100_000, ""),
    "a text of escaped quotes that nobody closes": (b"[" * 21 + b'"' + b'\\"' * 30_000, ""),
    "deep objects": (with_raw("labels", b'{"a":' * 10_000 + b"1" + b"}" * 10_000), ""),
    "an integer of 5,000 digits": (with_raw("max_retries", b"9" * 5_000), ""),
    "an integer of 30 digits": (with_raw("max_retries", b"9" * 30), ""),
    "a field twice": (with_raw("name", b'"other"'), "name"),
    "a field twice, once escaped": (with_raw("n\\u0061me", b'"other"'), "name"),
    "a field of a field twice": (
        b'{"name":"a","kind":"training","pod_sets":[{"count":1,"count":2}]}',
        "count",
    ),
    "a label twice": (with_raw("labels", b'{"a":"x:y","a":"x:y"}'), "a"),
    "a truth as an integer": (of(pod_sets=[{"count": True}]), "pod_sets[0].count"),
    "a text as an integer": (of(pod_sets=[{"count": "8"}]), "pod_sets[0].count"),
    "wide digits": (of(pod_sets=[{"count": "\uff18"}]), "pod_sets[0].count"),
    "a fraction": (of(pod_sets=[{"count": 2.5}]), "pod_sets[0].count"),
    "an unknown field": (of(quue="x"), "quue"),
    "a thousand unknown fields": (of(**{f"field{i}": i for i in range(1_000)}), "field0"),
    "what identity decides": (of(team="other"), "team"),
    "a wrong type": (of(labels=["a"]), "labels"),
    "a wrong choice": (of(kind="game"), "kind"),
    "too long a name": (of(name="n" * 300), "name"),
    "too many pods": (of(pod_sets=[{"count": 4_097}]), "pod_sets[0].count"),
    "2 MB": (of(name="n" * 2_000_000), ""),
}
"""By name: the spec as bytes, and the field that the answer must name ("" for the whole)."""
