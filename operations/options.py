"""Options that several commands of `muster-ops` share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

OUTPUTS: Final = ("table", "json")
DatabaseOption = Annotated[str | None, typer.Option("--database", help="PostgreSQL URL.")]
KafkaOption = Annotated[str | None, typer.Option("--kafka", help="host:port of a broker.")]
PrefixOption = Annotated[str | None, typer.Option("--prefix", help="Prefix of the topics.")]


def _known(value: str) -> str:
    """As it is; a misspelt one must not be read as a table by a program that asked for JSON."""
    if value not in OUTPUTS:
        raise typer.BadParameter(f"must be {' or '.join(OUTPUTS)} (given: {value})")
    return value


OutputOption = Annotated[
    str, typer.Option("--output", "-o", help="table or json.", callback=_known)
]
