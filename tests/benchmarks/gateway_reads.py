"""What one team's reads do to another's: `python -m tests.benchmarks gateway_reads`.

One viewer key reads as fast as it is answered over 64 connections; another team reads a page every
20 ms, first alone, then beside it. With `--slow` and `--streams` that many connections send their
heads byte by byte, and that many streams are open, all the time. Prints latencies of the other
team, answers to the reader and the gateway's resident memory as one line of JSON. Starts a broker,
a database and one gateway of its own; each kind of client is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import uvloop

from deploy.local.services import SERVICES
from tests.benchmarks.gateway_load import BODY
from tests.support.system import Stage, launch

READER, OTHER = "reader", "other"
EVERY_SECONDS: Final = 0.02
BYTE_SECONDS: Final = 2.0
BATCH_ITEMS: Final = 500
WORKLOADS: Final = 2_000
SETTLE_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What one process of clients is told."""

    address: str
    key: str
    path: str
    connections: int
    seconds: float

    def head(self, accept: str = "application/json") -> bytes:
        """One request."""
        return (
            f"GET {self.path} HTTP/1.1\r\nHost: {urlsplit(self.address).netloc}\r\n"
            f"Authorization: Bearer {self.key}\r\nAccept: {accept}\r\n\r\n"
        ).encode()


async def connected(client: Client) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An open connection to the gateway."""
    where = urlsplit(client.address)
    return await asyncio.open_connection(where.hostname, where.port)


async def one_read(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> int:
    """The status of one answer, whose body is read."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().index(b"content-length:")
    await reader.readexactly(int(head[length + 15 : head.index(b"\r", length)]))
    return int(head[9:12])


async def read_on(client: Client) -> dict[str, Any]:
    """Every connection reads as soon as it was answered; answers by status."""
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + client.seconds

    async def one() -> None:
        while time.perf_counter() < end:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await connected(client)
                while time.perf_counter() < end:
                    statuses[await one_read(reader, writer, client.head())] += 1

    await asyncio.gather(*(one() for _ in range(client.connections)))
    return {str(status): count for status, count in sorted(statuses.items())}


async def read_at_times(client: Client) -> dict[str, Any]:
    """One read every `EVERY_SECONDS`; how long they took, in milliseconds."""
    took: list[float] = []
    statuses: Counter[int] = Counter()
    reader, writer = await connected(client)
    end = time.perf_counter() + client.seconds
    while (started := time.perf_counter()) < end:
        statuses[await one_read(reader, writer, client.head())] += 1
        took.append(time.perf_counter() - started)
        await asyncio.sleep(max(0.0, started + EVERY_SECONDS - time.perf_counter()))
    writer.close()
    took.sort()
    ranks = {"p50_ms": len(took) // 2, "p99_ms": len(took) * 99 // 100, "most_ms": -1}
    told = {name: round(1000 * took[rank], 1) for name, rank in ranks.items()}
    return {**told, "reads": len(took), "statuses": dict(statuses)}


async def send_slowly(client: Client) -> dict[str, Any]:
    """Every connection sends a head byte by byte, and a new one when it was closed."""
    opened = closed = refused = 0
    end = time.perf_counter() + client.seconds

    async def one(wait_seconds: float) -> None:
        nonlocal opened, closed, refused
        await asyncio.sleep(wait_seconds)
        while time.perf_counter() < end:
            try:
                _, writer = await connected(client)
            except OSError:
                refused += 1
                await asyncio.sleep(BYTE_SECONDS)
                continue
            opened += 1
            with contextlib.suppress(OSError):
                for byte in client.head():
                    if writer.transport.is_closing() or time.perf_counter() > end:
                        break
                    writer.write(bytes((byte,)))
                    await asyncio.sleep(BYTE_SECONDS)
            closed += writer.transport.is_closing()
            writer.transport.abort()

    await asyncio.gather(
        *(one(BYTE_SECONDS * number / client.connections) for number in range(client.connections))
    )
    return {"opened": opened, "closed_by_gateway": closed, "refused": refused}


async def stay(client: Client) -> dict[str, Any]:
    """Every connection opens a stream and reads it."""
    statuses: Counter[int] = Counter()

    async def one() -> None:
        reader, writer = await connected(client)
        writer.write(client.head("text/event-stream"))
        statuses[int((await reader.readuntil(b"\r\n\r\n"))[9:12])] += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(client.seconds):
                while await reader.read(1 << 16):
                    pass
        writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(client.connections)))
    return {str(status): count for status, count in sorted(statuses.items())}


