"""Commands in pods over a real API server: output by stream, exit codes, and whose pods."""

import itertools
import os
from dataclasses import dataclass

import pytest

from shared.adapters.kubernetes.pod_exec import KubernetesPodExec
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.pod_exec import CommandEnded, ExecCommand, NoPod, Output
from tests.contract.cluster_worlds import a_pod, create, running
from tests.kube.kube_world import KubeWorld, on_kubernetes

_numbers = itertools.count(1)


@dataclass
class Running:
    """A cluster with pods of one Muster, and who runs commands in them."""

    world: KubeWorld
    commands: KubernetesPodExec


@pytest.fixture
async def place(kube):
    instance = f"exec-{os.getpid()}-{next(_numbers)}"
    async with on_kubernetes(kube, instance) as world:
        config = str(kube.kubeconfig("gateway"))
        settings = KubernetesSettings(config=config, instance=instance)
        commands = KubernetesPodExec(settings)
        try:
            yield Running(world, commands)
        finally:
            await commands.close()


async def run(place, *command, workload_id="w1", rank=0):
    """What it wrote on each stream, and how it ended."""
    written = {"stdout": b"", "stderr": b""}
    request = ExecCommand(workload_id=workload_id, attempt=1, rank=rank, command=command)
    async with place.commands.run(request) as pieces:
        async for piece in pieces:
            if isinstance(piece, CommandEnded):
                return written["stdout"], written["stderr"], piece
            assert isinstance(piece, Output)
            written[piece.stream] += piece.data
    raise AssertionError("it has no end")


async def test_output_comes_by_stream_and_the_words_of_a_command_stay_words(place):
    await running(place.world)
    script = 'printf "%s|" "$@"; echo no >&2'

    found = await run(place, "sh", "-c", script, "sh", "a b", "é;&?=", "")

    assert ("a b|é;&?=||".encode(), b"no\n", CommandEnded(0)) == found


async def test_a_command_that_fails_is_told_with_the_words_of_the_kubelet(place):
    await running(place.world)

    _, _, end = await run(place, "sh", "-c", "exit 7")

    assert end.exit_code is None  # KWOK tells words where a kubelet tells the number
    assert "exit status 7" in end.message


async def test_much_output_comes_whole(place):
    await running(place.world)

    out, _, end = await run(place, "sh", "-c", "head -c 3000000 /dev/zero")

    assert (3_000_000, 0) == (len(out), end.exit_code)


async def test_a_program_that_is_not_there_ends_with_the_reason(place):
    await running(place.world)

    _, _, end = await run(place, "no-such-program")

    assert end.exit_code is None
    assert "no-such-program" in end.message


@pytest.mark.parametrize("other", [{"rank": 1}, {"workload_id": "w2"}])
async def test_of_a_pod_that_is_not_there_it_is_told(place, other):
    await running(place.world)

    with pytest.raises(NoPod, match="there is no pod of rank"):
        await run(place, "true", **other)


async def test_nothing_runs_in_a_pod_that_has_not_started(place):
    await place.world.one(create(a_pod()))

    with pytest.raises(NoPod, match="does not run: it is Pending"):
        await run(place, "true")
