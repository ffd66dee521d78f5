"""`muster run`: what is submitted, what is said while it waits, and how it ends."""

import os
import signal
import sys
from unittest import mock

import pytest

from muster.cli.failures import UsageError
from muster.cli.running.specification import environment_of, name_of
from muster.client import AsyncClient
from tests.unit.cli.builders import ID, accepted, workload
from tests.unit.cli.gateway import Answer, problem

GET = f"GET /v1/workloads/{ID}"
WHY = {
    "state": "queued",
    "reason": "QuotaExceeded",
    "message": "vision uses 8 of 8 GPUs",
    "next_step": "wait for train-6",
}


@pytest.fixture(autouse=True)
def pace(monkeypatch):
    """Those who follow look often."""
    monkeypatch.setattr("muster.cli.waiting.POLL_SECONDS_MAX", 0.02)
    monkeypatch.setattr("muster.cli.running.following.TELL_SECONDS", 0.01)
    monkeypatch.setattr("muster.cli.running.following.ASK_SECONDS", 0.02)


def test_the_options_become_the_document_that_is_submitted(muster, gateway, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload("succeeded"))

    options = [
        *("--gpus", "8", "--nodes", "2", "--cpus", "0.5", "--memory-gib", "64"),
        *("--image", "registry.example/torch:2.9", "-e", "A=b=c", "-e", "WANDB_MODE"),
        *("--secret", "wandb", "--volume", "datasets:/data:ro", "--name", "llama"),
        *("--queue", "vision", "--priority-class", "batch", "--product", "H100"),
        *("--pool", "research", "--max-duration", "2h", "--kind", "notebook", "-t", "vision"),
    ]
    done = muster("run", *options, "--", "python", "train.py", "--gpus", "1")

    assert 0 == done.code
    (sent,) = gateway.requests("POST /v1/workloads")
    assert {"team": "vision"} == sent.query
    assert sent.body == {
        "name": "llama",
        "kind": "notebook",
        "queue": "vision",
        "priority_class": "batch",
        "pod_sets": [
            {
                "count": 2,
                "gpu": {"count": 8},
                "image": "registry.example/torch:2.9",
                "command": ["python", "train.py", "--gpus", "1"],
                "environment": {"A": "b=c", "WANDB_MODE": "offline"},
                "secrets": ["wandb"],
                "volumes": ["datasets:/data:ro"],
                "cpu_milli": 500,
                "memory_mib": 65536,
            }
        ],
        "gpu_choice": {"products": ["H100"], "node_pool": "research"},
        "spread": "required",
        "max_duration_seconds": 7200,
    }


def test_what_is_not_said_is_left_to_the_service_and_options_end_at_the_command(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload("succeeded"))

    muster("run", "python", "train.py", "--detach")

    (sent,) = gateway.requests("POST /v1/workloads")
    command = ["python", "train.py", "--detach"]
    pod_set = {"count": 1, "gpu": {"count": 1}, "command": command}
    assert {"name": "train", "kind": "training", "pod_sets": [pod_set]} == sent.body


def test_each_state_and_each_reason_of_a_wait_is_told_once(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    running = workload("running", nodes=[f"node-{number}" for number in range(6)])
    waits, runs = [workload("queued")] * 100, [running] * 10
    gateway.on(GET, *waits, *runs, workload("succeeded"))
    other = {**WHY, "reason": "InsufficientCapacity", "message": "6 of 8 GPUs are free"}
    gateway.on(f"{GET}/logs", Answer(text="", kind="text/plain"))
    gateway.on(f"{GET}/why", WHY, WHY, WHY, problem(500, "failed"), other)

    done = muster("run", "--gpus", "8", "--", "python", "train.py")

    assert (0, "") == (done.code, done.out)
    assert done.err.splitlines() == [
        f"{ID}  train  accepted",
        "train is received.",
        "train is queued.",
        "  QuotaExceeded: vision uses 8 of 8 GPUs",
        "  Next: wait for train-6",
        "  InsufficientCapacity: 6 of 8 GPUs are free",
        "  Next: wait for train-6",
        "train is running on node-0, node-1, node-2, node-3 and 2 more nodes.",
        "train has succeeded.",
    ]


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("failed", "never-starts", 100),
        ("cancelled", "Cancelled", 103),
        ("rejected", "Invalid", 5),
    ],
)
def test_it_ends_as_the_work_ends_and_says_why(muster, gateway, state, reason, code):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload(state, reason=reason, message="in words"))

    done = muster("run", "--", "python", "train.py")

    assert code == done.code
    assert f"{reason}: in words" in done.err


@pytest.mark.parametrize(("exit_code", "code"), [(7, 7), (137, 137), (0, 100)])
def test_work_that_fails_ends_the_command_with_its_own_exit_code(muster, gateway, exit_code, code):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload("failed", reason="failed", exit_code=exit_code))

    done = muster("run", "--", "python", "train.py")

    assert code == done.code


