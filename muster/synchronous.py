"""The same client without `async`: a thin wrapper with an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Self

from muster.client import ENDED, AsyncClient
from muster.transport import TIMEOUT_SECONDS

Json = dict[str, Any]


class Client:
    """`AsyncClient` for plain code; use it as a context manager, from one thread."""

    def __init__(
        self,
        address: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._client = AsyncClient(address, key, timeout_seconds=timeout_seconds)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Open lazily: nothing is sent yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Release connections; the client is not used again."""
        self._runner.run(self._client.close())
        self._runner.close()

    def submit(
        self,
        spec: Json,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        team: str = "",
    ) -> Json:
        """Submit one workload; `team` is only for an operator with a key of no team."""
        return self._runner.run(
            self._client.submit(spec, idempotency_key=idempotency_key, dry_run=dry_run, team=team)
        )

    def submit_batch(self, submissions: Sequence[Json], *, team: str = "") -> list[Json]:
        """Submit up to 1,000 workloads in one request; `team` as of `submit`."""
        return self._runner.run(self._client.submit_batch(submissions, team=team))

    def get(self, workload_id: str) -> Json:
        """One workload as it is now."""
        return self._runner.run(self._client.get(workload_id))

    def workloads(self, *, limit: int | None = None, **filters: str) -> Iterator[Json]:
        """Workloads by team, queue, state, kind, name, label, id."""
        return self._iterate(self._client.workloads(limit=limit, **filters))

    def cancel(self, workload_id: str) -> Json:
        """Stop the workload for good."""
        return self._runner.run(self._client.cancel(workload_id))

    def hold(self, workload_id: str) -> Json:
        """Keep it from running until released."""
        return self._runner.run(self._client.hold(workload_id))

    def release(self, workload_id: str) -> Json:
        """Undo a hold."""
        return self._runner.run(self._client.release(workload_id))

    def reprioritise(self, workload_id: str, priority_class: str) -> Json:
        """Change its priority class."""
        return self._runner.run(self._client.reprioritise(workload_id, priority_class))

    def resize(self, workload_id: str, pods: int) -> Json:
        """Let an elastic gang have so many pods from now on."""
        return self._runner.run(self._client.resize(workload_id, pods))

    def evict(self, workload_id: str, note: str = "") -> Json:
        """Stop it with its grace; it is placed again. For operators."""
        return self._runner.run(self._client.evict(workload_id, note))

    def command_all(self, verb: str, selection: Json) -> Json:
        """Give a command to all workloads that `selection` means."""
        return self._runner.run(self._client.command_all(verb, selection))

    def why(self, workload_id: str, *, at_ms: int | None = None) -> Json:
        """Why it stands where it stands, or stood at `at_ms`."""
        return self._runner.run(self._client.why(workload_id, at_ms=at_ms))

    def eta(self, workload_id: str) -> Json:
        """When it is likely to start and to end."""
        return self._runner.run(self._client.eta(workload_id))

    def logs(
        self,
        workload_id: str,
        *,
        rank: int = 0,
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since_seconds: int | None = None,
    ) -> Iterator[bytes]:
        """What the pod of this rank has written, piece by piece; `follow` stays until it ends."""
        pieces = self._client.logs(
            workload_id,
            rank=rank,
            follow=follow,
            previous=previous,
            tail=tail,
            since_seconds=since_seconds,
        )
        return self._iterate(pieces)

    def execute(
        self, workload_id: str, command: Sequence[str], *, rank: int = 0
    ) -> Iterator[Json]:
        """Run a command in the pod of this rank: its output in pieces, and last its end."""
        return self._iterate(self._client.execute(workload_id, command, rank=rank))

    def usage(
        self,
        *,
        by: str = "team",
        since: str = "",
        until: str = "",
        team: str = "",
        label: str = "",
        limit: int = 500,
    ) -> Json:
        """GPU-hours of whole days (UTC), summed up by team, queue, ...."""
        return self._runner.run(
            self._client.usage(
                by=by, since=since, until=until, team=team, label=label, limit=limit
            )
        )

    def charges(self, **filters: str) -> Iterator[Json]:
        """What each workload held of a flavor in each day, at each price."""
        return self._iterate(self._client.charges(**filters))

    def rightsize(self, *, since: str = "", team: str = "", limit: int = 500) -> Json:
        """Work that would have done with less, since the Monday before a day."""
        return self._runner.run(self._client.rightsize(since=since, team=team, limit=limit))

    def week(self, *, week: str = "", team: str = "") -> Json:
        """What teams held, used and paid in the week of a day, and how their work fared."""
        return self._runner.run(self._client.week(week=week, team=team))

    def destinations(self, **filters: str) -> list[Json]:
        """How destinations of notifications stand; `team` is for operators."""
        return self._runner.run(self._client.destinations(**filters))

    def try_destination(self, name: str) -> Json:
        """Ask for a test of one destination; it is sent at once."""
        return self._runner.run(self._client.try_destination(name))

    def preemptions(self, *, limit: int = 500, **filters: str) -> list[Json]:
        """Preemptions by team and `since` (Unix milliseconds), the newest first."""
        return self._runner.run(self._client.preemptions(limit=limit, **filters))

    def wait(
        self,
        workload_id: str,
        *,
        until: frozenset[str] = ENDED,
        timeout_seconds: float | None = None,
    ) -> Json:
        """The workload once its state is in `until` or final; raises TimeoutError."""
        return self._runner.run(
            self._client.wait(workload_id, until=until, timeout_seconds=timeout_seconds)
        )

    def events(
        self, workload_id: str | None = None, *, after: str = "0", team: str = ""
    ) -> list[Json]:
        """Recorded events behind `after`; all that one may see, or a team's."""
        return self._runner.run(self._client.events(workload_id, after=after, team=team))

    def newest_events(
        self,
        workload_id: str | None = None,
        *,
        count: int,
        after: str = "0",
        team: str = "",
        since_ms: int = 0,
    ) -> tuple[list[Json], bool]:
        """The newest `count` events, the oldest first, and whether there are more in front."""
        return self._runner.run(
            self._client.newest_events(
                workload_id, count=count, after=after, team=team, since_ms=since_ms
            )
        )

    def watch(
        self, workload_id: str | None = None, *, after: str = "", team: str = ""
    ) -> Iterator[Json]:
        """Events as they happen, without end."""
        return self._iterate(self._client.watch(workload_id, after=after, team=team))

    def whoami(self) -> Json:
        """Team, role, prefix and label of the key, when it expires, and the server's version."""
        return self._runner.run(self._client.whoami())

    def listing(self, what: str, **filters: str) -> list[Json]:
        """All of "nodes", "queues", "teams", "cohorts", "flavors" or "priority-classes"."""
        return self._runner.run(self._client.listing(what, **filters))

    def node(self, name: str) -> Json:
        """One node with its devices, and the holders and amounts of each."""
        return self._runner.run(self._client.node(name))

    def fleet_summary(self, *, flavor: str = "") -> list[Json]:
        """What is free, used, in MIG mode and cordoned, by flavor, with the largest gangs."""
        return self._runner.run(self._client.fleet_summary(flavor=flavor))

    def command_node(self, name: str, verb: str, note: str = "") -> Json:
        """Cordon, uncordon, drain or fence a node. For operators."""
        return self._runner.run(self._client.command_node(name, verb, note))

    def restore_gpu(self, name: str, gpu: int, note: str = "") -> Json:
        """Vouch for one GPU of a node: it takes work again. For operators."""
        return self._runner.run(self._client.restore_gpu(name, gpu, note))

    def _iterate(self, items: Any) -> Iterator[Any]:  # noqa: ANN401  # an async generator
        try:
            while True:
                try:
                    yield self._runner.run(anext(items))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(items.aclose())
