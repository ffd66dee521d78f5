"""A short kill test in every run of the tests; `make kill-test N=60` is the long one."""

from __future__ import annotations

import pytest

from tests.support.killing import run_in_short


@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_ten_kills_lose_and_double_nothing() -> None:
    run_in_short("kill_test", rounds=10)
