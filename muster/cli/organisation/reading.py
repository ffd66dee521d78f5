"""`muster admin get` and `muster admin export`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.document_kinds import kind_of
from muster.cli.organisation.exporting import documents_of
from muster.cli.output import Column, Format, field, show_documents, show_items
from muster.cli.session import call

Json = dict[str, Any]
Kind = Annotated[
    str,
    typer.Argument(
        help="Flavor, PriorityClass, Cohort, Team, Queue, Notification or ApiKey; all but keys.",
        autocompletion=completion.document_kinds,
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        help="Name of the document; all of the kind.", autocompletion=completion.documents
    ),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Format.")]
_COLUMNS: Final = (
    Column("KIND", field("kind")),
    Column("NAME", field("name")),
    Column("VERSION", field("version"), right=True),
    Column("TEAM", field("team")),
    Column("ABOVE", lambda one: one.get("cohort") or one.get("parent") or ""),
)


def get(kind: Kind = "", name: Name = "", output: Output = Format.TABLE) -> None:
    """Show documents of the organisation; as YAML or JSON they can be applied again.

    Examples:
      muster admin get

      muster admin get queue vision -o yaml
    """
    _show(kind, name, output)


def export(kind: Kind = "", name: Name = "", output: Output = Format.YAML) -> None:
    """Write documents of the organisation, so that applied again they change nothing.

    Examples:
      muster admin export > organisation.yaml

      muster admin export team vision
    """
    _show(kind, name, output)


def _show(kind: str, name: str, output: Format) -> None:
    wanted = kind_of(kind) if kind else ""
    found = call(lambda client: documents_of(client, wanted, name))
    documents = [document for document, _ in found]
    if output in (Format.YAML, Format.JSON):
        show_documents(documents, output)
        return
    rows = [
        {
            **document,
            "version": version or "",
            "document": f"{document['kind']}/{document['name']}",
        }
        for document, version in found
    ]
    show_items(rows, output, _COLUMNS, name="document", empty="There are no documents.")