def test_detached_it_prints_the_id_alone_and_exits_by_the_verdict(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on("GET /v1/workloads", {"items": [workload("queued")]})

    assert (0, f"{ID}\n", "") == (
        (done := muster("run", "-d", "--", "true")).code,
        done.out,
        done.err,
    )

    gateway.answers["GET /v1/workloads"].clear()
    refused = workload("rejected", reason="QueueUnknown", message="no queue x")
    gateway.on("GET /v1/workloads", {"items": [refused]})
    done = muster("run", "-d", "--", "true")

    assert (5, f"{ID}\n") == (done.code, done.out)
    assert "QueueUnknown: no queue x" in done.err


def test_what_is_refused_at_the_door_is_told_by_its_field(muster, gateway):
    errors = [{"field": "name", "value": "-x", "rule": "must be a DNS-1123 label"}]
    gateway.on("POST /v1/workloads", problem(400, "invalid", errors=errors))

    done = muster("run", "--name", "-x", "--", "true")

    assert 5 == done.code
    assert "name: must be a DNS-1123 label (given: -x)" in done.err


def test_the_time_ends_the_stay_and_not_the_work(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload("running"))

    done = muster("run", "--timeout", "0.2s", "--", "true")

    assert 101 == done.code
    assert f"It goes on without this command: `muster status {ID}`." in done.err
    assert [] == gateway.requests(f"POST /v1/workloads/{ID}/cancel")


def _interrupting(monkeypatch, gateway, times: int) -> None:
    """Ctrl-C so many times while it waits, one at each look at it; then it is cancelled."""
    left = [times]

    async def get(_, identifier):
        if left[0]:
            left[0] -= 1
            os.kill(os.getpid(), signal.SIGINT)
        asked = gateway.requests(f"POST /v1/workloads/{identifier}/cancel")
        return workload("cancelled" if asked else "queued")

    gateway.on("POST /v1/workloads", accepted())
    gateway.on(f"POST /v1/workloads/{ID}/cancel", {"id": ID, "command": "cancel"})
    monkeypatch.setattr(AsyncClient, "get", get)


def test_on_a_terminal_the_first_interrupt_asks_and_the_second_cancels(
    muster, gateway, monkeypatch
):
    _interrupting(monkeypatch, gateway, 2)
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: True))

    done = muster("run", "--timeout", "20s", "--", "true")

    assert 103 == done.code
    told = [line for line in done.err.splitlines() if "ancel" in line]
    assert told[0].startswith(f"Cancel {ID}? Ctrl-C within 10 s cancels it")
    assert told[1].startswith(f"Cancelling {ID}")


def test_one_interrupt_on_a_terminal_cancels_nothing(muster, gateway, monkeypatch):
    _interrupting(monkeypatch, gateway, 1)
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: True))

    done = muster("run", "--timeout", "1s", "--", "true")

    assert 101 == done.code
    assert [] == gateway.requests(f"POST /v1/workloads/{ID}/cancel")


def test_without_a_terminal_the_first_interrupt_cancels(muster, gateway, monkeypatch):
    _interrupting(monkeypatch, gateway, 1)
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: False))

    done = muster("run", "--timeout", "20s", "--", "true")

    assert 103 == done.code
    assert "?" not in done.err


def test_an_interrupt_while_it_is_cancelled_leaves(muster, gateway, monkeypatch):
    _interrupting(monkeypatch, gateway, 2)
    monkeypatch.setattr(AsyncClient, "cancel", mock.AsyncMock(return_value={}))
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: False))

    done = muster("run", "--timeout", "60s", "--", "true")

    assert 101 == done.code
    assert f"`muster status {ID}`" in done.err


def test_a_cancellation_that_fails_is_told_and_can_be_tried_again(muster, gateway, monkeypatch):
    _interrupting(monkeypatch, gateway, 1)
    gateway.answers[f"POST /v1/workloads/{ID}/cancel"].clear()
    gateway.on(f"POST /v1/workloads/{ID}/cancel", problem(403, "viewers may not"))
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: False))

    done = muster("run", "--timeout", "20s", "--", "true")

    assert f"It is not cancelled: No: viewers may not. Try `muster cancel {ID}`." in done.err


def test_nothing_to_run_is_a_usage_error(muster, gateway):
    done = muster("run", "--gpus", "8")

    assert 2 == done.code
    assert "muster run --gpus 8 -- python train.py" in done.err
    assert [] == gateway.seen


@pytest.mark.parametrize(("word", "told"), [("=b", "KEY=VALUE"), ("GONE", "not set here")])
def test_a_variable_without_name_or_value_is_a_usage_error(word, told):
    with pytest.raises(UsageError, match=told):
        environment_of([word], {})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--epochs", "3"], "train"),
        (["python", "-m", "train.main"], "train-main"),
        (["/opt/bin/Nvidia_SMI"], "nvidia-smi"),
        (["bash", "-c", "echo"], "bash"),
        (["..."], "run"),
        (["a" * 80], "a" * 63),
        (["registry.example/torch:2.9"], "torch"),
        ([], ""),
    ],
)
def test_a_name_is_made_of_the_command(command, name):
    assert name == name_of(command)
