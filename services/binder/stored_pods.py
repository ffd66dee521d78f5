"""The pods of an attempt as its row keeps them: what many pods are made from is kept once.

A gang of thousands has a few pod sets, each with up to 64 KiB of command and environment.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from shared.core.model.nouns import PodSet
from shared.ports.cluster import Pod, PodTemplate


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """`templates` by the name of their pod set; in a pod only that name is left of its own."""

    pods: tuple[Pod, ...] = ()
    templates: dict[str, PodTemplate] = msgspec.field(default_factory=dict)


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Stored)


def written(pods: tuple[Pod, ...]) -> str:
    """The text of a row. O(pods + text of the pod sets)."""
    templates = {pod.template.pod_set.name: pod.template for pod in pods}
    named = {name: PodTemplate(pod_set=PodSet(name=name)) for name in templates}
    bare = tuple(replace(pod, template=named[pod.template.pod_set.name]) for pod in pods)
    return _encoder.encode(_Stored(pods=bare, templates=templates)).decode()


def read(text: str) -> tuple[Pod, ...]:
    """What was written, every pod with its template."""
    stored = _decoder.decode(text)
    return tuple(
        replace(pod, template=stored.templates[pod.template.pod_set.name]) for pod in stored.pods
    )
