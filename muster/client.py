"""The asynchronous client: one method for each route of the gateway.

Answers are plain JSON values as documented in docs/openapi.json. Safe to call again and again:
every submission carries an idempotency key (made here when the caller names none), so a request
with a lost answer is simply sent once more and gives the same workload.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from muster.errors import NotFound, Unreachable
from muster.transport import Json, Transport, backoff_seconds

ENDED: Final = frozenset({"succeeded", "failed", "cancelled", "rejected"})
PAGE_ITEMS: Final = 500
POLL_SECONDS_MIN: Final = 0.1
POLL_SECONDS_MAX: Final = 2.0


class AsyncClient(Transport):
    """Talks to one Muster as one caller; use it as an asynchronous context manager.

    Without arguments, address and key are found as `muster.configuration` says. Every method
    raises the errors of `muster.errors`.
    """

    # ── workloads ────────────────────────────────────────────────────────────

    async def submit(
        self,
        spec: Json,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        team: str = "",
    ) -> Json:
        """Submit one workload: `{"id", ...}`; with `dry_run` only the verdict is given.

        `team` is only for an operator with a key of no team. An empty key is sent, and
        refused: a caller that names one must not get another.
        """
        headers = {"Idempotency-Key": new_key() if idempotency_key is None else idempotency_key}
        query = {"dryRun": "true"} if dry_run else {}
        query |= {"team": team} if team else {}
        return await self._json("POST", "/v1/workloads", body=spec, headers=headers, query=query)

    async def submit_batch(self, submissions: Sequence[Json], *, team: str = "") -> list[Json]:
        """Submit up to 1,000 workloads, each `{"idempotency_key", "spec"}`: one answer each.

        `team` is only for an operator with a key of no team.
        """
        items = [{"idempotency_key": new_key(), **one} for one in submissions]
        query = {"team": team} if team else {}
        body = {"items": items}
        answer = await self._json("POST", "/v1/workloads:batch", body=body, query=query)
        return list(answer["items"])

    async def get(self, workload_id: str) -> Json:
        """One workload as it is now."""
        return await self._json("GET", f"/v1/workloads/{_segment(workload_id)}")

    async def workloads(self, *, limit: int | None = None, **filters: str) -> AsyncIterator[Json]:
        """Workloads by team, queue, state, kind, name, label, id; all pages unless `limit`.

        `id` is a list of ids, or of the first characters of ids, with commas between.
        """
        async for item in self._pages("/v1/workloads", filters, limit):
            yield item

    async def _pages(
        self, path: str, filters: Mapping[str, str], limit: int | None = None
    ) -> AsyncIterator[Json]:
        """The items of all pages, or the first `limit`."""
        left = limit if limit is not None else 1 << 62
        query = {name: value for name, value in filters.items() if value}
        while left > 0:
            query["limit"] = str(min(left, PAGE_ITEMS))
            page = await self._json("GET", path, query=query)
            for item in page["items"]:
                yield item
            left -= len(page["items"])
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    async def cancel(self, workload_id: str) -> Json:
        """Stop the workload for good."""
        return await self._act(workload_id, "cancel")

    async def hold(self, workload_id: str) -> Json:
        """Keep it from running until released."""
        return await self._act(workload_id, "hold")

    async def release(self, workload_id: str) -> Json:
        """Undo a hold."""
        return await self._act(workload_id, "release")

    async def reprioritise(self, workload_id: str, priority_class: str) -> Json:
        """Change its priority class."""
        return await self._act(workload_id, "reprioritise", {"priority_class": priority_class})

    async def resize(self, workload_id: str, pods: int) -> Json:
        """Let an elastic gang have so many pods from now on; the same again changes nothing."""
        return await self._act(workload_id, "resize", {"pods": pods})

    async def evict(self, workload_id: str, note: str = "") -> Json:
        """Stop it with its grace; it keeps its place and is placed again. For operators."""
        return await self._act(workload_id, "evict", {"note": note})

    async def command_all(self, verb: str, selection: Json) -> Json:
        """Give a command (cancel, hold, release, reprioritise, resize, evict) to all selected.

        `selection` has labels, queue, state or ids, and what the command needs; the answer has
        `ids`, at most 1,000, and `more`: then ask again with the last of them as `after`.
        """
        return await self._json("POST", f"/v1/workloads:{verb}", body=selection)

    async def why(self, workload_id: str, *, at_ms: int | None = None) -> Json:
        """Why it stands where it stands: reason, message, next step, evidence, place, limits.

        `at_ms` asks why it was so at a moment in the past, Unix milliseconds.
        """
        query = {"at": str(at_ms)} if at_ms is not None else None
        return await self._json("GET", f"/v1/workloads/{_segment(workload_id)}/why", query=query)

    async def eta(self, workload_id: str) -> Json:
        """When it is likely to start and to end: ranges with their basis."""
        return await self._json("GET", f"/v1/workloads/{_segment(workload_id)}/eta")

    def logs(
        self,
        workload_id: str,
        *,
        rank: int = 0,
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since_seconds: int | None = None,
    ) -> AsyncIterator[bytes]:
        """What the pod of this rank has written, piece by piece; `follow` stays until it ends.

        `previous` is the attempt before this one. Raises `Rejected` where there are no logs.
        """
        query = {"rank": str(rank)} if rank else {}
        query |= {"follow": "true"} if follow else {}
        query |= {"previous": "true"} if previous else {}
        query |= {"tail": str(tail)} if tail is not None else {}
        query |= {"sinceSeconds": str(since_seconds)} if since_seconds is not None else {}
        return self._bytes(f"/v1/workloads/{_segment(workload_id)}/logs", query)

    def execute(
        self, workload_id: str, command: Sequence[str], *, rank: int = 0
    ) -> AsyncIterator[Json]:
        """Run a command in the pod of this rank: its output in pieces, and last its end.

        Each is `{"stdout": base64}`, `{"stderr": base64}`, `{"exit_code": n}` or `{"error": why}`.
        It is never sent twice.
        """
        body = {"command": list(command), "rank": rank}
        return self._lines(f"/v1/workloads/{_segment(workload_id)}/exec", body)

    async def destinations(self, **filters: str) -> list[Json]:
        """How destinations of notifications stand; `team` is for operators."""
        query = {name: value for name, value in filters.items() if value}
        found: list[Json] = (await self._json("GET", "/v1/destinations", query=query))["items"]
        return found

    async def try_destination(self, name: str) -> Json:
        """Ask for a test of one destination; it is sent at once."""
        return await self._json("POST", f"/v1/notifications/{name}/test")

    async def preemptions(self, *, limit: int = PAGE_ITEMS, **filters: str) -> list[Json]:
        """Preemptions by team and `since` (Unix milliseconds), the newest first."""
        query = {name: value for name, value in filters.items() if value}
        items: list[Json] = []
        while len(items) < limit:
            query["limit"] = str(min(limit - len(items), PAGE_ITEMS))
            page = await self._json("GET", "/v1/preemptions", query=query)
            items += page["items"]
            if not page["next_cursor"]:
                break
            query["cursor"] = page["next_cursor"]
        return items

    async def usage(
        self,
        *,
        by: str = "team",
        since: str = "",
        until: str = "",
        team: str = "",
        label: str = "",
        limit: int = PAGE_ITEMS,
    ) -> Json:
        """GPU-hours of whole days (UTC), such as 2026-11-01, summed up by team, queue, ....

        Amounts are GPU-milliseconds and millionths of a dollar; `until` is the day after the last.
        By label, `label` is its key.
        """
        filters = {"by": by, "label": label, "since": since, "until": until, "team": team}
        query = {name: value for name, value in filters.items() if value}
        return await self._json("GET", "/v1/usage", query=query | {"limit": str(limit)})

    async def charges(self, **filters: str) -> AsyncIterator[Json]:
        """What each workload held of a flavor in each day, at each price, in the order of days.

        Filters are `since` and `until` (days) and `team`.
        """
        async for item in self._pages("/v1/usage/charges", filters):
            yield item

    async def rightsize(self, *, since: str = "", team: str = "", limit: int = PAGE_ITEMS) -> Json:
        """Work that would have done with less, since the Monday before a day such as 2026-11-01.

        Amounts are GPU-milliseconds and millionths of a dollar.
        """
        filters = {"since": since, "team": team, "limit": str(limit)}
        query = {name: value for name, value in filters.items() if value}
        return await self._json("GET", "/v1/rightsize", query=query)

    async def week(self, *, week: str = "", team: str = "") -> Json:
        """What teams held, used and paid in the week of a day such as 2026-11-16, and more.

        The last whole week where none is named. Amounts are as those of `usage`.
        """
        filters = {"week": week, "team": team}
        query = {name: value for name, value in filters.items() if value}
        return await self._json("GET", "/v1/report", query=query)

    async def wait(
        self,
        workload_id: str,
        *,
        until: frozenset[str] = ENDED,
        timeout_seconds: float | None = None,
    ) -> Json:
        """The workload once its state is in `until` or final; raises TimeoutError."""
        pause = POLL_SECONDS_MIN
        async with asyncio.timeout(timeout_seconds):
            while True:
                workload = await self.get(workload_id)
                if workload["state"] in until | ENDED:
                    return workload
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, POLL_SECONDS_MAX)

    async def _act(self, workload_id: str, verb: str, body: Json | None = None) -> Json:
        path = f"/v1/workloads/{_segment(workload_id)}/{verb}"
        return await self._json("POST", path, body=body or {})

    # ── events ───────────────────────────────────────────────────────────────

    async def events(
        self, workload_id: str | None = None, *, after: str = "0", team: str = ""
    ) -> list[Json]:
        """Recorded events behind `after`, the oldest first; all that one may see, or a team's."""
        pages = self.event_pages(workload_id, after=after, team=team)
        return [event async for page in pages for event in page]

    async def event_pages(
        self,
        workload_id: str | None = None,
        *,
        after: str = "0",
        team: str = "",
    ) -> AsyncIterator[list[Json]]:
        """The same page by page, as they are read."""
        query = {"after": after, "limit": str(PAGE_ITEMS), **_of_team(team)}
        while True:
            page = await self._json("GET", _events_path(workload_id), query=query)
            yield page["items"]
            if len(page["items"]) < PAGE_ITEMS:
                return
            query["after"] = str(page["next_after"])

    async def newest_events(
        self,
        workload_id: str | None = None,
        *,
        count: int,
        after: str = "0",
        team: str = "",
        since_ms: int = 0,
    ) -> tuple[list[Json], bool]:
        """The newest `count` events, the oldest first, and whether there are more in front.

        With `since_ms` pages are whole, as one tells by time only what is on it.
        """
        query = {"newest": "true", "after": after, **_of_team(team)}
        query |= {"since": str(since_ms)} if since_ms else {}
        found: list[Json] = []
        while True:
            left = PAGE_ITEMS if since_ms else count - len(found)
            query["limit"] = str(min(left, PAGE_ITEMS))
            page = await self._json("GET", _events_path(workload_id), query=query)
            found = [*page["items"], *found]
            before = page.get("next_before")
            full = len(found) >= count and not since_ms
            if full or not before or len(found) > count:
                return found[-count:], len(found) > count or (full and bool(before))
            query["before"] = str(before)

    async def watch(
        self, workload_id: str | None = None, *, after: str = "", team: str = ""
    ) -> AsyncIterator[Json]:
        """Events as they happen, without end; a broken stream goes on where it stopped."""
        failures, path, query = 0, _events_path(workload_id), _of_team(team)
        while True:
            try:
                async for identifier, event in self._stream(path, after, query):
                    after, failures = identifier or after, 0
                    if event is not None:
                        yield event
            except Unreachable:
                failures += 1
                if failures >= self._tries_max:
                    raise
            await asyncio.sleep(backoff_seconds(failures))

    # ── cluster and organisation ─────────────────────────────────────────────

    async def listing(self, what: str, **filters: str) -> list[Json]:
        """All of "nodes", "queues", "teams", "cohorts", "flavors" or "priority-classes"."""
        items: list[Json] = []
        query = {name: value for name, value in filters.items() if value}
        while True:
            page = await self._json("GET", f"/v1/{what}", query=query)
            items += page["items"]
            if not page.get("next_cursor"):
                return items
            query["cursor"] = page["next_cursor"]

    async def node(self, name: str) -> Json:
        """One node with its devices, and the holders and amounts of each."""
        return await self._json("GET", f"/v1/nodes/{_segment(name)}")

    async def fleet_summary(self, *, flavor: str = "") -> list[Json]:
        """What is free, used, in MIG mode and cordoned, by flavor, with the largest gangs."""
        query = {"flavor": flavor} if flavor else None
        answer = await self._json("GET", "/v1/nodes:summary", query=query)
        return list(answer["items"])

    async def command_node(self, name: str, verb: str, note: str = "") -> Json:
        """`verb` is cordon, uncordon, drain or fence.

        `note` is told to the owners of work that runs there.
        """
        path = f"/v1/nodes/{_segment(name)}/{verb}"
        return await self._json("POST", path, body={"note": note})

    async def restore_gpu(self, name: str, gpu: int, note: str = "") -> Json:
        """Vouch for one GPU of a node: it takes work again. For operators."""
        path = f"/v1/nodes/{_segment(name)}/restore"
        return await self._json("POST", path, body={"gpu": gpu, "note": note})

    async def document(self, collection: str, name: str) -> tuple[Json, str] | None:
        """A document of the organisation with its ETag; None when it does not exist."""
        try:
            status, body, headers = await self._send("GET", f"/v1/{collection}/{_segment(name)}")
        except NotFound:
            return None
        assert status == 200  # noqa: PLR2004  # every other status raised
        return body, headers.get("ETag", "")

    async def apply(
        self,
        collection: str,
        name: str,
        body: Json,
        *,
        etag: str | None = None,
        force: bool = False,
    ) -> Json:
        """Create a document (`etag` None), or merge `body` into the one of this version.

        What `body` does not name stays as it is; a field that is None gets its default again.
        `force` takes the protection of a priority class away.

        Raises:
            Changed: it is at another version, or exists.
        """
        headers = {"If-Match": etag} if etag else {"If-None-Match": "*"}
        path = f"/v1/{collection}/{_segment(name)}"
        query = {"force": "true"} if force else None
        return await self._json("PATCH", path, body=body, query=query, headers=headers)

    async def organisation(self) -> Json:
        """All documents of one moment as they were applied, by collection. For operators."""
        return await self._json("GET", "/v1/organisation")

    async def rehearse(self, documents: Sequence[Json], *, force: bool = False) -> list[Json]:
        """What would become of documents if they were applied in this order. For operators.

        Each has `kind`, `name` and `fields`; what comes back has `result`, `before`, `after` and
        `errors`.
        """
        answer = await self._json(
            "POST",
            "/v1/organisation:dry-run",
            body={"items": list(documents)},
            query={"force": "true"} if force else None,
        )
        return list(answer["items"])

    async def delete_document(
        self, collection: str, name: str, *, etag: str | None = None
    ) -> None:
        """Delete a document that nothing uses; one that is deleted already stays so.

        Raises:
            Rejected: it is used; `errors` says by what.
            Changed: it is not at the version of `etag`.
        """
        path = f"/v1/{collection}/{_segment(name)}"
        headers = {"If-Match": etag} if etag else None
        await self._send("DELETE", path, headers=headers)

    async def whoami(self) -> Json:
        """Team, role, prefix and label of the key, when it expires, and the server's version."""
        return await self._json("GET", "/v1/whoami")

    async def keys(self, team: str) -> list[Json]:
        """API keys of a team, without their secrets."""
        answer = await self._json("GET", f"/v1/teams/{_segment(team)}/keys")
        return list(answer["items"])

    async def create_key(
        self, team: str, role: str, label: str, *, fields: Json | None = None
    ) -> Json:
        """A new API key; its secret is in the answer and nowhere else, ever.

        `fields` are others of a key, such as `{"expires_in_seconds": 86400}`.
        """
        path = f"/v1/teams/{_segment(team)}/keys"
        body = {**(fields or {}), "role": role, "label": label}
        _, answer, _ = await self._send("POST", path, body=body, tries_max=1)
        return dict(answer)

    async def revoke_key(self, team: str, prefix: str) -> None:
        """Make a key useless at once."""
        await self._send("DELETE", f"/v1/teams/{_segment(team)}/keys/{_segment(prefix)}")

    async def create_kafka_password(self, team: str) -> Json:
        """How the team connects to Kafka, with a new password that is told nowhere else."""
        path = f"/v1/teams/{_segment(team)}/kafka-password"
        _, answer, _ = await self._send("POST", path, body={}, tries_max=1)
        return dict(answer)


def new_key() -> str:
    """A fresh idempotency key."""
    return secrets.token_hex(16)


def _segment(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def _events_path(workload_id: str | None) -> str:
    return f"/v1/workloads/{_segment(workload_id)}/events" if workload_id else "/v1/events"


def _of_team(team: str) -> dict[str, str]:
    return {"team": team} if team else {}
