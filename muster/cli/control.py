"""`muster cancel | hold | release | reprioritise`: act on one or many workloads."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.failures import Exit, UsageError, exit_code_of, show
from muster.cli.session import call
from muster.cli.workloads import resolve
from muster.errors import MusterError, Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
Workloads = Annotated[list[str], typer.Argument(help="Ids or names of workloads.")]


def cancel(workload: Workloads) -> None:
    """Stop workloads for good.

    Examples:
      muster cancel train-7

      muster cancel $(muster queue -t vision -s queued -o name)
    """
    _each(workload, "cancel requested", lambda client, one: client.cancel(one))


def hold(workload: Workloads) -> None:
    """Keep workloads from running until they are released.

    Example: muster hold train-7
    """
    _each(workload, "hold requested", lambda client, one: client.hold(one))


def release(workload: Workloads) -> None:
    """Let held workloads run again.

    Example: muster release train-7
    """
    _each(workload, "release requested", lambda client, one: client.release(one))


def reprioritise(
    workload: Workloads,
    priority_class: Annotated[str, typer.Option("--to", help="Name of the priority class.")],
) -> None:
    """Change the priority class of waiting workloads.

    Example: muster reprioritise train-7 --to training-interactive
    """
    _each(
        workload,
        f"change to {priority_class} requested",
        lambda client, one: client.reprioritise(one, priority_class),
    )


def _each(names: list[str], done: str, act: Callable[[AsyncClient, str], Awaitable[Json]]) -> None:
    """Act on each; one that fails is told and does not keep the others back."""

    async def run(client: AsyncClient) -> Exit:
        worst = Exit.OK
        for name in names:
            try:
                identifier = await resolve(client, name)
                await act(client, identifier)
            except (MusterError, UsageError) as error:
                show(error)
                worst = exit_code_of(error)
                if isinstance(error, Unreachable):
                    return worst
                continue
            print(f"{identifier}: {done}")
        return worst

    sys.exit(call(run))
