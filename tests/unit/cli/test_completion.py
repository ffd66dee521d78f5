"""What a shell completes, and that nothing that has a name is left out."""

import os
import subprocess
import sys
from typing import Any

import pytest
import typer

from muster.cli import completion
from muster.cli.application import application
from muster.client import ENDED
from services.gateway.http.authorisation import Role
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadKind
from tests.unit.cli.builders import ID, OTHER, workload
from tests.unit.cli.gateway import problem

NAMED = {
    "team", "queue", "queue_name", "node", "workload", "flavor", "state", "kind", "name",
    "priority_class", "role", "prefix",
}  # fmt: skip
"""Parameters that name what Muster knows."""
NEW = {("muster run", "name")}
"""Those that give a name."""


def test_names_and_ids_of_what_lives_are_completed(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload(), workload("queued", OTHER)]})

    assert ["train"] == completion.workloads("tr")
    assert [ID] == completion.workloads("waa")
    assert "running" in gateway.seen[0].query["state"]


def test_queues_nodes_and_states_are_completed(muster, gateway):
    gateway.on("GET /v1/queues", {"items": [{"name": "red"}, {"name": "blue"}]})
    gateway.on("GET /v1/nodes", {"items": [{"name": "h100-0"}, {"name": "a100-0"}]})

    assert ["blue"] == completion.queues("b")
    assert ["h100-0"] == completion.nodes("h")
    assert ["rejected", "running"] == sorted(completion.states("r"))[1:]


def test_a_completion_of_a_muster_that_is_away_is_empty(muster, gateway):
    gateway.on("GET /v1/workloads", problem(503, "away"))

    assert [] == completion.workloads("")


def completed(words: str) -> list[str]:
    """What bash is told for the last word."""
    asked = {
        "_MUSTER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from muster.cli import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("muster status t", ["train"]),
        ("muster events t", ["train"]),
        ("muster events -t v", ["vision"]),
        ("muster quota r", ["research-queue"]),
        ("muster quota --cohorts r", ["research-cohort"]),
        ("muster nodes --flavor h", ["h100"]),
        ("muster admin get que", ["queue"]),
        ("muster admin get P", ["PriorityClass"]),
        ("muster admin get queue r", ["research-queue"]),
        ("muster admin export team v", ["vision"]),
        ("muster admin delete Cohort r", ["research-cohort"]),
        ("muster admin get nonsense r", []),
        ("muster admin get ApiKey r", []),
        ("muster admin keys revoke -t vision a", ["abcd"]),
        ("muster admin keys revoke a", []),
        ("muster admin keys create --role m", ["member"]),
        ("muster reprioritise --to b", ["batch"]),
        ("muster queue --kind n", ["notebook"]),
    ],
)
def test_a_shell_is_told_names_of_what_there_is(muster, gateway, words, found):
    names = {
        "queues": "research-queue",
        "cohorts": "research-cohort",
        "teams": "vision",
        "flavors": "h100",
        "priority-classes": "batch",
    }
    for path, name in names.items():
        gateway.on(f"GET /v1/{path}", {"items": [{"name": name}, {"name": "other"}]})
    keys = [{"prefix": "abcd", "revoked_at_ms": None}, {"prefix": "abef", "revoked_at_ms": 1}]
    gateway.on("GET /v1/teams/vision/keys", {"items": keys})
    gateway.on("GET /v1/workloads", {"items": [workload()]})

    assert found == completed(words)


def commands(command: Any, name: str = "muster") -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(name, command)]
    parts = command.commands.items()
    return [one for word, part in parts for one in commands(part, f"{name} {word}")]


def test_whatever_has_a_name_is_completed():
    without = {
        (name, parameter.name)
        for name, command in commands(typer.main.get_command(application()))
        for parameter in command.params
        if parameter.name in NAMED and not parameter._custom_shell_complete
    }

    assert NEW == without


def test_kinds_roles_and_states_are_those_of_the_service():
    assert [*WorkloadKind] == [*completion.KINDS]
    assert [*Role] == [*completion.ROLES]
    assert {*State} == {*completion.LIVE, *ENDED}
