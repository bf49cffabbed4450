"""A model in GPT-2's layout, loaded from files, agrees with the ``transformers`` library."""

import pytest
import torch
from hf_fixtures import MAX_LEN, VOCAB, published
from parity import assert_equal
from random_inputs import make_generator

from course_lib.interop import gpt2


def read_double(folder):
    return gpt2.from_pretrained(folder)[0].double()


def some_ids(length):
    return torch.randint(VOCAB, (3, length), generator=make_generator())


@pytest.mark.parametrize(
    "changes",
    [
        *(dict(activation_function=name) for name in ("gelu_new", "gelu_pytorch_tanh", "gelu")),
        *(dict(n_head=count) for count in (1, 2, 9)),
        dict(n_layer=12),  # layer 10 must not come before layer 2
    ],
    ids=str,
)
def test_the_logits_are_the_library_s(tmp_path, changes):
    theirs = published("gpt2", tmp_path, **changes)
    ours = read_double(tmp_path)
    for length in (1, 5, MAX_LEN):
        ids = some_ids(length)
        assert_equal(ours(ids)[0], theirs(ids).logits)
