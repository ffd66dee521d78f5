"""What an agent tells of GPUs is refused where it cannot be, with the field and the rule."""

import re

import pytest

from shared.core.kubernetes.observed import CHARACTERS_MAX, GPUS_MAX, ObservedGpu, problem_of
from shared.events.nodes import GpusObserved

TOO_LONG = "x" * (CHARACTERS_MAX + 1)


def gpu(index=0, uuid="", **others):
    return ObservedGpu(index=index, uuid=uuid or f"GPU-{index}", **others)


def test_what_can_be_has_no_problem():
    assert "" == problem_of((), "")
    assert "" == problem_of((gpu(0), gpu(1), gpu(4)), "iiS")
    assert "" == problem_of((gpu(0), gpu(1), gpu(4)), "i")
    assert "" == problem_of(tuple(map(gpu, range(GPUS_MAX))), "")


@pytest.mark.parametrize(
    ("gpus", "links", "problem"),
    [
        (tuple(map(gpu, range(257))), "", "gpus: 257 are given, at most 256 are allowed"),
        ((gpu(1), gpu(0)), "", "gpus: not in order of index, each once"),
        ((gpu(1), gpu(1, "GPU-x")), "", "gpus: not in order of index, each once"),
        ((gpu(0), gpu(1, "GPU-0")), "", "gpus: a UUID is there twice"),
        ((gpu(-1),), "", "gpus[0].index, numa: must not be negative"),
        ((gpu(0), gpu(1, numa=-1)), "", "gpus[1].index, numa: must not be negative"),
        ((ObservedGpu(index=0, uuid=""),), "", "gpus[0].uuid: must not be empty"),
        ((gpu(0, TOO_LONG),), "", "gpus[0].uuid, pci, reason: more than 256 characters"),
        ((gpu(0, pci=TOO_LONG),), "", "gpus[0].uuid, pci, reason: more than 256 characters"),
        ((gpu(0, reason=TOO_LONG),), "", "gpus[0].uuid, pci, reason: more than 256 characters"),
        ((gpu(0), gpu(1), gpu(2)), "ii", "links: 2 characters, and there are 3 pairs of GPUs"),
    ],
)
def test_what_cannot_be_is_named(gpus, links, problem):
    assert problem == problem_of(gpus, links)
    with pytest.raises(ValueError, match=re.escape(problem)):
        GpusObserved(node="n", at_ms=1, gpus=gpus, links=links)
