"""Operation counts agree with torch's own counts while a model runs."""

from collections.abc import Callable

import pytest
import torch
from dimensions import D_K, D_MODEL, D_V, MAX_LEN, B, H, S, T
from random_inputs import make_generator, normal, random_ids, tiny_transformer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from course_lib.flops import attention_flops, forward_flops, layer_operations
from course_lib.multi_head import MultiHeadAttention
from course_lib.transformer import TransformerConfig

LENGTHS = (MAX_LEN, T)  # tokens of the source, and of the target
WIDTHS = [{}, dict(d_k=D_K, d_v=D_V), dict(d_k=9), dict(d_v=2)]
MODELS = {
    "as it is": {},
    "heads with widths of their own": dict(d_k=D_K, d_v=D_V),
    "heads that do not divide the width": dict(d_model=10, num_heads=3, d_k=4, d_v=9),
    "more layers in the decoder": dict(num_encoder_layers=1, num_decoder_layers=3),
    "a wide feed-forward": dict(d_ff=50),
    "pre-norm and GELU": dict(norm_first=True, activation="gelu"),
    "target and output that share a matrix": dict(tie_embeddings="decoder"),
}
every_model = pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)


def torch_counts(run: Callable[[], object]) -> int:
    """Let torch count the matrix multiplications in a run, with a plain kernel that hides none."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        run()
    return counter.get_total_flops()


def pairs(config: TransformerConfig) -> tuple[Tensor, Tensor]:
    """Draw a batch of sources and targets."""
    vocabularies = config.src_vocab_size, config.tgt_vocab_size
    return tuple(
        random_ids(make_generator(), vocab_size, B, length)
        for vocab_size, length in zip(vocabularies, LENGTHS, strict=True)
    )


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("lengths", [(T, S), (S, T), (1, 1)], ids=str)
def test_an_attention_layers_count_agrees_with_torchs(generator, widths, lengths):
    layer = MultiHeadAttention(D_MODEL, H, **widths).double()
    x, memory = (normal(generator, B, length, D_MODEL) for length in lengths)
    counted = B * attention_flops(D_MODEL, H, *lengths, **widths)
    assert counted == torch_counts(lambda: layer(x, memory, memory))
    assert counted == torch_counts(lambda: layer(x, memory, memory, need_weights=True))


@every_model
def test_a_models_count_agrees_with_torchs_and_doubles_in_the_backward_pass(changes):
    model = tiny_transformer(**changes)
    src, tgt = pairs(model.config)
    counted = forward_flops(model.config, *LENGTHS)
    assert B * counted == torch_counts(lambda: model(src, tgt))
    assert 3 * B * counted == torch_counts(lambda: model(src, tgt).sum().backward())
    assert counted != forward_flops(model.config, *reversed(LENGTHS))


def test_table_1_agrees_with_the_multiplications_that_run(generator):
    length, d_model, kernel = 7, 5, 3
    x = normal(generator, 1, d_model, length)
    recurrent = nn.Linear(d_model, d_model, bias=False).double()
    convolution = nn.Conv1d(d_model, d_model, kernel, padding=1, bias=False).double()

    def steps() -> None:
        state = x.new_zeros(1, d_model)
        for position in range(length):
            state = torch.tanh(x[:, :, position] + recurrent(state))

    counts = layer_operations(length, d_model, kernel_size=kernel)
    assert counts == layer_operations(length, d_model)  # three neighbors by default
    assert list(counts) == ["self-attention", "recurrent", "convolution"]
    assert 2 * counts["self-attention"] == torch_counts(lambda: x[0].T @ x[0])  # the scores
    assert 2 * counts["recurrent"] == torch_counts(steps)
    assert 2 * counts["convolution"] == torch_counts(lambda: convolution(x))
