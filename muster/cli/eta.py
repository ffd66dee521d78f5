"""`muster eta`: when a workload is likely to start and to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.cli.output import Format, local_time, show_value
from muster.cli.session import call, now_ms
from muster.cli.workloads import OutputOption, WorkloadArgument, resolve

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]


def eta(workload: WorkloadArgument, output: OutputOption = Format.TABLE) -> None:
    """Say when a workload is likely to start and to end, and on what that rests.

    Half of the cases are over by the first time, nine of ten by the second.

    Examples:
      muster eta train-7

      muster eta train-7 -o json | jq .start.p90_ms
    """

    async def get(client: AsyncClient) -> Json:
        return await client.eta(await resolve(client, workload))

    answer = call(get)
    if output is Format.NAME:
        print(answer["id"])
    elif output in (Format.JSON, Format.YAML):
        show_value(answer, output)
    else:
        print("\n".join(_lines(answer, now_ms())))


def _lines(answer: Json, now: int) -> list[str]:
    lines = [f"{answer['id']} is {answer['state']}."]
    earliest = answer.get("earliest_start")
    if earliest:
        moment = _moment(earliest["at_ms"], now)
        lines.append(f"Start: at the earliest {moment}, by {_basis(earliest)}")
    lines += [_line(word, answer[word], now) for word in ("start", "end") if answer[word]]
    if answer["message"]:
        lines.append(answer["message"][0].upper() + answer["message"][1:] + ".")
    return lines


def _line(word: str, found: Json, now: int) -> str:
    p50, p90 = (_moment(found[name], now) for name in ("p50_ms", "p90_ms"))
    return f"{word.capitalize()}: {p50} (p50) to {p90} (p90), by {_basis(found)}"


def _basis(found: Json) -> str:
    count = found["samples"]
    return f"{found['basis']}{f', {count} case' if count else ''}{'s' if count > 1 else ''}"


def _moment(moment_ms: int, now: int) -> str:
    seconds = max(moment_ms - now, 0) // 1000
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    left = f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
    return f"{local_time(moment_ms)}, in {left}"
