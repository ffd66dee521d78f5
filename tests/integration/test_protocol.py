"""The unit of work, the relay and the lease on a real broker and a real database.

Two echo processes in a chain; 2,000 messages go in, and each must come out exactly once by
effect, whatever is killed. Each safety is then switched off once, and the same check goes red.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess

import pytest

from tests.support.chain import Chain


async def test_every_message_passes_once(chain: Chain) -> None:
    chain.start("admission")
    chain.start("quota")

    await chain.feed()
    await chain.settled()

    assert await chain.verdict() == "ok"


async def test_the_second_process_of_a_slot_ends_and_names_the_first(chain: Chain) -> None:
    first = chain.start("admission")
    chain.start("quota")
    await chain.feed(count=20)
    await chain.settled(wanted=20)

    second = chain.start("admission", stderr=subprocess.PIPE)
    _, said = await asyncio.to_thread(second.communicate, timeout=60)

    assert 1 == second.returncode
    assert said.startswith("slot admission-a is held by another process, pid ")
    assert f"pid {first.pid} on {socket.gethostname()}: end it" in said
    assert 1 == said.count("\n")
    assert first.poll() is None
    assert "1" == chain.database.execute("SELECT max(epoch) FROM admission.lease").strip()


async def test_a_killed_process_is_followed_by_the_next_of_its_slot_at_once(chain: Chain) -> None:
    first = chain.start("admission", lease=60.0)
    chain.start("quota")
    await chain.feed(count=20)
    await chain.settled(wanted=20)
    first.kill()  # and not waited for: a zombie is dead, too

    chain.start("admission", lease=60.0)
    await chain.feed(20, count=20)
    await chain.settled(wanted=40, seconds=15)

    assert "ok" == await chain.verdict(40)


KILLS = (
    "unit.before_commit:0.2:kill",
    "unit.after_commit:0.2:kill",
    "relay.published_not_marked:0.2:kill",
    "loop.polled:0.02:kill",
)


@pytest.mark.parametrize("failpoint", KILLS)
async def test_nothing_is_lost_or_doubled_by_kills(chain: Chain, failpoint: str) -> None:
    await chain.feed()
    chain.start("quota")
    deaths = 0
    for _ in range(4):
        process = chain.start("admission", failpoints=failpoint)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=6 if deaths else 30)
            deaths += 1
        process.kill()
        process.wait()
    chain.start("admission")
    await chain.settled()

    assert deaths > 0
    assert await chain.verdict() == "ok"


async def _zombie(chain: Chain, *switches: str) -> None:
    """A holder is stopped just before its commit for twice the lease; a standby takes over.

    The standby is slow to read, so that only the epoch stands between the sleeper and the rows.
    """
    before_commit = "unit.before_commit:1:sleep=2"
    holder = chain.start("admission", *switches, lease=1.5, failpoints=before_commit)
    await chain.epoch_after(0)
    await asyncio.sleep(3)
    await chain.feed(count=20)
    await asyncio.sleep(1.2)
    holder.send_signal(signal.SIGSTOP)
    first = chain.epoch()
    chain.start("admission", *switches, slot="b", failpoints="loop.polled:1:sleep=10")
    await chain.epoch_after(first)
    await asyncio.sleep(2)  # the sleep before the commit is over when the holder goes on
    holder.send_signal(signal.SIGCONT)
    chain.start("quota")
    await chain.settled(wanted=20)


async def test_a_holder_that_slept_through_its_lease_writes_nothing(chain: Chain) -> None:
    await _zombie(chain)

    assert chain.late_writes() == 0
    assert await chain.verdict(wanted=20) == "ok"


async def test_without_the_epoch_a_sleeping_holder_is_seen_to_write(chain: Chain) -> None:
    await _zombie(chain, "no_epoch")

    assert chain.late_writes() > 0


async def _replay(chain: Chain, *switches: str) -> str:
    """The whole topic is read again from its beginning."""
    chain.start("quota")
    first = chain.start("admission", *switches)
    await chain.feed(count=200)
    await chain.settled(wanted=200)
    first.kill()
    first.wait()
    chain.database.execute("UPDATE admission.consumer_offset SET next_offset = 0")
    chain.start("admission", *switches)
    async with asyncio.timeout(60):
        while "200" != chain.database.execute("SELECT next_offset FROM admission.consumer_offset"):
            await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    return await chain.verdict(wanted=200)


async def test_a_topic_read_again_has_no_second_effect(chain: Chain) -> None:
    assert await _replay(chain) == "ok"


async def test_without_the_inbox_a_topic_read_again_is_seen_to_double(chain: Chain) -> None:
    assert "doubled" in await _replay(chain, "no_inbox")


async def test_a_right_that_is_missing_for_a_while_buries_no_message(chain: Chain) -> None:
    chain.start("quota")
    chain.start("admission")
    await chain.feed(count=20)
    await chain.settled(wanted=20)
    chain.database.execute("REVOKE INSERT ON admission.audit FROM muster_admission")
    await chain.feed(20, count=20)
    await asyncio.sleep(3)
    chain.database.execute("GRANT INSERT ON admission.audit TO muster_admission")
    await chain.settled(wanted=40)

    assert await chain.verdict(wanted=40) == "ok"


async def test_an_offset_committed_first_is_seen_to_lose(chain: Chain) -> None:
    chain.start("quota")
    await chain.feed()
    process = chain.start("admission", "offset_first", failpoints="offset.first:1:kill")
    process.wait(timeout=60)
    chain.start("admission", "offset_first")
    await chain.settled(seconds=10)

    assert "lost" in await chain.verdict()
