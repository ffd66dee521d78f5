"""The command line of `muster run`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from muster.cli.documents import Document
from muster.cli.durations import seconds_of
from muster.cli.failures import Exit, exit_code_of_work
from muster.cli.running.following import follow
from muster.cli.running.options import (
    Command,
    Cpus,
    Detach,
    Env,
    Gpus,
    IdempotencyKey,
    Image,
    Kind,
    MaxDuration,
    MemoryGib,
    Name,
    Nodes,
    Pool,
    PriorityClass,
    Product,
    Queue,
    Secret,
    Team,
    Timeout,
    Volume,
)
from muster.cli.running.specification import Wishes, document_of
from muster.cli.sending import Sender, Submitted, keys_of
from muster.cli.session import call
from muster.cli.verdicts import tell_reasons, verdicts_of
from muster.client import new_key

if TYPE_CHECKING:
    from muster.client import AsyncClient


def run(
    command: Command = None,
    *,
    gpus: Gpus = 1,
    nodes: Nodes = 1,
    cpus: Cpus = None,
    memory_gib: MemoryGib = None,
    image: Image = "",
    env: Env = None,
    secret: Secret = None,
    volume: Volume = None,
    name: Name = "",
    kind: Kind = "training",
    queue: Queue = "",
    priority_class: PriorityClass = "",
    product: Product = None,
    pool: Pool = "",
    max_duration: MaxDuration = "",
    detach: Detach = False,
    timeout: Timeout = "",
    idempotency_key: IdempotencyKey = None,
    team: Team = "",
) -> None:
    """Run a command on GPUs: submit it, say why it waits, and end as it ends.

    Options stand before the command. Ctrl-C asks, and another one cancels the work; without a
    terminal the first one cancels. Exit codes: 0 it succeeded, its own if it failed (100 where it
    has none), 101 --timeout, 103 it was cancelled, 5 it is rejected. Preempted work waits again,
    and so does this.

    Examples:
      muster run --gpus 8 -- python train.py --epochs 90

      muster run --gpus 8 --nodes 2 --image registry.example/torch:2.9 -e WANDB_MODE=offline -- torchrun train.py

      id=$(muster run --gpus 1 --detach -- python evaluate.py) && muster wait $id
    """  # noqa: E501  # a line that is copied
    wishes = Wishes(
        command=command or (),
        gpus=gpus,
        nodes=nodes,
        cpus=cpus,
        memory_gib=memory_gib,
        image=image,
        environment=env or (),
        secrets=secret or (),
        volumes=volume or (),
        name=name,
        kind=kind,
        queue=queue,
        priority_class=priority_class,
        products=product or (),
        pool=pool,
        max_duration=max_duration,
    )
    seconds = seconds_of(timeout, "--timeout") if timeout else None
    sys.exit(_run(wishes, seconds, team=team, key=idempotency_key, detach=detach))


def _run(
    wishes: Wishes, seconds: float | None, *, team: str, key: str | None, detach: bool
) -> int:
    """Submit it and stay, or print its id; the exit code, of the work itself where it failed."""
    document = Document("the command line", document_of(wishes))
    key = new_key() if key is None else key
    keys = keys_of([document], key)
    submitted = Submitted()

    async def work(client: AsyncClient) -> int:
        sender = Sender(client, submitted, dry_run=False, team=team, telling=not detach)
        await sender.send([document], keys, key)
        if not submitted.answers:
            return submitted.worst
        if detach:
            return await _detached(client, submitted)
        workload = await follow(client, submitted.answers[0], seconds)
        tell_reasons([workload])
        return exit_code_of_work(workload)

    return call(work)


async def _detached(client: AsyncClient, submitted: Submitted) -> Exit:
    """Print the id, and stay a moment for what admission says."""
    print(submitted.answers[0]["id"], flush=True)
    (workload,) = await verdicts_of(client, submitted.answers)
    if workload.get("state") != "rejected":
        return submitted.worst
    tell_reasons([workload])
    return Exit.REJECTED
