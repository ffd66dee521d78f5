"""`muster why`: the reason, the numbers behind it, and what would help; now or in the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli.durations import moment_of
from muster.cli.failures import UsageError
from muster.cli.output import Format, age, gpus, local_time, reason_of, show_value
from muster.cli.quota import budget_line
from muster.cli.session import call, now_ms
from muster.cli.workloads import OutputOption, WorkloadArgument, resolve
from muster.client import ENDED

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
UNLIMITED: Final = 2**62
WORDS: Final = {"gpu_milli": "GPUs", "cpu_milli": "CPUs", "memory_mib": "MiB of memory"}
BY_ITSELF: Final = frozenset({"succeeded", "failed"})
"""Ends that are no passive verb."""
EPOCH_MS_MIN: Final = 10**12
"""A number of milliseconds from here on is a moment (after 2001), below it a length of time."""
STOPS: Final = ", which is being stopped"


def why(
    workload: WorkloadArgument,
    at: Annotated[
        str, typer.Option(help="Then, not now: 10m (ago), or a time such as 2026-11-21T14:05.")
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Say why a workload stands where it stands, and what would help.

    Examples:
      muster why train-7

      muster why train-7 --at 10m

      muster why train-7 -o json | jq .place
    """
    at_ms = moment_of(at, now_ms()) if at else None
    if at_ms is not None and at_ms > now_ms():
        raise UsageError(f"--at must not be in the future (given: {at})")

    async def get(client: AsyncClient) -> tuple[str, Json]:
        identifier = await resolve(client, workload)
        return identifier, await client.why(identifier, at_ms=at_ms)

    identifier, answer = call(get)
    if output is Format.NAME:
        print(answer.get("reason", ""))
    elif output in (Format.JSON, Format.YAML):
        show_value(answer, output)
    else:
        print("\n".join(lines_of(identifier, answer, at_ms or now_ms())))


def lines_of(identifier: str, answer: Json, now: int) -> list[str]:
    """The answer for people; what is not known has no line."""
    since = _age(answer, "since", now)
    stood_for = _age(answer, "state_since", now) or since
    lines = [f"{identifier} {_stood(answer, stood_for)}."]
    still = since != stood_for and answer.get("state") not in ENDED
    lines += sentence_of(answer, f" (for {since})" if still else "")
    evidence = answer.get("evidence") or {}
    if evidence and answer.get("state") != "rejected":  # there it is the message once more
        told = (_evidence(name, value) for name, value in evidence.items())
        lines.append("Evidence: " + ", ".join(told))
    lines += _recorded(answer.get("recorded"))
    lines += _place(answer.get("place")) + _turn(answer)
    lines += _limits(answer) + _budget(answer) + _left_out(answer.get("spot_left_out"))
    return lines + _future(answer) + _past(answer)


def sentence_of(answer: Json, lately: str = "") -> list[str]:
    """The reason with its message, and the next step; nothing where neither is known."""
    lines = []
    if answer.get("reason"):
        lines.append(f"{reason_of(answer)}{lately}: {answer.get('message', '')}")
    elif answer.get("message"):
        lines.append(answer["message"])
    if answer.get("next_step"):
        lines.append(f"Next: {answer['next_step']}")
    return lines


def _recorded(one: Json | None) -> list[str]:
    return [f"Recorded: {reason_of(one)}: {one['message']}"] if one else []


def _stood(answer: Json, age_text: str) -> str:
    """Such as "is queued for 3m", "was queued for 3m", or "was rejected 3m ago"."""
    state, past = answer.get("state", "unknown"), answer.get("at_ms") is not None
    if state in ENDED:
        ended = f"{'had ' if past else ''}{state}" if state in BY_ITSELF else f"was {state}"
        return f"{ended} {age_text} {'before' if past else 'ago'}" if age_text else ended
    return f"{'was' if past else 'is'} {state}{f' for {age_text}' if age_text else ''}"


def _evidence(name: str, value: Any) -> str:  # noqa: ANN401  # any JSON
    """A number with its name; a moment on the clock of the reader."""
    if name.endswith("_ms") and isinstance(value, int) and value >= EPOCH_MS_MIN:
        return f"{name.removesuffix('_ms')} {local_time(value)}"
    return f"{name} {value}"


