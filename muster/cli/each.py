"""Acting on many, one after the other, and telling what was asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from muster.cli.failures import Exit, UsageError, exit_code_of, show
from muster.cli.output import Format, show_items
from muster.cli.session import call
from muster.errors import MusterError, Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

Act = Callable[["AsyncClient", str], Awaitable[tuple[str, str]]]
"""Acts on what a person has named: its real name, and the result where it is not the usual one."""


class Told:
    """What was done so far: a line each as it is done, or one document of all at the end."""

    def __init__(self, done: str, output: Format, *, name: str) -> None:
        self._done = done
        self._output = output
        self._name = name
        self._items: list[dict[str, Any]] = []

    def add(self, called: str, result: str = "") -> None:
        """One more, with a result of its own or the usual; a reader of lines has it at once."""
        result = result or self._done
        if self._output in (Format.JSON, Format.YAML):
            self._items.append({self._name: called, "result": result})
        else:
            print(called if self._output is Format.NAME else f"{called}: {result}", flush=True)

    def end(self) -> None:
        """No more will come; a document has what came."""
        if self._output in (Format.JSON, Format.YAML):
            show_items(self._items, self._output, ())


def act_on_each(names: Sequence[str], told: Told, act: Act) -> Exit:
    """Act on each; one that fails is told and does not keep the others back."""

    async def run(client: AsyncClient) -> Exit:
        worst = Exit.OK
        for name in names:
            try:
                told.add(*await act(client, name))
            except (MusterError, UsageError) as error:
                show(error)
                worst = max(worst, exit_code_of(error))
                if isinstance(error, Unreachable):
                    break
        return worst

    try:
        return call(run)
    finally:
        told.end()
