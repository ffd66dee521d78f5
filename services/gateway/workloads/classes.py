"""Whether workloads may be of the priority class that is asked for: said before it is taken.

The same rule as at submission (core/model/priority_classes.py). Admission asks it again, in case
the documents change in between; what it drops then is not told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from services.gateway.app.context import GatewayContext
from services.gateway.documents.documents import Organisation
from services.gateway.http.problems import invalid
from services.gateway.submissions.what_if import classes_of
from services.gateway.workloads.spec_reads import ERRORS_MAX, SPECS, not_read_yet
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.priority_classes import on_shares, problem_of_class

FIELD: Final = "priority_class"
_specs: Final = msgspec.json.Decoder(WorkloadSpec)


async def check_class(
    gateway: GatewayContext, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Raise a 400 unless the class is there, and each workload of `rows` may have it.

    Documents that were read before are read anew before a refusal is answered.
    """
    organisation = await gateway.organisation.current()
    teams = sorted({row["team"] for row in rows})
    if _not_theirs(organisation, name, teams):
        organisation = await gateway.organisation.refresh()
    errors = _not_theirs(organisation, name, teams)
    if not errors and classes_of(organisation)[name].protected:
        specs = await gateway.reader.fetch(SPECS, [row["id"] for row in rows])
        found = (_on_shares(one, name, organisation) for one in specs)
        errors = [error for error in found if error is not None]
    if errors:
        raise invalid(errors[:ERRORS_MAX])


def _not_theirs(organisation: Organisation, name: str, teams: Sequence[str]) -> list[FieldError]:
    """What stands against the class for whole teams."""
    classes = classes_of(organisation)
    if name not in classes:
        rule = f"is not a priority class; there are: {', '.join(sorted(classes))}"
        return [FieldError(field=FIELD, value=name, rule=rule)]
    rules = (_problem(organisation, team, name, shares=False) for team in teams)
    return [FieldError(field=FIELD, value=name, rule=rule) for rule in rules if rule]


def _on_shares(row: Mapping[str, Any], name: str, organisation: Organisation) -> FieldError | None:
    """What stands against it for one workload."""
    if not row["spec"]:
        return FieldError(field=FIELD, value=name, rule=not_read_yet(row["id"]))
    shares = on_shares(_specs.decode(row["spec"]))
    rule = _problem(organisation, row["team"], name, shares=shares)
    return FieldError(field=FIELD, value=name, rule=f"{row['id']}: {rule}") if rule else None


def _problem(organisation: Organisation, team: str, name: str, *, shares: bool) -> str:
    policy = organisation.teams.get(team)
    granted = policy.priority_classes if policy is not None else ()
    return problem_of_class(name, team, granted, classes_of(organisation), shares=shares)
