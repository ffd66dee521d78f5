"""Every command alike: its help, its exit code, what it says when nobody answers."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from muster.cli.application import application
from tests.unit.cli.gateway import problem


def leaves(command: Any, name: str = "muster") -> Iterator[tuple[str, Any]]:
    """Each command that does something, with its whole name."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, one in command.commands.items():
        yield from leaves(one, f"{name} {word}")


def test_every_command_but_those_that_show_output_of_work_has_a_format_as_the_help_says():
    without = {
        name
        for name, command in leaves(typer.main.get_command(application()))
        if not any("-o" in parameter.opts for parameter in command.params)
    }

    theirs = {f"muster {word}" for word in ("run", "logs", "exec")}  # what the work itself writes
    assert theirs == {f"muster {name.split()[-1]}" for name in without}


@pytest.mark.parametrize("words", [["nodes"], ["--address", "http://127.0.0.1:9", "nodes"]])
def test_a_command_loads_no_other_one(words: list[str]):
    code = (
        "import sys; from muster.cli.application import run\n"
        f"try: run({[*words, '--help']!r})\n"
        "except SystemExit: pass\n"
        "print(sorted(one for one in sys.modules if one.startswith('muster.cli.')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = done.stdout.splitlines()[-1]
    assert "'muster.cli.nodes'" in loaded
    assert not any(f"'muster.cli.{one}'" in loaded for one in ("why", "admin", "submission"))


def test_each_command_is_found_alone_as_it_is_among_all():
    every = typer.main.get_command(application())

    for name, command in every.commands.items():  # type: ignore[attr-defined]  # a group
        (alone,) = typer.main.get_command(application(name)).commands.items()  # type: ignore[attr-defined]
        assert (name, command.help) == (alone[0], alone[1].help)


def test_a_mistyped_command_hears_of_those_there_are(muster):
    done = muster("noodes")

    assert done.code == 2
    assert "nodes" in done.err.replace("noodes", "")


def test_the_shell_completes_all_commands():
    environment = {**os.environ, "_MUSTER_COMPLETE": "complete_bash"}
    words = {"COMP_WORDS": "muster pre", "COMP_CWORD": "1"}
    code = "from muster.cli import main; import sys; sys.argv = ['muster', 'nodes']; main()"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | words,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "preemptions" in done.stdout


def test_an_unknown_option_is_a_usage_error(muster):
    assert muster("queue", "--nonsense").code == 2


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [(401, 4, "MUSTER_KEY"), (403, 4, "MUSTER_KEY"), (500, 1, "No"), (422, 5, "No")],
)
def test_a_refusal_exits_by_its_kind(muster, gateway, status: int, code: int, told: str):
    gateway.on("GET /v1/nodes", problem(status, "why not"))

    done = muster("nodes")

    assert done.code == code
    assert "why not" in done.err
    assert told in done.err


def test_a_server_that_is_not_there_exits_with_six(muster):
    done = muster("--address", "http://127.0.0.1:9", "nodes")

    assert done.code == 6
    assert "does not answer" in done.err
    assert "MUSTER_ADDRESS" in done.err


def test_without_an_address_it_says_where_one_can_be_given(muster, monkeypatch):
    monkeypatch.delenv("MUSTER_ADDRESS")

    done = muster("nodes")

    assert done.code == 2
    assert "--address" in done.err


def test_the_help_comes_at_once_and_has_examples():
    code = "from muster.cli import main; main()"
    started = time.perf_counter()

    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert "muster submit -f train.yaml --wait" in done.stdout
    assert time.perf_counter() - started < 3  # 0.11 s alone; a busy machine must not fail it


def test_the_help_loads_no_heavy_library():
    code = (
        "import sys; from muster.cli.application import run\n"
        "try: run(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'aiohttp', 'yaml', 'rich'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
