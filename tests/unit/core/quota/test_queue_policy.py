"""The bounds of a queue's policy."""

import msgspec
import pytest

from shared.core.quota.queue_policy import POLICY_SECONDS_MAX, QueuePolicy, problem_of_policy
from shared.core.quota.tree import QuotaDocument, problem_of


def test_the_default_policy_has_no_problem():
    assert "" == problem_of_policy(QueuePolicy())


@pytest.mark.parametrize("seconds", [-1, POLICY_SECONDS_MAX + 1])
@pytest.mark.parametrize(
    "field", ["min_runtime_seconds", "cooldown_seconds", "preemption_delay_seconds"]
)
def test_a_wait_out_of_bounds_is_named(field: str, seconds: int):
    policy = msgspec.structs.replace(QueuePolicy(), **{field: seconds})

    assert problem_of_policy(policy).startswith(f"{field} {seconds} is not 0 to")
    document = QuotaDocument(name="q", kind="queue", version=1, policy=policy)
    assert problem_of(document).startswith(f"q: policy.{field}")
