"""What operators and markets do while work runs: quotas change, queues stop, nodes go.

Each disturbance is undone a few seconds later, all of them at the end. Quotas change by the
version that was read (ETag), as operators change them. What is counted has happened: a quota
counts as lowered only if more was used than the new one allows, and a node as drained, announced
or failed only if work was evicted for it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import aiohttp

from muster.client import AsyncClient
from muster.errors import Changed
from tests.support.killing import patient
from tests.support.system import Stage

Undo = Callable[[], Awaitable[None]]
KINDS: Final = (
    "raise",
    "lower",
    "hold",
    "drain-queue",
    "drain-node",
    "notice",
    "cordon",
    "down",
    "device",
)
DRAINING_XIDS: Final = (48, 62, 95, 119)
"""Errors of memory, and those that ask for a reset."""
PAUSE_SECONDS: Final = (0.8, 2.0)
LASTS_SECONDS: Final = (2.0, 5.0)
NOTICE_SECONDS: Final = 3
EVICTS_SECONDS_MAX: Final = 4.0
"""So long it takes until those on a node are evicted, or nobody was."""
ANSWER_SECONDS_MAX: Final = 60.0
QUIET_SECONDS: Final = 4.0
"""After the end no node is cordoned for so long."""
LATE_MAX: Final = 10
"""Disturbances after the end, of kinds that have not happened."""
_OPEN: Final = {"held": None, "draining": None}
_EVICTED_WITH: Final = (
    "SELECT count(*) FROM gateway.event WHERE type = 'muster.workload.evicted.v1'"
    " AND starts_with(message, $1)"
)


class Disturbances:
    """One at a time, in turns of all kinds; `done` counts them."""

    def __init__(
        self,
        stage: Stage,
        client: AsyncClient,
        queues: Mapping[str, dict[str, Any]],
        *,
        nodes: Mapping[str, Sequence[str]],
        seed: int,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.in_vain: Counter[str] = Counter()
        """Without effect: nobody was there to evict, or a killed fleet forgot the notice."""
        self._stage = stage
        self._client = client
        self._queues = queues
        self._nodes = nodes
        """By flavor."""
        self._random = random.Random(seed)
        self._undo: dict[str, tuple[float, Undo]] = {}
        """By what was changed: when to undo it, and how."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop and each kind has happened; then everything is undone."""
        deck: list[str] = []
        late = 0
        while not stop.is_set() or (late < LATE_MAX and self.missing):
            late += stop.is_set()
            kinds = self.missing if stop.is_set() else KINDS
            deck = [one for one in deck if one in kinds] or self._random.sample(kinds, len(kinds))
            await self._begin(deck.pop())
            await asyncio.sleep(self._random.uniform(*PAUSE_SECONDS))
            await self._undo_due(time.monotonic())
        await self._undo_due(float("inf"))
        await self._open_again()

    async def _open_again(self) -> None:
        """A notice that a slow fleet told after its node was given back has cordoned it anew."""
        now = time.monotonic()
        deadline, quiet = now + ANSWER_SECONDS_MAX, now + QUIET_SECONDS
        while time.monotonic() < min(deadline, quiet):
            for one in await self._client.listing("nodes"):
                if one["cordoned"]:
                    await self.order(one["name"], "uncordon")
                    quiet = time.monotonic() + QUIET_SECONDS
            await asyncio.sleep(0.5)

    @property
    def missing(self) -> list[str]:
        """The kinds that have not happened yet."""
        return [one for one in KINDS if not self.done[one]]

    async def _undo_due(self, now: float) -> None:
        for name, (due, undo) in list(self._undo.items()):
            if due <= now:
                del self._undo[name]
                await undo()

    async def _begin(self, kind: str) -> None:
        acts = {
            "raise": self._raise,
            "lower": self._lower,
            "hold": self._hold,
            "drain-queue": self._drain_queue,
            "drain-node": lambda: self._command_node("drain"),
            "cordon": lambda: self._command_node("cordon"),
            "notice": self._notice,
            "down": self._down,
            "device": self._device,
        }
        happened = await acts[kind]()
        (self.done if happened else self.in_vain)[kind] += 1

    def _later(self, name: str, undo: Undo) -> bool:
        self._undo[name] = (time.monotonic() + self._random.uniform(*LASTS_SECONDS), undo)
        return True

    # ── quotas ───────────────────────────────────────────────────────────────

    async def _raise(self) -> bool:
        """Half as much again as a queue owns."""
        name = self._random.choice([one for one in self._queues if one not in self._undo])
        body = self._queues[name]
        return await self._change(name, {**body, "flavors": _times(body["flavors"], 3, 2)})

    async def _lower(self) -> bool:
        """To half of what it uses, and nothing borrowed; of the queue that uses most."""
        used = {one["name"]: one["flavors"] for one in await self._client.listing("queues")}
        free = [one for one in self._queues if one not in self._undo]
        name = max(free, key=lambda one: sum(each["used"]["gpu_milli"] for each in used[one]))
        flavors = [
            {"flavor": each["flavor"], "nominal": _half(each["used"]), "borrowing_limit": {}}
            for each in used[name]
        ]
        return await self._change(name, {**self._queues[name], "flavors": flavors}) and any(
            each["used"]["gpu_milli"] for each in used[name]
        )

    async def _hold(self) -> bool:
        """Nothing of a queue is started; the more of it runs, the likelier it is this one."""
        running = await self._running()
        name = max(running, key=lambda one: (running[one] + 1) * self._random.random())
        return await self._change(name, {**self._queues[name], "held": True}) and running[name] > 0

    async def _drain_queue(self) -> bool:
        """What runs of a queue goes, too; of the one of which most runs.

        Waits until it is empty, as an operator would: while the broker is away nobody hears of a
        drain, and what runs may end by itself meanwhile.
        """
        running = await self._running()
        name = max(running, key=lambda one: (running[one], one))
        message = f"queue {name} is drained"
        before = await self._evicted(message)
        await self._change(name, {**self._queues[name], "draining": True})
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while (await self._running(name))[name] and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return await self._evicted(message) > before

    async def _evicted(self, message: str) -> int:
        """How many workloads were evicted with a message that begins like this."""
        query = _EVICTED_WITH
        count: int = await patient(lambda: self._stage.rows.fetchval(query, message))
        return count

    async def _running(self, *names: str) -> dict[str, int]:
        """How many workloads run of these queues, or of each that is as it was."""
        found = {one["name"]: one["workloads"] for one in await self._client.listing("queues")}
        names = names or tuple(one for one in self._queues if one not in self._undo)
        return {one: found[one].get("running", 0) for one in names}

    async def _change(self, name: str, body: dict[str, Any]) -> bool:
        async def back() -> None:
            await self._apply(name, {**_OPEN, **self._queues[name]})

        await self._apply(name, body)
        return self._later(name, back)

    async def _apply(self, name: str, body: dict[str, Any]) -> None:
        while True:
            found = await self._client.document("queues", name)
            assert found is not None
            try:
                await self._client.apply("queues", name, body, etag=found[1])
            except Changed:
                continue
            return

    # ── nodes ────────────────────────────────────────────────────────────────

    async def _command_node(self, verb: str) -> bool:
        name = await self._node("h100")
        before = await self._evicted(f"node {name} is drained")
        await self.order(name, verb)
        self._later(name, lambda: self.order(name, "uncordon"))
        return verb != "drain" or await self._evicts(f"node {name} is drained", before)

    async def _notice(self) -> bool:
        """The market wants a node back, takes it in time, and gives another of its name later."""
        name = await self._node("spot")
        before = await self._evicted(f"node {name} will be gone")
        await self.fleet(f"{name}/notice?seconds={NOTICE_SECONDS}")

        async def back() -> None:
            await self.fleet(f"{name}/down?reason=spot")
            await self.fleet(f"{name}/up")
            await self.order(name, "uncordon")

        self._later(name, back)
        return await self._evicts(f"node {name} will be gone", before)

    async def _down(self) -> bool:
        """A machine fails without a word, and comes back."""
        name = await self._node("h100")
        before = await self._evicted(f"node {name} is lost")
        await self.fleet(f"{name}/down")
        self._later(name, lambda: self.fleet(f"{name}/up"))
        return await self._evicts(f"node {name} is lost", before)

    async def _device(self) -> bool:
        """The driver of a GPU reports errors; those of memory stop what runs on it."""
        name, gpu = await self._node("h100"), self._random.randrange(8)
        text = f"GPU {gpu} of node {name} is taken out of service"
        before = await self._evicted(text)
        for code in (13, 63, self._random.choice(DRAINING_XIDS)):
            await self.fleet(f"{name}/gpus/{gpu}/tell?kind=xid&code={code}")
        self._later(name, lambda: self.order(name, "uncordon"))
        return await self._evicts(text, before)

    async def _evicts(self, message: str, before: int) -> bool:
        """Whether more were evicted with this message than before."""
        deadline = time.monotonic() + EVICTS_SECONDS_MAX
        while (more := await self._evicted(message) - before) == 0:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        return more > 0

    async def _node(self, flavor: str) -> str:
        """One that is as it was; the more of it is used, the likelier it is this one."""
        found = await self._client.listing("nodes")
        used = {one["name"]: one["used_gpu_milli"] for one in found if one["flavor"] == flavor}
        free = [one for one in self._nodes[flavor] if one not in self._undo]
        return max(free, key=lambda one: (used.get(one, 0) + 1) * self._random.random())

    async def order(self, node: str, verb: str) -> None:
        """An operator's command to a node."""
        body = {"note": "test"} if verb != "uncordon" else {}
        await self._post(self._stage.api, f"/v1/nodes/{node}/{verb}", body)

    async def fleet(self, path: str) -> None:
        """A request to the simulated machines."""
        async with aiohttp.ClientSession() as session:
            await self._post(session, f"{self._stage.system.url('fleet')}/v1/nodes/{path}", {})

    async def _post(self, session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
        """Until it is taken: whoever should take it may just have been killed."""
        deadline, status = time.monotonic() + ANSWER_SECONDS_MAX, 0
        while status not in (200, 202):
            assert time.monotonic() < deadline, f"POST {url}: {status}"
            try:
                async with session.post(url, json=body) as reply:
                    status = reply.status
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(0.2)


def _times(flavors: Sequence[Mapping[str, Any]], more: int, parts: int) -> list[dict[str, Any]]:
    return [
        {
            "flavor": each["flavor"],
            "nominal": {unit: value * more // parts for unit, value in each["nominal"].items()},
        }
        for each in flavors
    ]


def _half(used: Mapping[str, int]) -> dict[str, int]:
    return {unit: value // 2 for unit, value in used.items()}
