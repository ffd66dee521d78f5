"""An example organisation, cut to the fleet that is there: four teams share every flavor."""

from __future__ import annotations

from typing import Any, Final

from operations.replay.fleet import Fleet
from operations.replay.system import Document

Json = dict[str, Any]
COHORT: Final = "everybody"
SHARES_PERCENT: Final = {"language": 45, "vision": 25, "fraud": 15, "platform": 15}
"""Teams, and what each owns of every flavor."""
PROTECTED: Final = ("inference-production", "training-interactive", "training-batch")
GRANTED: Final = {"fraud": PROTECTED, "platform": PROTECTED}
"""Teams that may use protected classes; all others get every class that is not."""


MIN_RUNTIME_SECONDS: Final = 20
"""Before borrowed GPUs are taken back; short, so that a person sees it happen."""


def documents_of(fleet: Fleet) -> list[Document]:
    """Everything to apply, in the order in which it needs each other."""
    documents: list[Document] = [
        ("flavors", name, {"products": fleet.products[name]}) for name in fleet.flavors
    ]
    documents.append(("priority-classes", "deadline", {"value": 300}))
    documents.append(("cohorts", COHORT, {}))
    for team in SHARES_PERCENT:
        body: Json = {"default_queue": team}
        if team in GRANTED:
            body["priority_classes"] = [*GRANTED[team], "deadline"]
        documents.append(("teams", team, body))
    documents += [("queues", team, _queue(team, fleet)) for team in SHARES_PERCENT]
    return documents


def _queue(team: str, fleet: Fleet) -> Json:
    return {
        "team": team,
        "cohort": COHORT,
        "weight": SHARES_PERCENT[team],
        "policy": {"min_runtime_seconds": MIN_RUNTIME_SECONDS},
        "flavors": [_quota(team, name, fleet) for name in fleet.flavors],
    }


def _quota(team: str, flavor: str, fleet: Fleet) -> Json:
    percent = SHARES_PERCENT[team]
    nominal = {
        "gpu_milli": fleet.gpu_milli[flavor] * percent // 100,
        "cpu_milli": fleet.cpu_milli[flavor] * percent // 100,
        "memory_mib": fleet.memory_mib[flavor] * percent // 100,
    }
    return {"flavor": flavor, "nominal": nominal}
