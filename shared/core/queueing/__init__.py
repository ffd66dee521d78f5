"""In which order workloads are tried, and who rests until something can help him.

`nomination` gives permission to try, under quota. `WaitingIndex` keeps who has it by request
class: equal requests get the same answer, so a class is tried at its head only and is inadmissible
after a refusal until the room that it lacks is released. `SubmissionTimes` orders by age.
"""

from shared.core.queueing.submission_times import SubmissionTimes
from shared.core.queueing.waiting import OrderKey, WaitingIndex

__all__ = ["OrderKey", "SubmissionTimes", "WaitingIndex"]
