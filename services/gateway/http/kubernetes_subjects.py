"""Which team and role a user of the cluster has, by the documents of teams. Pure.

A team's document names users and groups with the role that each has in the team; the strongest
counts. Operators are named by a setting: no document of a team makes one. A user of several teams
says which is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from services.gateway.http.authorisation import RANK, Role, Subject
from shared.core.model.decision import FieldError
from shared.events.organisation import TeamApplied
from shared.ports.token_reviews import TokenOwner

NAMED_MAX: Final = 100
NAME_LENGTH_MAX: Final = 253
ROLES: Final = (Role.VIEWER, Role.MEMBER, Role.ADMIN)
EVERYONE: Final = frozenset(("group:system:authenticated", "group:system:unauthenticated"))
_FORM: Final = "must be user:NAME or group:NAME"


class NoTeam(Exception):  # noqa: N818  # says what there is
    """The cluster knows the user, and no team, or no single one, is known for it."""


def problems_of_access(access: Mapping[str, str]) -> Iterator[FieldError]:
    """Every broken rule of the users and groups that a team's document names."""
    if len(access) > NAMED_MAX:
        rule = f"must name at most {NAMED_MAX} users and groups"
        yield FieldError(field="kubernetes", value=str(len(access)), rule=rule)
    for name, role in access.items():
        rule = _problem(name)
        if rule:
            yield FieldError(field="kubernetes", value=name[:NAME_LENGTH_MAX], rule=rule)
        if role not in ROLES:
            rule = f"must be one of {', '.join(ROLES)}"
            yield FieldError(field=f"kubernetes.{name}", value=role, rule=rule)


def _problem(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind not in {"user", "group"} or not rest or not rest.isprintable():
        return _FORM
    if len(rest) > NAME_LENGTH_MAX:
        return f"must have at most {NAME_LENGTH_MAX} characters after the colon"
    return "must not be a group that every caller is in" if name in EVERYONE else ""


def named_subjects(text: str) -> frozenset[str]:
    """Users and groups of a setting, comma-separated; raises ValueError for what is none."""
    names = frozenset(filter(None, (one.strip() for one in text.split(","))))
    for name in names:
        if _problem(name):
            raise ValueError(f"{name}: {_problem(name)}")
    return names


def subject_of(
    owner: TokenOwner,
    teams: Mapping[str, TeamApplied],
    operators: Collection[str],
    team: str = "",
) -> Subject:
    """The caller; `team` says which is meant where there are several. O(teams).

    Raises:
        NoTeam: with what to do.
    """
    names = {f"user:{owner.user}", *(f"group:{one}" for one in owner.groups)}
    if not team and not names.isdisjoint(operators):
        return _subject(owner, "", Role.OPERATOR)
    roles = {
        name: max((Role(document.kubernetes[one]) for one in found), key=RANK.__getitem__)
        for name, document in teams.items()
        if (found := names & document.kubernetes.keys())
    }
    if team:
        roles = {name: role for name, role in roles.items() if name == team}
    if not roles:
        where = f"team {team}" if team else "a team"
        raise NoTeam(
            f"the cluster knows {owner.user}, but no user or group of it is in the document of"
            f" {where}: ask an operator to name one in its field kubernetes"
        )
    if len(roles) > 1:
        raise NoTeam(
            f"{owner.user} is of the teams {', '.join(sorted(roles))}:"
            " say which by MUSTER_TEAM, or the header Muster-Team"
        )
    return _subject(owner, *roles.popitem())


def _subject(owner: TokenOwner, team: str, role: Role) -> Subject:
    return Subject(name=f"kubernetes:{owner.user}", team=team, role=role, user=owner.user)
