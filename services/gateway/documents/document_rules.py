"""What holds for each document: bounds, and references to what does not exist.

What a document refers to must exist, so that a typing error is told at once and not found as a
queue without quota.
"""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Sequence
from typing import Any

from services.gateway.documents.documents import Organisation
from services.gateway.documents.notifications import DESTINATIONS_MAX, notification_problems
from services.gateway.documents.team_rules import (
    OTHER_NAME,
    broken,
    team_problems,
)
from shared.core.admission.pods import NAME_RULE, is_name
from shared.core.admission.products import meant
from shared.core.admission.static_fit import named
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadKind
from shared.core.model.priority_classes import PRIORITY_MAX
from shared.core.notifications.addresses import Network
from shared.core.quota.prices import PRICE_RULE, price_problems
from shared.core.quota.tree import DEPTH_MAX, FLAVORS_MAX, WEIGHT_MAX
from shared.events.organisation import (
    CohortApplied,
    FlavorApplied,
    NotificationApplied,
    PriorityClassApplied,
    QueueApplied,
    TeamApplied,
)


def problems_of(
    document: Any,  # noqa: ANN401  # one of Applied
    organisation: Organisation,
    products: Names[str] = (),
    networks: Sequence[Network] = (),
) -> list[FieldError]:
    """Every broken rule of a document: bounds, and references to what does not exist.

    `products`: those that nodes report, as far as is known; `networks`: those that are not public
    and that an operator lets notifications be sent into.
    """
    errors: list[FieldError] = []
    if not is_name(document.name):
        errors.append(broken("name", document.name, NAME_RULE))
    match document:
        case TeamApplied():
            errors += team_problems(document, organisation)
        case QueueApplied():
            errors += _queue_errors(document, organisation)
        case CohortApplied():
            errors += _cohort_errors(document, organisation)
        case PriorityClassApplied():
            errors += _class_errors(document)
        case FlavorApplied():
            errors += _flavor_errors(document, products)
        case NotificationApplied():
            errors += notification_problems(document, organisation.teams, networks)
            if document.name not in organisation.notifications and (
                len(organisation.notifications) >= DESTINATIONS_MAX
            ):
                rule = f"there are {DESTINATIONS_MAX} destinations; delete one first"
                errors.append(broken("name", document.name, rule))
        case _:
            pass
    return errors


def _class_errors(document: PriorityClassApplied) -> list[FieldError]:
    errors = [
        broken(f"kinds[{index}]", kind, "must be a kind of workload")
        for index, kind in enumerate(document.kinds)
        if kind not in set(WorkloadKind)
    ]
    if abs(document.value) > PRIORITY_MAX:
        rule = f"must be -{PRIORITY_MAX} to {PRIORITY_MAX}"
        errors.append(broken("value", str(document.value), rule))
    return errors


def _flavor_errors(flavor: FlavorApplied, products: Names[str]) -> list[FieldError]:
    """Short names of products are for submissions: quota compares what nodes report."""
    errors = []
    for index, name in enumerate(flavor.products):
        full = meant(name, products)
        if name not in full:
            rule = f"must be named as nodes report it: {named(full)}"
            errors.append(broken(f"products[{index}]", name, rule))
    price = flavor.price_microdollars_per_gpu_hour
    if price < 0:
        errors.append(broken("price_microdollars_per_gpu_hour", str(price), PRICE_RULE))
    return errors + price_problems(flavor.purchase, flavor.prices, spot=flavor.spot)


def _queue_errors(queue: QueueApplied, organisation: Organisation) -> list[FieldError]:
    errors = _quota_errors(queue, organisation)
    if queue.team not in organisation.teams:
        errors.append(broken("team", queue.team, "is not a team; apply it first"))
    if queue.cohort and queue.cohort not in organisation.cohorts:
        errors.append(broken("cohort", queue.cohort, "is not a cohort; apply it first"))
    if queue.name in organisation.cohorts:
        errors.append(broken("name", queue.name, "is the name of a cohort"))
    if ("cohort", queue.name) in organisation.deleted:
        errors.append(broken("name", queue.name, f"was the name of a cohort; {OTHER_NAME}"))
    before = organisation.queues.get(queue.name)
    if before is not None and before.team != queue.team:
        errors.append(broken("team", queue.team, f"must stay {before.team}: work waits in it"))
    return errors


def _cohort_errors(cohort: CohortApplied, organisation: Organisation) -> list[FieldError]:
    errors = _quota_errors(cohort, organisation)
    if cohort.name in organisation.queues:
        errors.append(broken("name", cohort.name, "is the name of a queue"))
    if ("queue", cohort.name) in organisation.deleted:
        errors.append(broken("name", cohort.name, f"was the name of a queue; {OTHER_NAME}"))
    seen, parent = {cohort.name}, cohort.parent
    while parent:
        if parent in seen:
            errors.append(broken("parent", cohort.parent, "must not be below this cohort"))
            break
        seen.add(parent)
        above = organisation.cohorts.get(parent)
        if above is None:
            errors.append(broken("parent", parent, "is not a cohort; apply it first"))
            break
        parent = above.parent
    if len(seen) + _height(cohort.name, organisation) > DEPTH_MAX:
        rule = f"makes the tree deeper than {DEPTH_MAX} levels, with a level for the queues"
        errors.append(broken("parent", cohort.parent, rule))
    return errors


def _height(cohort: str, organisation: Organisation) -> int:
    """Levels below a cohort; a level of queues counts, whether there are any or not."""
    level, seen, height = [cohort], {cohort}, 1
    while level := [
        one.name
        for one in organisation.cohorts.values()
        if one.parent in level and one.name not in seen
    ]:
        seen.update(level)
        height += 1
    return height


def _quota_errors(
    document: QueueApplied | CohortApplied, organisation: Organisation
) -> list[FieldError]:
    errors = []
    names = [one.flavor for one in document.flavors]
    if len(names) > FLAVORS_MAX:
        rule = f"must be at most {FLAVORS_MAX} flavors"
        errors.append(broken("flavors", str(len(names)), rule))
    for index, name in enumerate(names):
        if name not in organisation.flavors:
            rule = "is not a flavor; apply it first"
            errors.append(broken(f"flavors[{index}].flavor", name, rule))
        elif name in names[:index]:
            errors.append(broken(f"flavors[{index}].flavor", name, "must be given once"))
    if not 1 <= document.weight <= WEIGHT_MAX:
        errors.append(broken("weight", str(document.weight), f"must be 1 to {WEIGHT_MAX}"))
    return errors
