"""The gateway alone with broker and database: `python -m tests.benchmarks gateway_load`.

64 clients, each sending its next submission as soon as the last was answered, in a process of
their own. Prints accepted submissions per second, the share of 429, and latencies, as JSON.
Without `--address` it starts a broker, a database and one gateway of its own.
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from deploy.local.services import SERVICES
from tests.support.system import TEAM, Stage, launch

BODY = {
    "name": "train-resnet",
    "kind": "training",
    "labels": {"experiment": "e1"},
    "pod_sets": [
        {
            "name": "main",
            "count": 1,
            "gpu": {"count": 1},
            "cpu_milli": 8000,
            "memory_mib": 65536,
            "image": "registry.example/train:1",
            "command": ["python", "train.py"],
        }
    ],
}


def request_bytes(address: str, key: str) -> bytes:
    """One submission as it goes over the wire; each makes a workload of its own."""
    body = json.dumps(BODY).encode()
    head = (
        f"POST /v1/workloads?team={TEAM} HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def one_client(
    address: str, request: bytes, end: float, statuses: Counter, latencies: list[float]
) -> None:
    """Send, wait for the answer, again, until the time is over."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    while (started := time.perf_counter()) < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().index(b"content-length:")
        await reader.readexactly(int(head[length + 15 : head.index(b"\r", length)]))
        statuses[int(head[9:12])] += 1
        latencies.append(time.perf_counter() - started)
    writer.close()


async def load(address: str, key: str, clients: int, seconds: float) -> dict[str, object]:
    """All clients at once; what came of it."""
    statuses: Counter = Counter()
    latencies: list[float] = []
    request = request_bytes(address, key)
    started = time.perf_counter()
    end = started + seconds
    await asyncio.gather(
        *(one_client(address, request, end, statuses, latencies) for _ in range(clients))
    )
    elapsed = time.perf_counter() - started
    latencies.sort()
    total = sum(statuses.values())
    return {
        "clients": clients,
        "seconds": round(elapsed, 2),
        "accepted_per_second": round(statuses[202] / elapsed, 1),
        "refused_429_percent": round(100 * statuses[429] / total, 3),
        "statuses": dict(statuses),
        "p50_ms": round(latencies[len(latencies) // 2] * 1000, 1),
        "p99_ms": round(latencies[len(latencies) * 99 // 100] * 1000, 1),
    }


def _in_a_process(arguments: tuple[str, str, int, float]) -> dict[str, object]:
    return uvloop.run(load(*arguments))


async def alone(clients: int, seconds: float) -> dict[str, object]:
    """Start what is needed, load it, stop it."""
    others = [one.name for one in SERVICES if one.name != "gateway"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        system = await asyncio.to_thread(launch, Path(folder) / "system", leave_out=others)
        try:
            stage = Stage(system)
            await stage.connect()
            await stage.organise()
            await stage.disconnect()
            client = json.loads((system.folder / "client.json").read_text())
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                work = (client["address"], client["key"], clients, seconds)
                return await asyncio.to_thread(pool.apply, _in_a_process, (work,))
        finally:
            await asyncio.to_thread(system.discard)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--address", default="", help="a running gateway; else one is started")
    parser.add_argument("--key", default="", help="its operator's API key")
    chosen = parser.parse_args(arguments)
    if chosen.address:
        work = (chosen.address, chosen.key, chosen.clients, chosen.seconds)
        print(json.dumps(_in_a_process(work)))
    else:
        print(json.dumps(asyncio.run(alone(chosen.clients, chosen.seconds))))


if __name__ == "__main__":
    main()
