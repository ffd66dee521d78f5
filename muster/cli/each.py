"""Acting on many, one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from muster.cli.failures import Exit, UsageError, exit_code_of, show
from muster.cli.session import call
from muster.errors import MusterError, Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

Act = Callable[["AsyncClient", str], Awaitable[str]]
"""Acts on what a person has named, and says how it is really called."""


def act_on_each(names: Sequence[str], done: str, act: Act) -> Exit:
    """Act on each; one that fails is told and does not keep the others back."""

    async def run(client: AsyncClient) -> Exit:
        worst = Exit.OK
        for name in names:
            try:
                called = await act(client, name)
            except (MusterError, UsageError) as error:
                show(error)
                worst = max(worst, exit_code_of(error))
                if isinstance(error, Unreachable):
                    return worst
                continue
            print(f"{called}: {done}")
        return worst

    return call(run)
