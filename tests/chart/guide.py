"""docs/install.md as its reader takes it: its files and its commands."""

from __future__ import annotations

import re

from deploy.local.cache import CHECKOUT

TEXT = (CHECKOUT / "docs" / "install.md").read_text()


def file_of(name: str) -> str:
    """The text of the file that the guide shows below this name."""
    found = re.search(rf"^`{re.escape(name)}`.*\n\n```yaml\n([^`]*)```", TEXT, re.MULTILINE)
    assert found, name
    return found[1]


def commands() -> list[str]:
    """Those that lead from an empty cluster to the first Job, in order."""
    found = re.search(r"```sh\n([^`]*)```", TEXT)
    assert found
    return found[1].splitlines()
