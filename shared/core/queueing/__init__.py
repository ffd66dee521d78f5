"""The order in which workloads are tried, and which of them rest until a change can help.

`nomination` gives permission to try, under quota. `WaitingIndex` keeps the workloads that
have it by request class: equal requests get the same answer, so a class is tried at its head only
and is inadmissible after a refusal until the room that it lacks is released. `SubmissionTimes`
orders by age.
"""

from shared.core.queueing.submission_times import SubmissionTimes
from shared.core.queueing.waiting import OrderKey, WaitingIndex

__all__ = ["OrderKey", "SubmissionTimes", "WaitingIndex"]
