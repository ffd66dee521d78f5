"""What several tests of placement watch."""

import pytest

from services.placement.cycle import attempts
from shared.core.placement.place import place


@pytest.fixture
def tried(monkeypatch):
    """Names of the workloads that were tried, in order."""
    names: list[str] = []

    def watched(cluster, request):
        names.append(request.workload.id)
        return place(cluster, request)

    monkeypatch.setattr(attempts, "place", watched)
    return names
