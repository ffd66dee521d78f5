"""Which smaller form like work would have done with: the five known answers, and silence."""

import pytest

from shared.core.model.mig.tables import table_for
from shared.core.model.nouns import WorkloadKind
from shared.core.quota.cost import GPU_HOUR_MILLI_MS
from shared.core.rightsize import (
    Board,
    ClassEvidence,
    Form,
    HeldForm,
    SizeJudgement,
    SizeVerdict,
    judge,
)
from shared.core.rightsize.evidence import memory_class, quantile, without_counter
from shared.core.usage import UseAmounts

GIB = 1_024
KIND = WorkloadKind
TABLE = table_for("NVIDIA-A100-SXM4-80GB", 80 * GIB)
assert TABLE is not None
H80 = Board(
    memory_mib=80 * GIB,
    profiles=tuple((p.name, p.compute, p.milli, p.size * 10 * GIB) for p in TABLE.plain),
)
PLAIN = Board(memory_mib=80 * GIB)


def judged(
    kind: WorkloadKind,
    percent: int,
    gib: int,
    *,
    gpus: int = 1,
    milli: int = 1_000,
    pods: int = 1,
    hours: int = 100,
    unmeasured: int = 0,
    board: Board = H80,
) -> SizeJudgement:
    """Of work that is this busy all the time, of which this many per cent are unmeasured."""
    allocated = gpus * milli * hours * GPU_HOUR_MILLI_MS // 1_000
    lost = allocated * unmeasured // 100
    used = (allocated - lost) * percent * 1_000 // milli // 100
    amounts = UseAmounts(used=used, unused=allocated - lost - used, unmeasured=lost)
    weight = hours * 3_600_000 * gpus
    seen = ClassEvidence(
        amounts=amounts, percents={percent: weight}, memory_mib={memory_class(gib * GIB): weight}
    )
    return judge(HeldForm(kind=kind, pods=pods, gpus=gpus, milli=milli), seen, board)


def test_a_training_on_eight_gpus_that_uses_a_fifth_of_each_does_with_two():
    found = judged(KIND.TRAINING, 20, 15, gpus=8)

    assert found.proposal is not None
    assert (Form.FEWER, 2, 1_000) == (
        found.proposal.form, found.proposal.gpus, found.proposal.milli,
    )  # fmt: skip
    assert 600 * GPU_HOUR_MILLI_MS == found.saved
    assert (SizeVerdict.SMALLER, 20, 20, 100) == (
        found.verdict, found.use_percent, found.busy_percent, found.run_hours,
    )  # fmt: skip


@pytest.mark.parametrize(("percent", "profile"), [(10, "1g.20gb"), (12, "2g.20gb")])
def test_an_inference_does_with_a_profile_that_has_its_memory_and_compute(percent, profile):
    found = judged(KIND.INFERENCE, percent, 9)

    assert found.proposal is not None
    assert (Form.MIG, profile) == (found.proposal.form, found.proposal.profile)
    assert 75 * GPU_HOUR_MILLI_MS == found.saved


def test_memory_has_its_margin():
    """Seventeen of twenty GiB are too near."""
    found = judged(KIND.INFERENCE, 10, 17).proposal

    assert found is not None
    assert "3g.40gb" == found.profile


def test_a_notebook_does_with_a_share():
    found = judged(KIND.NOTEBOOK, 3, 2, milli=500)

    assert found.proposal is not None
    assert (Form.SHARE, 50) == (found.proposal.form, found.proposal.milli)
    assert 45 * GPU_HOUR_MILLI_MS == found.saved


def test_whoever_uses_enough_is_told_nothing():
    found = judged(KIND.TRAINING, 45, 15, gpus=8)

    assert (SizeVerdict.BUSY, None, 0) == (found.verdict, found.proposal, found.saved)
    assert SizeVerdict.BUSY is judged(KIND.TRAINING, 40, 15, gpus=8).verdict
    assert SizeVerdict.SMALLER is judged(KIND.TRAINING, 39, 15, gpus=8).verdict


