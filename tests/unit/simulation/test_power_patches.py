"""Every seeded bug still applies to the code of today."""

import subprocess

import pytest

from tests.power.__main__ import PATCHES, ROOT

ALL = sorted(PATCHES.glob("*.patch"))


def test_there_are_seeded_bugs():
    assert len(ALL) >= 6


@pytest.mark.parametrize("patch", ALL, ids=lambda one: one.stem)
def test_it_applies(patch):
    command = ["git", "apply", "--check", "--whitespace=nowarn", str(patch)]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ("", 0) == (ended.stderr, ended.returncode)
