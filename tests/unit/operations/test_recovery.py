"""Since when records are sent again, in which order, and whose passwords are set."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from typer.main import get_command

from operations.cli import app
from operations.configuration import local_users
from operations.failures import Refused
from operations.recovery.commands import _passwords
from operations.recovery.kafka import Report, lines_of
from operations.recovery.outboxes import Chosen, told_at_ms
from operations.recovery.postgres import Behind, Judgement, compared
from operations.recovery.postgres import lines_of as lines_of_judgement
from operations.recovery.republish import republish
from operations.recovery.times import since_ms
from shared.ports.store import OutboxRow
from shared.runtime.newer_log import Place

NOW_MS = 1_764_000_000_000
PAGE = Path(__file__).parents[3] / "docs" / "operate.md"


def row(seq: int, topic: str, time: bytes = b"2026-11-28T02:00:00Z") -> OutboxRow:
    return OutboxRow(
        seq=seq,
        event_id=f"{seq}",
        topic=topic,
        partition=0,
        key="",
        headers=[("ce_time", time)],
        value=b"",
    )


class _Outboxes:
    """Of two services, in batches of two."""

    def __init__(self, rows: dict[str, list[OutboxRow]]) -> None:
        self._rows = rows

    async def shards(self) -> list[tuple[str, str]]:
        return [(name, "cell-0") for name in self._rows]

    async def rows(
        self, schema: str, _: str, chosen: Chosen
    ) -> AsyncIterator[Sequence[OutboxRow]]:
        found = self._rows[schema]
        for at in range(0, len(found), 2):
            yield [one for one in found[at : at + 2] if chosen.takes(one)]


class _Sent:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        self.batches.append([one.seq for one in rows])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("15m", NOW_MS - 900_000),
        ("2d", NOW_MS - 172_800_000),
        ("2025-01-01T00:00:00Z", 1_735_689_600_000),
        ("2025-01-01T01:00:00+01:00", 1_735_689_600_000),
        ("2025-01-01 00:00:00", 1_735_689_600_000),
    ],
)
def test_a_time_is_one_of_the_clock_or_so_long_ago(text: str, wanted: int):
    assert wanted == since_ms(text, NOW_MS)


@pytest.mark.parametrize("text", ["soon", "15", "-3h", "2999-01-01", ""])
def test_another_time_is_refused_with_its_rule(text: str):
    with pytest.raises(Refused, match=r"^since: .*: must "):
        since_ms(text, NOW_MS)


async def test_each_outbox_is_sent_by_its_numbers_a_batch_at_a_time():
    found = _Outboxes({"a": [row(1, "x"), row(2, "y"), row(3, "x")], "b": [row(1, "z")]})
    sent = _Sent()
    told: list[str] = []

    counts = await republish(found, sent, Chosen(), told.append)  # type: ignore[arg-type]  # what it asks of them

    assert [[1, 2], [3], [1]] == sent.batches
    assert {"x": 2, "y": 1, "z": 1} == counts
    assert ["a/cell-0: 3 sent, all of it", "b/cell-0: 1 sent, all of it"] == told


async def test_what_was_told_before_is_left_out():
    old, new = row(1, "x", b"2026-11-27T02:00:00Z"), row(2, "x")
    sent = _Sent()

    counts = await republish(
        _Outboxes({"a": [old, new]}),  # type: ignore[arg-type]  # what it asks of them
        sent,  # type: ignore[arg-type]
        Chosen(since_ms=told_at_ms(new)),
        lambda _: None,
    )

    assert ([[2]], {"x": 1}) == (sent.batches, counts)


def test_a_letter_without_a_time_is_of_no_time():
    assert 0 == told_at_ms(row(1, "x.dlq", b"\xffnonsense"))


def test_passwords_come_by_line():
    found = _passwords("quota=a=b\n\nbinder=c\n")

    assert {"quota": "a=b", "binder": "c"} == {
        role: one.get_secret_value() for role, one in found.items()
    }
    with pytest.raises(Refused, match="users: line 2: must be role=password"):
        _passwords("quota=a\nbinder\n")


def test_a_local_system_has_the_passwords_of_its_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    logins = {
        "quota": {"MUSTER_KAFKA_USER": "muster_quota", "MUSTER_KAFKA_PASSWORD": "one"},
        "admin": {"MUSTER_KAFKA_USER": "admin", "MUSTER_KAFKA_PASSWORD": "two"},
    }
    (tmp_path / "state.json").write_text(json.dumps({"kafka_logins": logins}))
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_KAFKA_BOOTSTRAP", raising=False)

    assert ["quota"] == list(local_users())
    assert {} == local_users("elsewhere:9092")


def test_what_is_lost_is_told_with_its_numbers():
    report = Report(
        read_of_teams={"submission-red.commands.v1/0": 1_200},
        read_of_agents={"node.facts.v1/0": 7},
        older_than_outboxes={"placement/cell-0": 5_000},
        teams_without_password=["red"],
    )

    text = "\n".join(lines_of(report))

    assert "wrote to submission-red.commands.v1/0 behind the 1,200 that were read" in text
    assert "the first 5,000 records of placement/cell-0" in text
    assert "muster admin kafka-password red" in text


def test_how_far_a_database_is_behind_is_told():
    behind = Behind(service="quota", shard="cell-0", next_in_database=11, newest_in_log=30)

    lines = lines_of_judgement(Judgement(behind=[behind], unknown={"ended": 4}))

    assert (
        "quota/cell-0: the log has number 30, and 11 is next in the database: 20 records"
        in (lines[0])
    )
    assert "workloads ended meanwhile: 4" in lines
    assert ["The database is not older than the log."] == lines_of_judgement(Judgement())


@pytest.mark.parametrize(
    ("shard", "places", "subject"),
    [
        (("quota", "cell-2"), [("quota.facts.v1", 2), ("team.facts.v1", 2)], ""),
        (("gateway", "http-1"), [("audit-gateway.facts.v1", 0)], "http-1"),
        (("notifications", "http-1"), [], "http-1"),
    ],
)
def test_a_shard_is_compared_with_what_it_wrote_itself(
    shard: tuple[str, str], places: list[Place], subject: str
):
    found, told = compared(*shard)

    assert (places, subject) == ([*found], told)


def test_the_commands_of_the_page_are_there():
    text = PAGE.read_text()
    targets = {line.partition(":")[0] for line in (PAGE.parents[1] / "Makefile").open()}
    group = get_command(app)

    asked = {tuple(one.split()) for one in re.findall(r"`muster-ops ([a-z]+(?: [a-z]+)?)", text)}
    assert {("recover", "kafka"), ("recover", "postgres"), ("check",), ("republish",)} == asked
    for first, *rest in asked:
        found = group.commands[first]  # type: ignore[attr-defined]  # a group
        assert not rest or rest[0] in found.commands
    made = set(re.findall(r"`make ([a-z-]+)", text))
    assert {"up", "down", "backup", "restore", "upgrade-test"} == made & targets == made
