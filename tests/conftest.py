"""What every test may use: real servers."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings

pytest_plugins = [
    "tests.fixtures.server_choice",
    "tests.fixtures.shared_folder",
    "tests.fixtures.servers",
    "tests.fixtures.kube",
    "tests.fixtures.kubelets",
    "tests.fixtures.operator_types",
    "tests.fixtures.ledger",
]

settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile(
    "ci",
    max_examples=2000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# No random example at all: what is then covered is covered whatever the seed.
settings.register_profile("written", phases=(Phase.explicit,), deadline=None)
HERE = Path(__file__).parent
MEASURED = (HERE / "unit", HERE / "properties")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make coverage` runs just so: `make test` need not run it again."""
    for item in items:
        measured = any(map(item.path.is_relative_to, MEASURED))
        left_out = item.path.is_relative_to(HERE / "unit" / "benchmarks")
        if measured and not left_out and not is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("measured")
