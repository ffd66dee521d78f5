"""What every test may use: real servers."""

import os

from hypothesis import HealthCheck, Phase, settings

pytest_plugins = [
    "tests.fixtures.server_choice",
    "tests.fixtures.shared_folder",
    "tests.fixtures.servers",
    "tests.fixtures.kube",
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
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
