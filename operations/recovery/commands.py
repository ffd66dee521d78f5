"""`muster-ops republish`, `muster-ops recover kafka` and `muster-ops recover postgres`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated, Final

import typer
from pydantic import SecretStr

from operations import configuration
from operations.failures import Refused
from operations.options import DatabaseOption, KafkaOption, OutputOption, PrefixOption
from shared.events.grants import OPERATOR
from shared.ports.kafka_access import TopicCopies

app = typer.Typer(
    help="After a store was lost or went back.", no_args_is_help=True, rich_markup_mode=None
)
ADMINISTRATOR: Final = "admin"
"""Role of the broker's super user in the state of a local system."""


@app.callback()
def recovering() -> None:
    """After a store was lost or went back."""


def tell(line: str) -> None:
    """Progress goes beside the answer."""
    print(line, file=sys.stderr, flush=True)


def republish(  # noqa: PLR0917  # typer's form
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic, without prefix; several times.")
    ] = None,
    since: Annotated[str, typer.Option(help="Told since: a time, or 90s, 15m, 6h, 2d ago.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All that outboxes keep.")] = False,  # noqa: FBT002  # typer's form
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and send nothing.")] = False,  # noqa: FBT002  # typer's form
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
) -> None:
    """Send records of the outboxes to Kafka once more; consumers drop what they have handled.

    Outboxes keep four days. The order of each producer holds. Results of teams and dead letters
    need the login of the broker's administrator (MUSTER_KAFKA_USER, MUSTER_KAFKA_PASSWORD).

    Example: muster-ops republish --topic pod.facts.v1 --since 15m

    Example: muster-ops republish --all --dry-run -o json
    """
    from operations.recovery.outboxes import Chosen, outboxes
    from operations.recovery.republish import republish as send
    from operations.recovery.times import since_ms
    from shared.adapters.clock import SystemClock
    from shared.adapters.kafka import KafkaPublisher

    if bool(since) == everything:
        raise Refused("since: give a time by --since, or --all")
    since_at = since_ms(since, SystemClock().now_ms()) if since else 0
    chosen = Chosen(topics=frozenset(topic) if topic else None, since_ms=since_at)
    found = configuration.find(database, kafka, prefix, role=OPERATOR)

    async def work() -> dict[str, int]:
        async with outboxes(found.database) as rows:
            if dry_run:
                return dict(sorted((await rows.counts(chosen)).items()))
            publisher = KafkaPublisher(found.kafka, found.prefix)
            try:
                return await send(rows, publisher, chosen, tell)
            finally:
                await publisher.close()

    counts = asyncio.run(work())
    if output == "json":
        print(json.dumps({"dry_run": dry_run, "records": counts}, indent=2))
        return
    for name, count in counts.items():
        print(f"{name:36} {count:>10,}")
    print(f"{sum(counts.values()):,} records {'would be sent' if dry_run else 'sent'}.")


@app.command("kafka")
def recover_kafka(  # noqa: PLR0917  # typer's form
    users: Annotated[
        typer.FileText | None,
        typer.Option(help="Lines role=password of the services' users; - reads standard input."),
    ] = None,
    replication: Annotated[int, typer.Option(envvar="MUSTER_TOPIC_REPLICATION")] = 1,
    min_insync: Annotated[int, typer.Option(envvar="MUSTER_TOPIC_MIN_INSYNC_REPLICAS")] = 1,
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
) -> None:
    """Make topics, records, rules and users again where Kafka's data is gone; tell what is lost.

    Reads the database, and writes to the broker as its administrator: MUSTER_KAFKA_USER and
    MUSTER_KAFKA_PASSWORD, or the login in the state of a local system, which has the passwords
    of the services, too. Where nothing is missing it changes nothing.

    Example: muster-ops recover kafka

    Example: muster-ops recover kafka --users users.txt -o json
    """
    from operations.recovery.kafka import lines_of, recover
    from operations.recovery.outboxes import outboxes

    found = configuration.find(database, kafka, prefix, role=ADMINISTRATOR)
    passwords = _passwords(users.read() if users else "") or configuration.local_users(kafka)

    async def work() -> dict[str, object]:
        async with outboxes(found.database) as rows:
            copies = TopicCopies(replication, min_insync)
            report = await recover(rows, found, passwords, tell, copies=copies)
        if output != "json":
            print("\n".join(lines_of(report)))
        return asdict(report)

    answer = asyncio.run(work())
    if output == "json":
        print(json.dumps(answer, indent=2))


def _passwords(text: str) -> dict[str, SecretStr]:
    found: dict[str, SecretStr] = {}
    for number, line in enumerate(filter(None, map(str.strip, text.splitlines())), 1):
        role, equals, password = line.partition("=")
        if not (role and equals and password):
            raise Refused(f"users: line {number}: must be role=password")
        found[role] = SecretStr(password)
    return found


@app.command("postgres")
def recover_postgres(
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
) -> None:
    """Tell how far the database is behind the log after a restore, and what brings it forward.

    Changes nothing. Exit 0 when the database is not older than the log, 1 when it is: no service
    decides then, as it would decide twice. PostgreSQL brings it forward from the archived WAL.

    Example: muster-ops recover postgres

    Example: muster-ops recover postgres -o json
    """
    from operations.recovery.postgres import judge, lines_of

    judgement = asyncio.run(judge(configuration.find(database, kafka, prefix)))
    behind = [asdict(one) | {"records": one.records} for one in judgement.behind]
    document = {"older": bool(behind), "behind": behind, "unknown": judgement.unknown}
    lines = json.dumps(document, indent=2) if output == "json" else "\n".join(lines_of(judgement))
    print(lines)
    if behind:
        raise typer.Exit(1)
