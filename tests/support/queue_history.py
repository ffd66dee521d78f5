"""Random histories of queues: who comes and goes, what administrators change, time, capacity.

A history is a list of steps, (name, *arguments); a number picks one of those whom it could be.
"""

from typing import Any

from shared.core.model.nouns import GpuChoice
from shared.core.model.team_policy import AtLimit, Budget
from shared.core.model.units import UNLIMITED, Resources
from shared.core.model.value import replace
from shared.core.queueing.nomination.flavor_choice import FlavorKind
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.events.quotas import FlavorQuota

HALF_LIFE_MS = 3_600_000
PRICE = 2_000_000
"""Of an hour of any GPU, in micro-dollars."""
FIRST_MS = 1_701_381_600_000
"""30 November 2023, 22:00 UTC: a month ends within a history."""
FLAVORS = ("h100", "l40s", "spot")
KINDS = {
    "h100": FlavorKind(products=("H100",)),
    "l40s": FlavorKind(products=("L40S",)),
    "spot": FlavorKind(products=("H100",), spot=True),
}
QUEUES, COHORTS = ("a", "b", "c", "d"), ("top", "left", "right")
NODES = {f"{flavor}-{at}": flavor for flavor in FLAVORS for at in (0, 1)}
"""The flavor of each."""
TEAMS = {"a": "red", "b": "red", "c": "blue", "d": "blue"}
CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"gpu_choice": GpuChoice(products=("H100",))},
    {"gpu_choice": GpuChoice(preferred_products={"L40S": 2, "H100": 1})},
    {"checkpoint_interval_seconds": 60},
)
STEPS = {
    "submit": 15,
    "finish": 5,
    "evict": 2,
    "cancel": 1,
    "hold": 1,
    "release": 1,
    "reprioritise": 2,
    "document": 3,
    "budget": 1,
    "wait": 2,
    "grow": 0.3,
    "cordon": 0.5,
    "uncordon": 1,
    "flavor": 0.5,
}
"""How often each comes."""


def any_history(draw):
    kinds = draw.choices(tuple(STEPS), STEPS.values(), k=draw.randint(5, 60))
    return [
        (kind, *ARGUMENTS.get(kind, lambda draw: (draw.randrange(30),))(draw)) for kind in kinds
    ]


def some_stay(history, draw):
    """The same history, but nobody may evict some of its work; some queues lend to it even so."""
    for step in history:
        match step:
            case ("submit", *more, _) if draw.random() < 0.5:
                yield "submit", *more, {"preemptible": False}
            case ("document", *more, policy) if draw.random() < 0.3:
                yield "document", *more, replace(policy, unevictable_may_borrow=True)
            case _:
                yield step


def any_submission(draw):
    gpus, cpu_milli = draw.choice((0, 1, 1, 1, 2, 3)), draw.choice((1_000, 1_000, 3_000))
    pods = draw.choice((1, 1, 1, 2, 3))
    return draw.choice(QUEUES), pods, gpus, cpu_milli, draw.randrange(3), draw.choice(CHOICES)


def any_document(draw):
    some = draw.choice((("h100",), ("h100",), ("h100", "spot"), ("l40s", "h100"), FLAVORS))
    limits = (0, 1, 1, 2, 2, 3, 5)
    quota = {
        one: (draw.choice(limits), *(draw.choice((None, *limits)) for _ in range(2)))
        for one in some
    }
    switches = {
        "strict": draw.random() < 0.4,
        "held": draw.random() < 0.1,
        "draining": draw.random() < 0.05,
    }
    policy = QueuePolicy(
        within_queue=draw.choice(tuple(WithinQueue)),
        reclaim=draw.choice(tuple(Reclaim)),
        fair_share=draw.random() < 0.5,
        borrow_before_preempt=draw.random() < 0.5,
        spot_first=draw.random() < 0.5,
    )
    name, parent = draw.choice((*QUEUES, *QUEUES, *COHORTS)), draw.choice(("", *COHORTS, *COHORTS))
    return name, parent, quota, draw.choice((0, 1, 1, 2)), switches, policy


def any_budget(draw):
    money = draw.choice((None, draw.randrange(9_000_000)))
    hours = draw.randrange(3) if money is None or draw.random() < 0.5 else None
    at_limit = draw.choice(tuple(AtLimit))
    budget = Budget(gpu_hours_per_month=hours, microdollars_per_month=money, at_limit=at_limit)
    return draw.choice(("red", "blue")), draw.choice((None, budget, budget))


ARGUMENTS = {
    "submit": any_submission,
    "reprioritise": lambda draw: (draw.randrange(30), draw.randrange(3)),
    "document": any_document,
    "budget": any_budget,
    "wait": lambda draw: (draw.choice((1, 4_000, 6_000, 60_000, 900_000)),),
    "grow": lambda draw: (draw.choice(tuple(NODES)),),
    "cordon": lambda draw: (draw.choice(tuple(NODES)),),
    "uncordon": lambda draw: (draw.choice(tuple(NODES)),),
    "flavor": lambda draw: (draw.choice(FLAVORS), draw.random() < 0.5),
}


def limits_of(flavors):
    return tuple(
        FlavorQuota(
            flavor=flavor,
            nominal=amount(nominal),
            borrowing_limit=borrowing if borrowing is None else amount(borrowing),
            lending_limit=lending if lending is None else amount(lending),
        )
        for flavor, (nominal, borrowing, lending) in flavors.items()
    )


def amount(gpu):
    """An odd number of GPUs has CPU for so many pods only."""
    cpu_milli = gpu * 2_000 if gpu % 2 else UNLIMITED
    return Resources(gpu_milli=gpu * 1_000, cpu_milli=cpu_milli, memory_mib=UNLIMITED)
