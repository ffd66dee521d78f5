"""Options that several commands of `muster-ops` share."""

from __future__ import annotations

from typing import Annotated

import typer

DatabaseOption = Annotated[str | None, typer.Option("--database", help="PostgreSQL URL.")]
KafkaOption = Annotated[str | None, typer.Option("--kafka", help="host:port of a broker.")]
PrefixOption = Annotated[str | None, typer.Option("--prefix", help="Prefix of the topics.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", help="table or json.")]
