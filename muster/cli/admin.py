"""`muster admin apply | get | export | delete | kafka-password`: the organisation, and access.

`apply` is idempotent: it reads each document with its ETag, writes only with If-Match, and says
whether it was created, changed or already so.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from muster.cli import completion, control, fencing, keys, nodes, notifications
from muster.cli.applying import Applied, apply_all, in_order
from muster.cli.documents import read_documents
from muster.cli.organisation import deleting, reading
from muster.cli.organisation.rehearsing import rehearse_all, show_rehearsal
from muster.cli.output import Column, Format, field, note, show_items, show_value
from muster.cli.session import call

Json = dict[str, Any]
KEEP_HINT: Final = (
    "Keep each KEY; it is not shown again. Another one: muster admin keys create -t TEAM --label L"
)

app = typer.Typer(
    help="Apply the organisation, manage keys, drain nodes, evict.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(keys.app, name="keys")
app.add_typer(fencing.app, name="nodes")
app.add_typer(notifications.app, name="notifications")
app.command("get")(reading.get)
app.command("export")(reading.export)
app.command("delete")(deleting.delete)
app.command("cordon")(nodes.cordon)
app.command("uncordon")(nodes.uncordon)
app.command("drain")(nodes.drain)
app.command("restore")(nodes.restore)
app.command("evict")(control.evict)


@app.command("apply")
def apply(
    file: Annotated[
        list[str],
        typer.Option("--file", "-f", help="YAML or JSON, one or many documents; - is stdin."),
    ],
    force: Annotated[bool, typer.Option("--force", help="Unprotect a protected class.")] = False,  # noqa: FBT002  # typer's form
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change.")] = False,  # noqa: FBT002  # typer's form
    output: keys.Output = Format.TABLE,
) -> None:
    """Apply documents of kind Team, Queue, Cohort, Flavor, PriorityClass, Notification, ApiKey.

    A field that a document does not name stays as it is; one that is null gets its default again.
    A new team comes with a queue of its name, a member's key and a Kafka user; key and password
    are shown this once, whatever becomes of the documents after it. All documents are checked
    before the first is sent.

    Examples:
      muster admin apply -f organisation.yaml --dry-run

      muster admin apply -f organisation.yaml
    """
    documents = in_order(read_documents(file))
    if dry_run:
        results = call(lambda client: rehearse_all(client, documents, force=force))
        sys.exit(show_rehearsal(documents, results, output))
    applied = Applied()
    try:
        call(lambda client: apply_all(client, documents, applied, force=force))
    finally:  # whatever ends it: what was made tells its secret this once
        _show(applied.results, output)
    sys.exit(applied.worst)


def _show(results: list[Json], output: Format) -> None:
    if not results:
        return
    show_items(results, output, _RESULT_COLUMNS, name="document")
    made = [one for one in results if one.get("key")]
    if output is Format.NAME:
        for one in made:
            note(f"{one['document']}: {one['key']}")
    if made:
        note(KEEP_HINT)
    for one in results:
        if one.get("kafka_user"):
            note(_connecting(one["document"], one["kafka_user"]))


_RESULT_COLUMNS: Final = (
    Column("DOCUMENT", field("document")),
    Column("RESULT", field("result")),
    Column("KEY", field("key")),
)


@app.command("kafka-password")
def kafka_password(
    team: Annotated[
        str,
        typer.Option(
            "--team", "-t", help="Team of the Kafka user.", autocompletion=completion.teams
        ),
    ],
    output: keys.Output = Format.TABLE,
) -> None:
    """Give a team's Kafka user a new password, and show how it connects; shown once.

    Example: muster admin kafka-password -t vision
    """
    user = call(lambda client: client.create_kafka_password(team))
    if output in (Format.JSON, Format.YAML):
        show_value(user, output)
        return
    note(f"Keep this; the password is not shown again. What the team {team} connects with:")
    print(_properties(user))


def _connecting(document: str, user: Json) -> str:
    """How a new team connects, beside the table: its password is shown this once."""
    hint = f"{document} connects to Kafka with this; it is not shown again:"
    return f"{hint}\n{_properties(user)}"


def _properties(user: Json) -> str:
    """In the form of a client's properties, which every client of Kafka knows."""
    login = f'username="{user["user"]}" password="{user["password"]}"'
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return "\n".join(
        (
            f"bootstrap.servers={user['bootstrap']}",
            f"security.protocol={user['security_protocol']}",
            f"sasl.mechanism={user['mechanism']}",
            f"sasl.jaas.config={module} required {login};",
            f"group.id={user['consumer_group']}",
            f"# writes to {user['submissions_topic']}, reads {user['results_topic']}",
        )
    )
