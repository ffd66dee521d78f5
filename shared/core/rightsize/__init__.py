"""What would have been enough: evidence of like work, and the smallest form that it allows.

`evidence.py` says what is kept of what was seen, `judging.py` what follows (docs/adr/0094).
"""

from shared.core.rightsize.evidence import memory_class, without_counter
from shared.core.rightsize.judging import (
    Board,
    ClassEvidence,
    Form,
    HeldForm,
    SizeJudgement,
    SizeVerdict,
    judge,
)

__all__ = [
    "Board",
    "ClassEvidence",
    "Form",
    "HeldForm",
    "SizeJudgement",
    "SizeVerdict",
    "judge",
    "memory_class",
    "without_counter",
]