def test_memory_is_told_as_the_reason_where_compute_would_do():
    found = judged(KIND.INFERENCE, 10, 70)

    assert (SizeVerdict.MEMORY, None) == (found.verdict, found.proposal)
    assert 70 * GIB <= found.memory_mib < 73 * GIB


def test_nothing_is_said_where_too_much_is_unmeasured_or_too_little_ran():
    assert SizeVerdict.SMALLER is judged(KIND.TRAINING, 20, 15, gpus=8, unmeasured=20).verdict
    assert SizeVerdict.UNMEASURED is judged(KIND.TRAINING, 20, 15, gpus=8, unmeasured=21).verdict
    assert SizeVerdict.SMALLER is judged(KIND.TRAINING, 20, 15, gpus=8, hours=20).verdict
    assert SizeVerdict.SHORT is judged(KIND.TRAINING, 20, 15, gpus=8, hours=19).verdict
    assert SizeVerdict.SHORT is judge(
        HeldForm(kind=KIND.TRAINING, pods=1, gpus=1), ClassEvidence(), H80
    ).verdict  # fmt: skip
    assert SizeVerdict.UNMEASURED is judged(
        KIND.TRAINING, 20, 15, gpus=8, board=Board(memory_mib=0)
    ).verdict  # fmt: skip


def test_forms_are_those_of_the_kind_that_the_fleet_has():
    """Production inference is never proposed a share; a pod of two GPUs no profile for each."""
    assert SizeVerdict.FORM is judged(KIND.INFERENCE, 3, 1, board=PLAIN).verdict
    assert SizeVerdict.FORM is judged(KIND.TRAINING, 3, 1).verdict
    assert SizeVerdict.FORM is judged(KIND.NOTEBOOK, 3, 1, gpus=2).verdict
    found = judged(KIND.INFERENCE, 3, 1, gpus=2, pods=1).proposal
    assert found is not None
    assert (Form.FEWER, 1) == (found.form, found.gpus)
    assert SizeVerdict.FORM is judged(KIND.BATCH_INFERENCE, 1, 0, milli=50).verdict


def test_busy_times_that_need_all_of_it_are_told():
    """Nine tenths of the time at rest, one tenth at full speed: no smaller form is enough."""
    hour = 3_600_000
    amounts = UseAmounts(used=10 * GPU_HOUR_MILLI_MS, unused=90 * GPU_HOUR_MILLI_MS)
    seen = ClassEvidence(
        amounts=amounts, percents={0: 90 * hour, 100: 10 * hour}, memory_mib={1_023: 100 * hour}
    )

    found = judge(HeldForm(kind=KIND.INFERENCE, pods=1, gpus=1), seen, H80)

    assert (SizeVerdict.COMPUTE, 10, 100) == (found.verdict, found.use_percent, found.busy_percent)


def test_a_quantile_is_the_smallest_value_that_the_time_keeps_to():
    assert (10, 90) == (quantile({10: 95, 90: 5}, 95), quantile({10: 94, 90: 6}, 95))
    assert 90 == quantile({10: 1, 90: 1}, 100)
    with pytest.raises(ValueError, match="nothing"):
        quantile({}, 95)


@pytest.mark.parametrize("mib", [0, 1, 63, 64, 9 * GIB, 15 * GIB, 81_559, 300_000])
def test_memory_never_looks_smaller_than_it_is_nor_much_larger(mib):
    assert mib <= memory_class(mib) <= mib * 1.04
    assert memory_class(mib) == memory_class(memory_class(mib))


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("train-17", "train"), ("train-2026-11-28", "train"), ("train", "train"),
        ("llama-3f9c2a", "llama"), ("17", "17"), ("resnet-a1", "resnet-a1"),
        ("train-deadbeef", "train-deadbeef"), ("train-v2x-3", "train-v2x"),
        ("train-0123456789abcdef", "train-0123456789abcdef"),
    ],
)  # fmt: skip
def test_runs_are_told_apart_by_a_counter_that_is_no_part_of_the_name(name, stem):
    assert stem == without_counter(name)
