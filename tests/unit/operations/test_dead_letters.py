"""`muster-ops dlq list`: what a team wrote is shown, and does nothing to the terminal."""

from types import SimpleNamespace
from typing import Any

from operations.dlq import commands
from operations.dlq.letters import Letter, letter_of

OWN = {
    "source_topic": b"submission-red.commands.v1",
    "source_partition": b"0",
    "source_offset": b"3",
    "source_consumer": b"admission",
}


def letter(**headers: bytes) -> Letter:
    record = SimpleNamespace(partition=0, offset=3, timestamp=0, key=None, value=b"")
    record.headers = list((OWN | headers).items())
    return letter_of("submission-red.commands.v1.dlq", record)


def test_control_characters_of_a_team_are_shown_and_not_obeyed(monkeypatch, capsys):
    evil = letter(
        ce_type="\x1b[2J\x1b[Hx\nNo dead letters.\x9b8m\u202e".encode(),
        error_message="ce_id: \x07 is not good; ü is".encode(),
    )

    async def read(*_: Any) -> list[Letter]:
        return [evil]

    monkeypatch.setattr(commands, "read_letters", read)
    monkeypatch.setattr("operations.configuration.find", lambda *_, **__: Addresses)

    commands.list_letters()

    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert "\\u001b[2J\\u001b[Hx\\u000aNo dead letters.\\u009b8m\\u202e" in line
    assert line.endswith("admission: ce_id: \\u0007 is not good; ü is")


class Addresses:
    """Nobody is asked."""

    kafka = None
    prefix = "p"
