"""Submissions that documents show are accepted, and show all that may be asked of the place."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from shared.core.admission.admit import check_kind
from shared.core.admission.errors import Errors
from shared.core.admission.form import check_form
from shared.core.model.nouns import GpuChoice, Level, Slice, Spread, TopologyRequest, WorkloadSpec
from shared.events.strict import strict
from shared.events.strict_reader import read_strictly

CHECKOUT = Path(__file__).parents[3]
DECODER = msgspec.json.Decoder(strict(WorkloadSpec))


def examples():
    """Every submission in YAML, by document and name."""
    found = []
    for path, block in (
        ("docs/cli.md", r"```yaml\n(name: .*?)```"),
        ("README.md", r"train\.yaml <<'END'\n(.*?)END\n"),
    ):
        texts = re.findall(block, (CHECKOUT / path).read_text(), re.DOTALL)
        assert texts, path
        found += [(path, yaml.safe_load(text)) for text in texts]
    return found


@pytest.mark.parametrize(
    "document", [pytest.param(one, id=f"{path}-{one['name']}") for path, one in examples()]
)
def test_a_submission_that_is_shown_is_well_formed(document):
    sent = read_strictly(msgspec.json.encode(document), DECODER)
    spec = msgspec.convert(sent, WorkloadSpec, from_attributes=True)
    errors = Errors()

    check_form(spec, errors)
    check_kind(spec, errors)

    assert errors == []


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("gpu_choice", set(GpuChoice.__struct_fields__)),
        ("topology", set(TopologyRequest.__struct_fields__)),
        ("pod_sets", {"role", "min_count", "slices", "image", *Slice.__struct_fields__}),
        ("pod_sets", {"command", "arguments", "environment", "secrets", "volumes", "shm_mib"}),
    ],
)
def test_all_that_may_be_asked_of_the_place_is_shown(part, wanted):
    shown = [str(one.get(part, "")) for _, one in examples()]

    assert [name for name in sorted(wanted) if f"'{name}'" not in "".join(shown)] == []
    assert any("spread" in one for _, one in examples())


@pytest.mark.parametrize("words", [Level, Spread])
def test_the_words_to_choose_from_are_those_that_are_understood(words):
    assert f"# {' | '.join(words)}" in (CHECKOUT / "docs/cli.md").read_text()
