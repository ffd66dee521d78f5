"""Who may be of which priority class is said at the door: of teams, then of each workload."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from services.gateway.app.context import GatewayContext
from services.gateway.documents.documents import Organisation
from services.gateway.http.problems import Problem
from services.gateway.workloads.classes import check_class
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.core.model.priority_classes import NO_SHARES
from shared.events.organisation import TeamApplied

PRODUCTION, BATCH = "inference-production", "training-batch"
WHOLE, SHARE = GpuRequest(count=1), GpuRequest(milli=500, memory_mib=8_000)


class Documents:
    """What was read before, and what is read anew."""

    def __init__(self, before: Organisation, now: Organisation) -> None:
        self._before, self._now = before, now

    async def current(self) -> Organisation:
        return self._before

    async def refresh(self) -> Organisation:
        return self._now


class Specs:
    """The read model; a workload without a spec is not read yet."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    async def fetch(self, _: str, identifiers: list[str]) -> list[dict[str, Any]]:
        return [row for row in self._rows if row["id"] in identifiers]


def a_row(identifier: str, gpu: GpuRequest | None = WHOLE, team: str = "red") -> dict[str, Any]:
    text = None
    if gpu is not None:
        spec = WorkloadSpec(name="n", kind=WorkloadKind.NOTEBOOK, pod_sets=(PodSet(gpu=gpu),))
        text = msgspec.json.encode(spec).decode()
    return {"id": identifier, "team": team, "spec": text}


def granting(**classes: tuple[str, ...]) -> Organisation:
    """Teams and what they were granted."""
    teams = {
        name: TeamApplied(name=name, version=1, default_queue=name, priority_classes=granted)
        for name, granted in classes.items()
    }
    return Organisation(teams=teams)


def a_door(
    rows: Sequence[dict[str, Any]], before: Organisation, now: Organisation
) -> GatewayContext:
    return cast(
        GatewayContext, SimpleNamespace(organisation=Documents(before, now), reader=Specs(rows))
    )


async def problems(
    name: str, *rows: dict[str, Any], before: Organisation
) -> list[tuple[str, str, str]]:
    """What is answered: field, value and rule of each error."""
    with pytest.raises(Problem) as raised:
        await check_class(a_door(rows, before, before), name, rows)
    assert raised.value.status == 400
    return [(one.field, one.value, one.rule) for one in raised.value.document.errors]


async def test_a_class_that_there_is_not_is_named_with_those_that_there_are():
    (error,) = await problems("nope", before=granting())

    known = "inference-production, training-batch, training-interactive"
    assert error == ("priority_class", "nope", f"is not a priority class; there are: {known}")


@pytest.mark.parametrize("gpu", [WHOLE, SHARE])
async def test_a_class_that_the_team_may_use_is_taken(gpu: GpuRequest):
    rows, teams = (a_row("w1", gpu),), granting(red=())

    await check_class(a_door(rows, teams, teams), BATCH, rows)


async def test_each_team_that_may_not_use_it_is_told_what_it_may():
    teams = granting(red=(), blue=(PRODUCTION,), green=(BATCH,))
    rows = [a_row(f"w{at}", team=team) for at, team in enumerate(("red", "red", "blue", "green"))]

    rules = [rule for _, _, rule in await problems(PRODUCTION, *rows, before=teams)]

    begin = "is not a priority class that team"
    assert rules == [
        f"{begin} green may use; it may use: {BATCH}",
        f"{begin} red may use; it may use: training-interactive, {BATCH}",
    ]


async def test_documents_are_read_anew_before_anybody_hears_no():
    before, now = granting(red=(BATCH,)), granting(red=(BATCH, PRODUCTION))
    rows = (a_row("w1"),)

    await check_class(a_door(rows, before, now), PRODUCTION, rows)


async def test_who_belongs_to_no_known_team_was_granted_nothing():
    assert 1 == len(await problems(PRODUCTION, a_row("w1", team="gone"), before=granting()))


async def test_each_that_runs_on_shares_is_named_where_the_class_is_protected():
    rows = (a_row("w1"), a_row("w2", SHARE), a_row("w3", None))

    found = await problems(PRODUCTION, *rows, before=granting(red=(PRODUCTION,)))

    assert found == [
        ("priority_class", PRODUCTION, f"w2: {NO_SHARES}"),
        (
            "priority_class",
            PRODUCTION,
            "w3 was taken a moment ago and is not read yet; ask again",
        ),
    ]
