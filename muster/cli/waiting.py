"""`muster submit --wait`: stays until all have ended, whatever becomes of the gateway meanwhile.

What is known of each workload is kept as it comes, and can be shown when the wait stops. What
ends a wait is the end of all, the time, or an answer that waiting does not mend, such as 401.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from muster.cli.outage import AWAY, Outage, events_through
from muster.cli.output import note
from muster.client import ENDED, POLL_SECONDS_MAX, POLL_SECONDS_MIN

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
POLLS_PER_SECOND: Final = 100
"""At most so many questions, however many are waited for."""
PROGRESS_SECONDS: Final = 10.0
PROGRESS_REPEATED: Final = 60
"""What has not changed is told again after so many times PROGRESS_SECONDS."""
LAST_EVENT_SECONDS: Final = 0.2
"""The last event may come just behind the last state."""


class Waiter:
    """Waits until workloads have ended, or are in a state of `until`.

    `workloads` is what was heard last of each, by its id.
    """

    def __init__(
        self, client: AsyncClient, answers: Sequence[Json], *, until: frozenset[str] = frozenset()
    ) -> None:
        self._client = client
        self._until = until | ENDED
        self._outage = Outage()
        self.workloads: dict[str, Json] = {str(one["id"]): one for one in answers}

    async def until_ended(
        self,
        seconds: float | None,
        *,
        watch: bool = False,
        teller: Coroutine[Any, Any, None] | None = None,
    ) -> None:
        """Stay until all have ended or the time is up; tell events, or now and then the states.

        `teller` runs meanwhile, and tells in place of both.
        """
        if teller is not None:
            tellers = [teller]
        else:
            tellers = [self._tell_events(one) for one in self.workloads if watch]
        told = [asyncio.create_task(one) for one in tellers or [self._tell()]]
        polls = [asyncio.create_task(self._poll(one)) for one in self.workloads]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*polls)
            await asyncio.sleep(LAST_EVENT_SECONDS if watch else 0)
        except TimeoutError:
            left = sum(one["state"] not in self._until for one in self.workloads.values())
            short_of = "ended" if self._until == ENDED else "got there"
            note(f"{left} of {len(self.workloads)} have not {short_of} in time.")
        finally:
            for task in (*told, *polls):
                task.cancel()
            await asyncio.gather(*told, *polls, return_exceptions=True)

    async def _poll(self, identifier: str) -> None:
        pause = POLL_SECONDS_MIN
        longest = max(POLL_SECONDS_MAX, len(self.workloads) / POLLS_PER_SECOND)
        while True:
            try:
                workload = await self._client.get(identifier)
            except AWAY as error:
                self._outage.begin(error)
            else:
                self._outage.end()
                self.workloads[identifier] = workload
                if workload["state"] in self._until:
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, longest)

    async def _tell_events(self, identifier: str) -> None:
        from muster.cli.events import event_line

        events = events_through(
            self._outage,
            self._client,
            identifier,
            after="0",
            heard=True,  # it was accepted
            pause_seconds=POLL_SECONDS_MAX,
        )
        async for event in events:
            note(event_line(event))

    async def _tell(self) -> None:
        """The states, when they have changed, and now and then that they have not."""
        before, silent = "", 0
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            text, silent = self._states(), silent + 1
            if text != before or silent >= PROGRESS_REPEATED:
                note(text)
                before, silent = text, 0

    def _states(self) -> str:
        states = Counter(str(one["state"]) for one in self.workloads.values())
        ended = sum(count for state, count in states.items() if state in ENDED)
        each = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        return f"{ended} of {len(self.workloads)} have ended: {each}."