def _age(answer: Json, field: str, now: int) -> str:
    since = answer.get(field)
    return age(since, now) if isinstance(since, int) else ""


def _place(place: Json | None) -> list[str]:
    if not place:
        return []
    line = f"Place: {place['place']} of {place['waiting']} that wait in queue {place['queue']}"
    if place["first"]:
        ahead = ", ".join(one["name"] or one["id"] for one in place["first"])
        line += f"; {gpus(place['gpu_milli_ahead'])} GPUs ahead of it, first {ahead}"
    return [line]


def _turn(answer: Json) -> list[str]:
    """What is owed to it, or for which debt others go first."""
    owed, turn = answer.get("owed"), answer.get("turn")
    lines = [f"Turn: {owed or (turn or {}).get('message')}"] if owed or turn else []
    return lines if owed else lines + _no_eviction(answer.get("no_eviction"))


def _no_eviction(found: Json | None) -> list[str]:
    """Why no victim is evicted for it; where its queue owns enough its turn says so."""
    if not found:
        return []
    again = found.get("retry_at_ms")
    change = f" It may change at {local_time(again)}." if again else ""
    return [f"Evictions: none for it. {found['message']}{change} Next: {found['next_step']}"]


def _limits(answer: Json) -> list[str]:
    """One line for each level, where it lacks something one for each resource that it lacks.

    Of GPUs; of CPUs where the flavor has no GPUs to share.
    """
    levels = answer.get("limits") or ()
    by_gpu = any(
        one[kind]["gpu_milli"] for one in levels for kind in ("total_nominal", "total_used")
    )
    usual = "gpu_milli" if by_gpu else "cpu_milli"
    return [_level(one, unit) for one in levels for unit in one.get("lacks") or (usual,)]


def _budget(answer: Json) -> list[str]:
    budget = answer.get("budget")
    return [f"Budget: {budget_line(budget)}"] if budget else []


def _left_out(spot: list[str] | None) -> list[str]:
    if not spot:
        return []
    what = "with checkpoint_interval_seconds and preemptible it may run there, too"
    return [f"Left out: {', '.join(spot)}, as spot nodes may leave at any time; {what}"]


def _level(one: Json, unit: str) -> str:
    total = one["total_nominal"][unit]
    of = "" if total >= UNLIMITED else f" of {_amount(total, unit)}"
    parts = [f"uses {_amount(one['total_used'][unit], unit)}{of} {WORDS[unit]}"]
    parts.append(f"may take {_left(one['available'][unit], unit)} more")
    more = [name for name in ("borrowed", "lent") if one[name][unit]]
    parts += [f"{name} {_amount(one[name][unit], unit)}" for name in more]
    mark = "  <- the limit" if one["blocks"] else ""
    return f"Quota: {one['kind']} {one['name']} ({one['flavor']}) {', '.join(parts)}{mark}"


def _amount(value: int, unit: str) -> str:
    return str(value) if unit == "memory_mib" else gpus(value)


def _left(value: int, unit: str) -> str:
    return "any number" if value >= UNLIMITED else _amount(max(value, 0), unit)


def _future(answer: Json) -> list[str]:
    lines = []
    for one in answer.get("frees_next") or ():
        who = one["workload"]["name"] or one["workload"]["id"] or "a workload of another team"
        amount = gpus(one["charge"]["gpu_milli"])
        unit = "GPU" if amount == "1" else "GPUs"
        stops = one.get("state") in ("evicting", "cancelling")
        when = f"{'by' if stops else 'at about'} {local_time(one['ends_at_ms'])}"
        lines.append(f"Frees next: {amount} {unit} {when} ({who}{STOPS if stops else ''})")
    if answer.get("promised_start_ms"):
        lines.append(f"Promised start: {local_time(answer['promised_start_ms'])}")
    return lines


def _past(answer: Json) -> list[str]:
    """What it was told at its last eviction: when, by which actor or for which preemptor, why."""
    one = answer.get("last_eviction") or answer.get("preempted_by")
    if not one:
        return []
    return [f"Evicted at {local_time(one['at_ms'])}: {one['message'] or reason_of(one)}"]
