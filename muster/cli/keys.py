"""`muster admin keys create | list | revoke`, and what a document of kind ApiKey makes so.

A key is told apart by its label within its team. One that is revoked or has expired is none, so a
document makes another; one that is valid but not what the document says is never passed over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.durations import seconds_of
from muster.cli.each import Told
from muster.cli.output import Column, Format, age, field, local_time, note, show_items, show_value
from muster.cli.session import call, now_ms
from muster.errors import Rejected

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
CLOCKS_SECONDS: Final = 1
"""The service takes the times of making and of expiry one after the other."""

app = typer.Typer(help="API keys of a team.", no_args_is_help=True, rich_markup_mode=None)
Team = Annotated[
    str, typer.Option("--team", "-t", help="Team of the key.", autocompletion=completion.teams)
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Format.")]


@app.command("create")
def create(
    team: Team,
    label: Annotated[str, typer.Option(help="What it is for.")],
    role: Annotated[
        str,
        typer.Option(help="viewer, member, admin or operator.", autocompletion=completion.roles),
    ] = "member",
    expires: Annotated[
        str, typer.Option(help="It is valid so long, such as 12h or 90d; else until revoked.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Make an API key; it is shown once and stored nowhere.

    Examples:
      muster admin keys create -t vision --label ci --role member --expires 90d

      muster admin keys create -t vision --label ci -o json | jq -r .prefix,.key
    """
    fields = {"expires_in_seconds": math.ceil(seconds_of(expires, "--expires"))} if expires else {}
    created = call(lambda client: client.create_key(team, role, label, fields=fields))
    note(f"Keep this key; it is not shown again{_until(created)}:")
    if output in (Format.JSON, Format.YAML):
        show_value(created, output)
    else:
        print(created["key"])


def _until(created: Json) -> str:
    moment = created.get("expires_at_ms")
    return f", and expires {local_time(moment)}" if moment else ""


@app.command("list")
def list_keys(team: Team, output: Output = Format.TABLE) -> None:
    """List the API keys of a team: valid, expired or revoked.

    Example: muster admin keys list -t vision -o wide
    """
    now = now_ms()
    columns = (
        Column("PREFIX", field("prefix")),
        Column("LABEL", field("label"), free=True),
        Column("ROLE", field("role")),
        Column("AGE", lambda one: age(one.get("created_at_ms"), now), right=True, rank=1),
        Column("STATE", lambda one: state_of(one, now)),
        Column("EXPIRES", _expiry, wide=True),
        Column("BY", field("created_by"), wide=True),
    )
    show_items(call(lambda client: client.keys(team)), output, columns, name="prefix")


def state_of(key: Json, now: int) -> str:
    """What it is good for: `valid`, `expired` or `revoked`."""
    if key.get("revoked_at_ms"):
        return "revoked"
    expires = key.get("expires_at_ms")
    return "expired" if expires and expires <= now else "valid"


def _expiry(key: Json) -> str:
    moment = key.get("expires_at_ms")
    return local_time(moment) if moment else "never"


@app.command("revoke")
def revoke(
    team: Team,
    prefix: Annotated[
        str,
        typer.Argument(
            help="Prefix of the key, as `keys list` shows it; or the whole key.",
            autocompletion=completion.keys,
        ),
    ],
    output: Output = Format.TABLE,
) -> None:
    """Make an API key useless at once.

    Example: muster admin keys revoke -t vision ab12cd34
    """
    prefix = _prefix_of(prefix)
    call(lambda client: client.revoke_key(team, prefix))
    told = Told("revoked", output, name="prefix")
    told.add(prefix)
    told.end()


def _prefix_of(text: str) -> str:
    """The public part of a key, however much of it was given; the secret is sent nowhere."""
    return text.strip().removeprefix("mk_").partition("_")[0]


async def apply_key(client: AsyncClient, label: str, document: Json) -> Json:
    """Make a document of kind ApiKey so; the service judges its fields when it makes the key.

    Raises:
        Rejected: a valid key of this label has another role or life.
    """
    if await has_key(client, label, document):
        return {"result": "unchanged"}
    role, fields = _role_and_fields(document)
    created = await client.create_key(document["team"], role, label, fields=fields)
    return {"result": "created", "key": created["key"]}


async def has_key(client: AsyncClient, label: str, document: Json) -> bool:
    """Whether the team has a valid key of this label, as the document says.

    Raises:
        Rejected: it has one of another role or life.
    """
    team, now = document["team"], now_ms()
    role, fields = _role_and_fields(document)
    valid = [
        one
        for one in await client.keys(team)
        if one.get("label") == label and state_of(one, now) == "valid"
    ]
    differences = [_difference(one, role, fields) for one in valid]
    if "" in differences or not differences:
        return bool(differences)
    prefix = valid[0]["prefix"]
    revoke = f"muster admin keys revoke -t {team} {prefix}"
    advice = f"Revoke it ({revoke}) and apply again, or give the document another name."
    raise Rejected(f"the valid key {prefix} of this label {differences[0]}. {advice}")


def document_of_key(team: str, key: Json) -> Json:
    """The document of kind ApiKey by which a key is as it is."""
    document = {"kind": "ApiKey", "name": key["label"], "team": team, "role": key["role"]}
    life_seconds = _life_seconds(key)
    return document if life_seconds is None else {**document, "expires_in_seconds": life_seconds}


def _role_and_fields(document: Json) -> tuple[Any, Json]:
    fields = {name: document[name] for name in document if name not in ("team", "role", "label")}
    return document.get("role", "member"), fields


def _difference(key: Json, role: Any, fields: Json) -> str:  # noqa: ANN401  # any JSON
    """What a valid key has that the document does not say; empty without any."""
    unknown = sorted(fields.keys() - {"expires_in_seconds"})
    if unknown:
        return f"has no field `{unknown[0]}`"
    if key.get("role") != role:
        return f"has role {key.get('role')}, the document says {role}"
    life, said = _life_seconds(key), fields.get("expires_in_seconds")
    if life is None or not isinstance(said, int):
        same = life is said
    else:
        same = abs(life - said) <= CLOCKS_SECONDS
    return "" if same else f"expires {_after(life)}, the document says {_after(said)}"


def _life_seconds(key: Json) -> int | None:
    if not key.get("expires_at_ms"):
        return None
    life_ms = int(key["expires_at_ms"]) - int(key["created_at_ms"])
    return round(life_ms / 1000)


def _after(seconds: int | None) -> str:
    return "never" if seconds is None else f"{seconds} s after it was made"
