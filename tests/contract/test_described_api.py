"""docs/openapi.json against a running gateway: schemathesis finds no deviation.

It sends what the description allows and what it forbids, to every operation, and compares the
answers: statuses, content types, headers, schemas, authentication. Its seed is printed;
`MUSTER_API_SEED` picks another, `MUSTER_API_SECONDS` gives it longer.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from services.gateway.api.routes import ROUTES
from tests.fixtures.servers import Database
from tests.support.gateway import SPEC, running_gateway, running_projection

CONFIGURATION: Final = Path(__file__).with_name("schemathesis.toml")
SECONDS: Final = int(os.environ.get("MUSTER_API_SECONDS", "60"))
SEED: Final = os.environ.get("MUSTER_API_SEED", "1")
EXAMPLES: Final = 5
"""Random ones of each operation, beside those of each boundary in the description."""


@pytest.mark.timeout(SECONDS + 600)
async def test_the_api_does_what_its_description_says(
    kafka: str, database: Database, topic_prefix: str, tmp_path: Path
):
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as gateway:
        await gateway.organise("red", "blue")
        async with running_projection(gateway.settings):
            await gateway.call("POST", "/v1/workloads?team=red", SPEC)
            print(f"schemathesis: seed {SEED}, at most {SECONDS} s")
            code, text = await _schemathesis(gateway.address, gateway.operator_key, tmp_path)

    print(text)
    assert 0 == code, text
    tested = re.search(r"Tested: +(\d+)", text)
    assert tested is not None, text
    assert len(ROUTES) - 1 == int(tested[1])  # it leaves out the address of the description


async def _schemathesis(address: str, key: str, folder: Path) -> tuple[int, str]:
    """Exit code and report of a run."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        f"--config-file={CONFIGURATION}",
        "run",
        f"{address}/openapi.json",
        f"--header=Authorization: Bearer {key}",
        f"--seed={SEED}",
        f"--max-examples={EXAMPLES}",
        f"--max-time={SECONDS}",
        "--phases=examples,coverage,fuzzing",
        "--request-timeout=30",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()
