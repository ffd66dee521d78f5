"""Scenarios of chaos: what a document may say, and the plan that follows from it and a seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.chaos.document import read
from operations.chaos.faults import Fault, Strike
from operations.chaos.places import Place
from operations.chaos.running import run
from operations.chaos.scenario import ANY, ANY_GPU, Step, as_json, names_of, plan_of, steps_of
from operations.failures import Failure, Refused

PLACES = {f"n{number}": Place(name=f"n{number}", gpus=8) for number in range(20)}
STEPS = (
    Step(at_s=9, do=Fault.XID, node=ANY, gpu=ANY_GPU, code=79),
    Step(at_s=0, do=Fault.SILENT, node=ANY, for_s=30),
    Step(at_s=9, do=Fault.RESET, node="n3", gpu=2),
)


def refused(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "chaos.yaml"
    file.write_text(text)
    with pytest.raises(Refused) as raised:
        read(file, steps_of)
    return [line.strip() for line in str(raised.value).splitlines()[1:]]


def test_the_same_seed_gives_the_same_plan_and_another_one_another():
    plans = [as_json(plan_of(STEPS, PLACES, seed)) for seed in ("1", "1", "2")]
    backwards = plan_of(STEPS, dict(reversed(PLACES.items())), "1")

    assert plans[0] == plans[1] == as_json(backwards)
    assert plans[0] != plans[2]


def test_faults_are_made_in_order_of_time_and_then_of_the_document():
    plan = plan_of(STEPS, PLACES, "1")

    assert [Fault.SILENT, Fault.XID, Fault.RESET] == [one.strike.fault for one in plan]
    assert Strike(fault=Fault.RESET, node="n3", gpu=2) == plan[2].strike


def test_the_draw_of_a_step_does_not_depend_on_the_others():
    changed = (STEPS[0], Step(at_s=0, do=Fault.NODE, node="n1"), STEPS[2])

    before, after = plan_of(STEPS, PLACES, "1"), plan_of(changed, PLACES, "1")

    assert before[1:] == after[1:]


def test_any_is_a_simulated_node_that_is_up_and_has_the_gpu():
    places = {
        "real": Place(name="real", gpus=8, simulated=False),
        "down": Place(name="down", gpus=8, ready=False),
        "cpu": Place(name="cpu", gpus=0),
        "four": Place(name="four", gpus=4),
        "eight": Place(name="eight", gpus=8),
    }

    fits = {
        gpu: {
            plan_of([Step(at_s=0, do=Fault.LOST, node=ANY, gpu=gpu)], places, f"{seed}")[
                0
            ].strike.node
            for seed in range(40)
        }
        for gpu in (0, 5)
    }

    assert {0: {"four", "eight"}, 5: {"eight"}} == fits


def test_every_gpu_of_a_node_may_be_drawn_and_no_other():
    step = Step(at_s=0, do=Fault.LOST, node="n1", gpu=ANY_GPU)

    drawn = {plan_of([step], PLACES, f"{seed}")[0].strike.gpu for seed in range(200)}

    assert set(range(8)) == drawn


def test_a_step_without_a_place_is_told_by_its_number():
    steps = [
        Step(at_s=0, do=Fault.XID, node="n99"),
        Step(at_s=0, do=Fault.XID, node="n1", gpu=8),
        Step(at_s=0, do=Fault.XID, node="n1"),
    ]

    with pytest.raises(Refused) as raised:
        plan_of(steps, PLACES, "1")

    assert [
        "the scenario is refused",
        "  steps[0].node: no node n99 (given: n99)",
        "  steps[1].node: n1 has no GPU 8 (given: n1)",
    ] == str(raised.value).splitlines()


def test_without_a_simulated_node_any_is_nowhere():
    places = {"real": Place(name="real", gpus=8, simulated=False, allowed=True)}

    with pytest.raises(Refused, match="no simulated node that is up has a GPU 0"):
        plan_of([STEPS[0]], places, "1")


def test_a_document_is_read_as_it_stands(tmp_path):
    file = tmp_path / "chaos.yaml"
    file.write_text(
        "steps:\n"
        "- {at_s: 1.5, do: xid, node: n1, gpu: any, code: 119}\n"
        "- {at_s: 2, do: silent, node: any, for_s: 60}\n"
    )

    steps = read(file, steps_of)

    assert steps == (
        Step(at_s=1.5, do=Fault.XID, node="n1", gpu=ANY_GPU, code=119),
        Step(at_s=2, do=Fault.SILENT, node=ANY, for_s=60),
    )
    assert {"n1"} == names_of(steps)


def test_the_example_is_a_scenario():
    steps = read(Path("examples/chaos.yaml"), steps_of)

    assert len(steps) == len(plan_of(steps, PLACES, "7"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{}", ["steps: must be a list of 1 to 1,000"]),
        ("[]", ["document: must be a list of 1 to 1,000 steps (given: [])"]),
        ("none", ["document: must be a list of 1 to 1,000 steps (given: none)"]),
        ("[7]", ["steps[0]: must be a mapping (given: 7)",
                 "steps[0].at_s: must be a number from 0 to 86,400",
                 "steps[0].node: must be a text"]),
        ("[{at_s: soon, do: lost, node: n1}]",
         ["steps[0].at_s: must be a number from 0 to 86,400 (given: soon)"]),
        ("[{at_s: .nan, do: lost, node: n1}]",
         ["steps[0].at_s: must be a number from 0 to 86,400 (given: nan)"]),
        ("[{at_s: true, do: lost, node: n1}]",
         ["steps[0].at_s: must be a number from 0 to 86,400 (given: True)"]),
        ("[{at_s: 0, do: lost, node: 7}]", ["steps[0].node: must be a text (given: 7)"]),
        ("[{at_s: 0, do: lost, node: n1, gpu: -1}]",
         ["steps[0].gpu: must be any or a whole number from 0 to 255 (given: -1)"]),
        ("[{at_s: 0, do: xid, node: n1, code: 1.5}]",
         ["steps[0].code: must be a whole number from 0 to 999,999 (given: 1.5)"]),
        ("[{at_s: 0, do: silent, node: n1, for_s: 86401}]",
         ["steps[0].for_s: must be a whole number from 0 to 86,400 (given: 86401)"]),
        ("[{at_s: 0, do: lost, node: n1, gpus: 3}]",
         ["steps[0].gpus: is no field; there are at_s, do, node, gpu, code, for_s (given: 3)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_field_rule_and_value(tmp_path, text, lines):
    found = refused(tmp_path, text)

    assert lines == [line for line in found if not line.startswith("steps[0].do")]


def test_what_is_no_yaml_or_too_large_is_refused(tmp_path):
    file = tmp_path / "chaos.yaml"
    for content in ("[", "\x00", "- {at_s: 0, do: lost, node: n1}\n" * 40_000):
        file.write_text(content)
        with pytest.raises(Refused):
            read(file, steps_of)


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic_seconds(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


async def test_each_fault_is_made_at_its_time_and_told():
    clock = ManualClock()
    made: list[tuple[float, str, str]] = []
    told: list[str] = []

    async def make(strike: Strike, place: Place) -> None:
        made.append((clock.seconds - 100, strike.node, place.name))
        clock.seconds += 2

    plan = plan_of(STEPS, PLACES, "1")
    await run(plan, make, told.append, clock, clock.sleep)

    assert [0.0, 9.0, 11.0] == [at for at, *_ in made]
    assert all(node == place for _, node, place in made)
    assert told[0].startswith("     0.0 s  silent for 30 s: node n")
    assert "     9.0 s  reset: GPU 2 of node n3  [3/3]" == told[2]


async def test_a_fault_that_cannot_be_made_ends_the_run_with_its_number():
    clock, made = ManualClock(), []

    async def make(strike: Strike, place: Place) -> None:
        made.append(strike)
        raise Failure("away")

    with pytest.raises(Failure, match=r"step 1 of 3 \(silent\): away"):
        await run(plan_of(STEPS, PLACES, "1"), make, print, clock, clock.sleep)
    assert len(made) == 1