KINDS: Final = {one.__name__: one for one in (read_on, read_at_times, send_slowly, stay)}


def in_a_process(kind: str, client: Client) -> dict[str, Any]:
    """Run clients of one kind until their time is over."""
    return uvloop.run(KINDS[kind](client))


async def fill(stage: Stage, workloads: int) -> dict[str, str]:
    """Two teams with so many workloads each, and a viewer's key of each."""
    keys = {}
    for team in (READER, OTHER):
        await stage.put(f"teams/{team}", {"kafka": False, "max_pending": 10 * workloads})
        for _ in range(0, workloads, BATCH_ITEMS):
            batch = {"items": [{"spec": BODY}] * BATCH_ITEMS}
            async with stage.api.post(f"/v1/workloads:batch?team={team}", json=batch) as reply:
                assert reply.status == 202, await reply.text()
        async with stage.api.post(f"/v1/teams/{team}/keys", json={"role": "viewer"}) as reply:
            assert reply.status == 201, await reply.text()
            keys[team] = (await reply.json())["key"]
    return keys


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@contextlib.contextmanager
def most_memory(pid: int | None) -> Iterator[list[float]]:
    """The largest resident memory of a process while the block runs, in MiB."""
    assert pid is not None
    found = [resident_mib(pid)]

    async def watch() -> None:
        while True:
            found[0] = max(found[0], resident_mib(pid))
            await asyncio.sleep(0.2)

    watching = asyncio.ensure_future(watch())
    try:
        yield found
    finally:
        watching.cancel()


async def measure(stage: Stage, options: argparse.Namespace) -> dict[str, Any]:
    """The other team alone, then beside everybody else."""
    keys = await fill(stage, options.workloads)
    address = json.loads((stage.system.folder / "client.json").read_text())["address"]
    beside = options.seconds + 2 * SETTLE_SECONDS

    def client(team: str, path: str, connections: int, seconds: float) -> Client:
        return Client(
            address=address,
            key=keys[team],
            path=path,
            connections=connections,
            seconds=seconds,
        )

    streams = options.streams // 2
    stays = [("stay", client(one, "/v1/events", streams, beside)) for one in keys if streams]
    crowd = [("read_on", client(READER, options.path, options.clients, beside))]
    if options.slow:
        crowd.append(("send_slowly", client(READER, options.path, options.slow, beside)))
    other = ("read_at_times", client(OTHER, options.other_path, 1, options.seconds))
    with multiprocessing.get_context("spawn").Pool(len(stays) + len(crowd) + 1) as pool:
        alone = await asyncio.to_thread(pool.apply, in_a_process, other)
        with most_memory(stage.system.pid("gateway")) as memory_mib:
            running = [pool.apply_async(in_a_process, one) for one in stays]
            await asyncio.sleep(SETTLE_SECONDS if stays else 0)
            running += [pool.apply_async(in_a_process, one) for one in crowd]
            await asyncio.sleep(SETTLE_SECONDS)
            together = await asyncio.to_thread(pool.apply, in_a_process, other)
            told = [
                (one[0], await asyncio.to_thread(result.get))
                for one, result in zip(stays + crowd, running, strict=True)
            ]
    return {
        "path": options.path,
        "other_alone": alone,
        "other_beside": together,
        "crowd": told,
        "reads_per_second": round(sum(told[len(stays)][1].values()) / beside, 1),
        "gateway_rss_mib": round(memory_mib[0], 1),
    }


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Start what is needed, measure, stop it."""
    others = [one.name for one in SERVICES if one.name != "gateway"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        system = await asyncio.to_thread(launch, Path(folder) / "system", leave_out=others)
        stage = Stage(system)
        try:
            await stage.connect()
            return await measure(stage, options)
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64, help="connections of the reader")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workloads", type=int, default=WORKLOADS, help="of each team")
    parser.add_argument("--path", default="/v1/workloads", help="what the reader reads")
    parser.add_argument("--other-path", default="/v1/workloads?limit=10")
    parser.add_argument("--slow", type=int, default=0, help="connections that send slowly")
    parser.add_argument("--streams", type=int, default=0)
    print(json.dumps(asyncio.run(run(parser.parse_args(arguments)))))


if __name__ == "__main__":
    main()
