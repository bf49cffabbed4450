"""Answers under other names are called as the course's own."""

import pytest
import torch
from textbooks.annotated import MultiHeadedAttention, NormWithA2AndB2
from torch.testing import assert_close

from course_lib.add_norm import LayerNorm
from course_lib.exercises.signature_adapter import MissingOption, adapt
from course_lib.multi_head import MultiHeadAttention

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))


def test_parameters_of_other_names_are_found_by_the_courses_and_saved_once():
    norm = adapt(NormWithA2AndB2, LayerNorm)(d_model=8, eps=0.5)
    assert norm.eps == 0.5 and norm.weight is norm.a_2 and norm.bias is norm.b_2
    assert list(norm.state_dict()) == ["a_2", "b_2"]
    attention = adapt(MultiHeadedAttention, MultiHeadAttention)(8, 2)
    assert attention.d_k == 4 and attention.w_o is attention.linears[3]


def test_the_order_and_the_defaults_of_an_answer_do_not_matter():
    torch.manual_seed(0)
    attention = adapt(MultiHeadedAttention, MultiHeadAttention)(8, 2)
    assert (attention.h, attention.dropout.p) == (2, 0.0)
    assert_close(attention(X, X, X)[0], attention.eval()(X, X, X)[0])
    with pytest.raises(MissingOption, match="need_weights=False"):
        attention(X, X, X, need_weights=True)
