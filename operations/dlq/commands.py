"""`muster-ops dlq list | show | replay`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from operations import configuration
from operations.dlq.letters import Letter, pick, read_letters, send_back
from operations.options import DatabaseOption, KafkaOption, OutputOption, PrefixOption
from shared.events.grants import OPERATOR

app = typer.Typer(help="Dead letters.", no_args_is_help=True, rich_markup_mode=None)
TopicOption = Annotated[str, typer.Option(help="Only those of this source topic.")]
Places = Annotated[list[str] | None, typer.Argument(help="Places as `list` shows them.")]


@app.command("list")
def list_letters(
    topic: TopicOption = "",
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
) -> None:
    """List dead letters with their reasons.

    Example: muster-ops dlq list --topic queue.facts.v1
    """
    found = configuration.find(database, kafka, prefix)
    letters = asyncio.run(read_letters(found.kafka, found.prefix, topic))
    if output == "json":
        print(json.dumps({"items": [_summary(one) for one in letters]}, indent=2))
        return
    for one in letters:
        text = f"{_time(one)}  {one.place}  {one.type or '-'}  {one.consumer}: {one.error}"
        print(_printable(text))
    if not letters:
        print("No dead letters.")


@app.command("show")
def show(
    place: Annotated[str, typer.Argument(help="Place as `list` shows it.")],
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Show one dead letter whole, as JSON.

    Example: muster-ops dlq show queue.facts.v1.dlq/0/3
    """
    found = configuration.find(database, kafka, prefix)
    (letter,) = pick(asyncio.run(read_letters(found.kafka, found.prefix)), [place])
    headers = {name: value.decode(errors="replace") for name, value in letter.headers}
    value = letter.value.decode(errors="backslashreplace")
    print(json.dumps({**_summary(letter), "headers": headers, "value": value}, indent=2))


@app.command("replay")
def replay(  # noqa: PLR0917  # typer's form
    place: Places = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,  # noqa: FBT002  # typer's form
    topic: TopicOption = "",
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Send dead letters back to where they came from, as they were.

    Examples:
      muster-ops dlq replay queue.facts.v1.dlq/0/3

      muster-ops dlq replay --all --topic queue.facts.v1
    """
    if bool(place) == everything:
        raise typer.BadParameter("name places, or give --all")
    found = configuration.find(database, kafka, prefix, role=OPERATOR)
    letters = asyncio.run(read_letters(found.kafka, found.prefix, topic))
    chosen = letters if everything else pick(letters, place or [])
    asyncio.run(send_back(found.kafka, found.prefix, chosen))
    for one in chosen:
        print(_printable(f"{one.place} -> {one.source_topic}[{one.source_partition}]"))
    print(f"{len(chosen)} sent back.")


def _summary(letter: Letter) -> dict[str, Any]:
    return {
        "place": letter.place,
        "id": letter.id,
        "type": letter.type,
        "source_topic": letter.source_topic,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "consumer": letter.consumer,
        "error": letter.error,
        "at": _time(letter),
    }


def _time(letter: Letter) -> str:
    return datetime.fromtimestamp(letter.at_ms / 1000, UTC).isoformat(timespec="seconds")


def _printable(text: str) -> str:
    """A team writes headers as it likes: none may move the cursor of the reader's terminal."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)
