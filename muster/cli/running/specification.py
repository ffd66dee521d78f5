"""From the options of `muster run` to the document that is submitted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from muster.cli.durations import seconds_of
from muster.cli.failures import UsageError

Json = dict[str, Any]
NAME_CHARACTERS_MAX: Final = 63
MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the options say; an empty value says nothing, and the service's default holds.

    `gpus`, `cpus` and `memory_gib` are those of each pod; there is one pod on each of `nodes`.
    """

    command: Sequence[str]
    gpus: int = 1
    nodes: int = 1
    cpus: float | None = None
    memory_gib: int | None = None
    image: str = ""
    environment: Sequence[str] = ()
    secrets: Sequence[str] = ()
    volumes: Sequence[str] = ()
    name: str = ""
    kind: str = "training"
    queue: str = ""
    priority_class: str = ""
    products: Sequence[str] = ()
    pool: str = ""
    max_duration: str = ""


def document_of(wishes: Wishes) -> Json:
    """The document to submit.

    Raises:
        UsageError: there is nothing to run, or an option is not what it must be.
    """
    if not wishes.command and not wishes.image:
        raise UsageError(
            "say what to run, such as `muster run --gpus 8 -- python train.py`, or an --image"
        )
    document: Json = {
        "name": wishes.name or name_of(wishes.command) or name_of([wishes.image]),
        "kind": wishes.kind,
        "queue": wishes.queue,
        "priority_class": wishes.priority_class,
        "pod_sets": [_pod_set(wishes)],
        "gpu_choice": _given({"products": list(wishes.products), "node_pool": wishes.pool}),
        "spread": "required" if wishes.nodes > 1 else "",
    }
    if wishes.max_duration:
        seconds = seconds_of(wishes.max_duration, "--max-duration")
        document["max_duration_seconds"] = max(int(seconds), 1)
    return _given(document)


def _pod_set(wishes: Wishes) -> Json:
    pod_set: Json = {
        "count": wishes.nodes,
        "gpu": _given({"count": wishes.gpus}),
        "image": wishes.image,
        "command": list(wishes.command),
        "environment": environment_of(wishes.environment, os.environ),
        "secrets": list(wishes.secrets),
        "volumes": list(wishes.volumes),
    }
    if wishes.cpus is not None:
        pod_set["cpu_milli"] = round(wishes.cpus * 1000)
    if wishes.memory_gib is not None:
        pod_set["memory_mib"] = wishes.memory_gib * MIB_PER_GIB
    return {name: value for name, value in pod_set.items() if value not in ("", [], {})}


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value}


def environment_of(words: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    """Variables of KEY=VALUE, or of KEY alone with the value that it has in `own`.

    Raises:
        UsageError: it has no name, or no value here.
    """
    variables = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise UsageError(f"--env must be KEY=VALUE, or KEY as it is set here (given: {word})")
        if not equals and name not in own:
            raise UsageError(f"--env {name}: it is not set here; write {name}=VALUE")
        variables[name] = value if equals else own[name]
    return variables


def name_of(command: Sequence[str]) -> str:
    """A name by the program: `train-main` of `python -m train.main`; empty of no words."""
    words = list(command)
    module = words[words.index("-m") + 1 : words.index("-m") + 2] if "-m" in words else []
    scripts = [PurePosixPath(word).stem for word in words if word.endswith((".py", ".sh"))]
    program = [PurePosixPath(word).name.partition(":")[0] for word in words[:1]]
    chosen = (module + scripts + program)[:1]
    text = re.sub(r"[^a-z0-9]+", "-", chosen[0].lower()) if chosen else ""
    return text.strip("-")[:NAME_CHARACTERS_MAX].strip("-") or ("run" if chosen else "")
