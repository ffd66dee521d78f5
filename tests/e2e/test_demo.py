"""`make demo` on a fleet of 1,200 nodes: every scene sees what its caption says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system import launch

pytestmark = pytest.mark.timeout(480)
STORY_SECONDS_MAX = 400
MUSTER = "from muster.cli import main; main()"
TITLES = (
    "The fleet fills",
    "Idle quota is borrowed",
    "The owner asks for its own",
    "128 GPUs inside one block",
    "Slices and shares side by side",
    "A rack is drained",
    "Placement is killed with -9",
    "Everything is checked from outside",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(environment, what the story printed, its exit code); the system is still up."""
    folder: Path = tmp_path_factory.mktemp("demo")
    system = launch(folder, leave_out=())
    client = json.loads((folder / "client.json").read_text())
    environment = {
        **os.environ,
        "MUSTER_HOME": str(folder),
        "MUSTER_ADDRESS": client["address"],
        "MUSTER_KEY": client["key"],
        "NO_COLOR": "1",
    }
    try:
        story = subprocess.run(
            [sys.executable, "-m", "operations.demo"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=STORY_SECONDS_MAX,
            check=False,
        )
        yield environment, story
    finally:
        system.discard()


def test_every_scene_is_told_in_order_and_sees_what_it_says(told):
    _, story = told

    assert (0, "") == (story.returncode, story.stderr)
    assert list(TITLES) == re.findall(r"^\d+\. (.+?)  \(\d+ s\)$", story.stdout, re.MULTILINE)


def test_numbers_of_the_story_are_those_of_the_fleet(told):
    _, story = told
    words = " ".join(story.stdout.split())

    quota = re.search(r"uses ([\d,]+) h100 GPUs: it owns ([\d,]+) and borrows ([\d,]+)", words)
    assert quota is not None
    used, owned, borrowed = (int(one.replace(",", "")) for one in quota.groups())
    assert used >= 400 * 8
    assert (880, used - 880) == (owned, borrowed)
    assert "16 nodes of 8 GPUs" in words
    assert "0 are lost and 0 doubled" in words
    assert re.search(r"I1 no GPU is given twice [\d,]+ ok", words)


def test_passwords_are_not_printed(told):
    _, story = told

    assert re.search(r"postgresql://[^:]+:\*\*\*@", story.stdout)


def test_what_to_try_next_works_on_what_is_there(told):
    environment, story = told
    commands = re.findall(r"^  (muster .+)$", story.stdout, re.MULTILINE)

    answers = [
        subprocess.run(
            [sys.executable, "-c", MUSTER, *shlex.split(command)[1:]],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for command in commands
    ]

    assert 5 == len(commands)
    assert [(0, "")] * 5 == [(one.returncode, one.stderr) for one in answers]
    assert all(one.stdout.strip() for one in answers)
