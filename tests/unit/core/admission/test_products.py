"""GPUs by the names that people use."""

import pytest

from shared.core.admission.products import in_full
from shared.core.model.nouns import GpuChoice

A100, A100_80 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"
H100, T4 = "NVIDIA-H100-80GB-HBM3", "Tesla-T4"
FLEET = {A100, A100_80, H100, "NVIDIA-H200", T4}


@pytest.mark.parametrize(
    ("names", "products"),
    [
        ((), ()),
        ((H100,), (H100,)),
        (("H100",), (H100,)),
        (("h100", H100), (H100,)),
        (("A100",), (A100, A100_80)),
        (("A100-80GB", "t4"), (A100_80, T4)),
        (("80gb a100",), (A100_80,)),
        (("A10",), ("A10",)),  # no part of a word
        (("-",), ("-",)),
        (("B300", "H200"), ("B300", "NVIDIA-H200")),
    ],
)
def test_a_name_means_every_product_with_all_its_words(names, products):
    assert products == in_full(GpuChoice(products=names), FLEET).products


def test_preferred_products_keep_their_weights_and_the_larger_one_holds():
    choice = GpuChoice(preferred_products={"A100": 2, "80GB": 5, "H200": 1}, min_memory_mib=7)

    found = in_full(choice, FLEET)

    weights = {A100: 2, A100_80: 5, H100: 5, "NVIDIA-H200": 1}
    assert (weights, 7) == (found.preferred_products, found.min_memory_mib)


def test_what_is_named_as_reported_is_the_same_choice():
    choice = GpuChoice(products=(T4,), preferred_products={T4: 3})

    assert choice is in_full(choice, FLEET)
    assert GpuChoice(products=("H100",)) == in_full(GpuChoice(products=("H100",)), ())
