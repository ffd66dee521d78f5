"""`muster admin delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli import completion
from muster.cli.document_kinds import API_KEY, COLLECTIONS, kind_of
from muster.cli.each import Told
from muster.cli.failures import UsageError
from muster.cli.output import Format
from muster.cli.session import call

Output = Annotated[Format, typer.Option("--output", "-o", help="Format.")]


def delete(
    kind: Annotated[
        str,
        typer.Argument(
            help="Flavor, PriorityClass, Cohort, Team, Queue or Notification.",
            autocompletion=completion.document_kinds,
        ),
    ],
    name: Annotated[
        str, typer.Argument(help="Name of the document.", autocompletion=completion.documents)
    ],
    output: Output = Format.TABLE,
) -> None:
    """Delete a document of the organisation; refused while something uses it, with what does.

    A team takes its default queue, its API keys and its Kafka user with it.

    Example: muster admin delete queue vision-night
    """
    wanted = kind_of(kind)
    if wanted == API_KEY:
        raise UsageError("an ApiKey is revoked: muster admin keys revoke -t TEAM PREFIX")
    call(lambda client: client.delete_document(COLLECTIONS[wanted], name))
    told = Told("deleted", output, name="document")
    told.add(f"{wanted}/{name}")
    told.end()
