"""What the end of a pod means, by the reason that the cluster gave."""

import pytest

from shared.core.admission.recorded_reasons import recorded
from shared.core.model.reason import Reason
from shared.core.nodes.pod_failures import FailureCause, cause_of_failure, never_starts


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("UnexpectedAdmissionError", FailureCause.KUBELET_REFUSED),
        ("OutOfcpu", FailureCause.KUBELET_REFUSED),
        ("OutOfnvidia.com/gpu", FailureCause.KUBELET_REFUSED),
        ("NodeAffinity", FailureCause.KUBELET_REFUSED),
        ("Evicted", FailureCause.TAKEN_AWAY),
        ("Terminated", FailureCause.TAKEN_AWAY),
        ("DeletionByPodGC", FailureCause.TAKEN_AWAY),
        ("Unknown", FailureCause.TAKEN_AWAY),
        ("ContainerStatusUnknown", FailureCause.TAKEN_AWAY),
        ("OOMKilled", FailureCause.WORK),
        ("Error", FailureCause.WORK),
        ("DeadlineExceeded", FailureCause.WORK),
        ("", FailureCause.WORK),
    ],
)
def test_the_reason_tells_who_ended_a_pod(reason, cause):
    assert cause_of_failure(reason) is cause


def test_what_was_being_deleted_when_it_ended_was_taken_away_unless_the_kubelet_refused_it():
    assert cause_of_failure("Error", deleted=True) is FailureCause.TAKEN_AWAY
    assert cause_of_failure("OutOfpods", deleted=True) is FailureCause.KUBELET_REFUSED


def test_an_image_that_is_not_pulled_yet_may_heal_and_a_missing_secret_does_not():
    assert never_starts("CreateContainerConfigError")
    assert not never_starts("ImagePullBackOff")
    assert not never_starts("")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("drained", ""), (Reason.DRAINED, "")),
        (("", ""), (Reason.NONE, "")),
        (("failed", "OOMKilled"), (Reason.FAILED, "OOMKilled")),
        (("OOMKilled", ""), (Reason.FAILED, "OOMKilled")),
        (("HTTP 500", ""), (Reason.UNKNOWN, "HTTP 500")),
        (("rained-on", "Error"), (Reason.UNKNOWN, "Error")),
        (("\x1b[31m" + "x" * 200, ""), (Reason.UNKNOWN, "\\u001b[31m" + "x" * 95 + "...")),
    ],
    ids=["code", "none", "both", "an older one", "odd", "a newer one", "unprintable"],
)
def test_what_any_version_recorded_is_a_code_and_the_pods_own_reason(written, read):
    assert read == recorded(*written)
