"""Transformer agrees with torch.nn.Transformer between its embeddings."""

import dataclasses
import math
from copy import deepcopy

import pytest
import torch
from dimensions import D_MODEL, PAD, SRC_VOCAB, S, T
from parity import assert_parity, trace
from random_inputs import (
    padded_ids,
    randomize,
    seeded,
    tiny_transformer,
    torch_transformer,
)
from reference import encoding_by_loops
from torch.nn import functional as F

from course_lib.interop import load_from_torch
from course_lib.transformer import Transformer, TransformerConfig

BOTH_ORDERS = pytest.mark.parametrize("norm_first", [False, True])
BASE = dict(src_vocab_size=37_000, tgt_vocab_size=37_000)
ONE_VOCAB = dict(src_vocab_size=SRC_VOCAB, tgt_vocab_size=SRC_VOCAB)
TIES = pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])


@pytest.mark.filterwarnings("error")
@TIES
@BOTH_ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_agrees_with_torch(generator, tie_embeddings, norm_first, activation):
    how = dict(norm_first=norm_first, activation=activation)
    theirs = torch_transformer(**how)
    ours = tiny_transformer(**ONE_VOCAB, **how, tie_embeddings=tie_embeddings)
    load_from_torch(ours, theirs)
    src, tgt = padded_ids(generator)
    encoding = encoding_by_loops(S, D_MODEL).float().double()  # the table is kept in float32

    def run_theirs(src_table, tgt_table, out_table):
        future = torch.ones(T, T, dtype=torch.bool).triu(1)  # torch's masks: True = blocked
        vectors = theirs(
            F.embedding(src, src_table) * D_MODEL**0.5 + encoding[:S],
            F.embedding(tgt, tgt_table) * D_MODEL**0.5 + encoding[:T],
            tgt_mask=future,
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
        )
        return vectors @ out_table.T

    tables = [m.weight for m in (ours.src_embedding, ours.tgt_embedding, ours.output)]
    assert_parity(ours, theirs, lambda: ours(src, tgt), run_theirs, tables)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sentence_of_padding_leaves_everything_finite(generator, dtype):
    model, (src, tgt) = tiny_transformer().to(dtype), padded_ids(generator)
    src[0] = tgt[1] = PAD
    result = trace(lambda: model(src, tgt), [], model)
    assert all(x.isfinite().all() for x in [*result["outputs"], *result["parameters"].values()])


@TIES
def test_tied_matrices_are_one_matrix_and_stay_one(tie_embeddings):
    model = tiny_transformer(**ONE_VOCAB, tie_embeddings=tie_embeddings)
    copied = deepcopy(model)
    model.load_state_dict(randomize(deepcopy(model), seed=1).state_dict())
    for each in (model, copied):
        src, tgt, out = (m.weight for m in (each.src_embedding, each.tgt_embedding, each.output))
        assert (tgt is out) == (tie_embeddings != "none")
        assert (src is tgt) == (tie_embeddings == "all")


@TIES
def test_embeddings_are_initialized_with_variance_1_over_d_model(tie_embeddings):
    sizes = dict(src_vocab_size=900, tgt_vocab_size=900, d_model=64, num_heads=4, d_ff=96)
    depth = dict(num_encoder_layers=1, num_decoder_layers=1)
    with seeded():
        model = Transformer(TransformerConfig(**sizes, **depth, tie_embeddings=tie_embeddings))
    for embedding in (model.src_embedding, model.tgt_embedding):
        # the standard deviation of 57,600 draws is accurate to 0.3%; its mean to 0.0005
        assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
        assert abs(embedding.weight.mean().item()) < 0.003
    assert math.isclose(model.encoder.layers[0].add_norm1.norm.weight.sum().item(), 64)
    tables = {id(model.src_embedding.weight), id(model.tgt_embedding.weight)}
    matrices = [p for p in model.parameters() if p.dim() > 1 and id(p) not in tables]
    assert len(matrices) == 3 * 4 + 2 * 2 + (tie_embeddings == "none")
    for matrix in matrices:  # Glorot and Bengio: uniform up to √(6 / (in + out))
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.98 * bound < matrix.abs().max() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


def test_the_defaults_are_the_base_model_of_the_paper():
    paper = dict(d_model=512, num_heads=8, num_encoder_layers=6, num_decoder_layers=6, d_ff=2048)
    paper |= dict(dropout=0.1, norm_first=False, activation="relu", tie_embeddings="all")
    course = dict(max_len=512, pad_id=0, d_k=None, d_v=None)
    assert dataclasses.asdict(TransformerConfig(**BASE)) == BASE | paper | course
