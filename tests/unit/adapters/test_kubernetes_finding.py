"""Which container of a pod is read, as kubectl chooses it."""

import pytest

from shared.adapters.kubernetes.finding import (
    DEFAULT_CONTAINER,
    FoundPod,
    FoundSpec,
    NamedContainer,
)
from shared.adapters.kubernetes.objects import Metadata


@pytest.mark.parametrize(
    ("named", "meant"), [("", "train"), ("helper", "helper"), ("none-of-them", "train")]
)
def test_the_first_container_is_read_unless_the_pod_names_another_of_its_own(named, meant):
    containers = tuple(NamedContainer(name=one) for one in ("train", "helper"))
    metadata = Metadata(annotations={DEFAULT_CONTAINER: named})

    assert meant == FoundPod(metadata=metadata, spec=FoundSpec(containers=containers)).container
