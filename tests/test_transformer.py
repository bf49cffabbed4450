"""Transformer agrees with torch.nn.Transformer between its embeddings, and keeps its promises."""

import dataclasses
import io
import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_MODEL,
    MAX_LEN,
    PAD,
    SRC_VOCAB,
    TGT_VOCAB,
    B,
    H,
    S,
    T,
    assert_equal,
    assert_every_parameter_learns,
    encoding_by_loops,
    hooks_left,
    make_generator,
    multi_head_by_loops,
    normal,
    overheard,
    random_ids,
    says,
    seeded,
    tiny_config,
    tiny_transformer,
    torch_transformer,
    trace,
)
from torch.nn import functional as F

from course_lib.interop import grad_pairs, load_from_torch
from course_lib.transformer import Transformer, TransformerConfig

BOTH_PLACES = pytest.mark.parametrize("norm_first", [False, True])
BASE = dict(src_vocab_size=37_000, tgt_vocab_size=37_000)
ONE_VOCAB = dict(src_vocab_size=SRC_VOCAB, tgt_vocab_size=SRC_VOCAB)
TIES = pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
SEEDS = st.integers(0, 2**31)


def padded_ids(generator):
    """Draw a source and a target; on each side one sentence is shorter than the other."""
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T)
    src[1, -2:] = tgt[0, -1:] = PAD
    return src, tgt


def attention_names(model):
    """List where a model attends, in the order of its maps."""
    encoder, decoder = range(len(model.encoder.layers)), range(len(model.decoder.layers))
    return {
        "encoder": [f"encoder.layers.{n}.self_attn" for n in encoder],
        "decoder": [f"decoder.layers.{n}.self_attn" for n in decoder],
        "cross": [f"decoder.layers.{n}.cross_attn" for n in decoder],
    }


# --- parity


@pytest.mark.filterwarnings("error")
@TIES
@BOTH_PLACES
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
    other = trace(run_theirs, tables, theirs)
    mine = trace(lambda: ours(src, tgt), [], ours)
    assert_equal(mine["outputs"], other["outputs"])

    src_gradient, tgt_gradient, out_gradient = other["inputs"]
    expected = {
        "none": [src_gradient, tgt_gradient, out_gradient],
        "decoder": [src_gradient, *[tgt_gradient + out_gradient] * 2],
        "all": [src_gradient + tgt_gradient + out_gradient] * 3,
    }
    assert_equal([table.grad for table in tables], expected[tie_embeddings])

    pairs = grad_pairs(ours, theirs)
    compared = {id(gradient) for gradient, _ in pairs} | {id(table.grad) for table in tables}
    assert compared == {id(parameter.grad) for parameter in ours.parameters()}
    for mine_gradient, other_gradient in pairs:
        assert_equal(mine_gradient, other_gradient)


# --- properties


@given(seed=SEEDS, cut=st.integers(1, T - 1), training=st.booleans(), norm_first=st.booleans())
def test_future_cannot_change_the_past(seed, cut, training, norm_first):
    generator, model = make_generator(seed), tiny_transformer(norm_first=norm_first).train(training)
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T)
    changed = tgt.clone()
    changed[:, cut:] = torch.randint(TGT_VOCAB, (B, T - cut), generator=generator)  # or padding
    changed[0, cut] = (tgt[0, cut] + 1) % TGT_VOCAB
    before, after = model(src, tgt), model(src, changed)
    assert_equal(after[:, :cut], before[:, :cut])
    assert (after[:, cut] != before[:, cut]).any()


@given(
    seed=SEEDS,
    more_src=st.integers(0, MAX_LEN - S),
    more_tgt=st.integers(0, MAX_LEN - T),
    norm_first=st.booleans(),
)
def test_padding_changes_nothing(seed, more_src, more_tgt, norm_first):
    model = tiny_transformer(norm_first=norm_first)
    src, tgt = padded_ids(make_generator(seed))
    padded = model(F.pad(src, (0, more_src), value=PAD), F.pad(tgt, (0, more_tgt), value=PAD))
    assert_equal(padded[:, :T], model(src, tgt))


@given(seed=SEEDS, training=st.booleans())
def test_a_sentence_is_read_alike_alone_and_in_a_batch(seed, training):
    model = tiny_transformer().train(training)
    src, tgt = padded_ids(make_generator(seed))
    logits = model(src, tgt)
    for row in range(B):
        words, answer = src[row][src[row] != PAD], tgt[row][tgt[row] != PAD]
        alone = model(words[None], answer[None])[0]
        assert_equal(alone, logits[row, : len(answer)])


@given(seed=SEEDS, order=st.permutations(range(S)))
def test_only_the_positions_tell_the_order_of_the_source(seed, order):
    model, (src, _) = tiny_transformer(), padded_ids(make_generator(seed))
    model.positions.encoding.zero_()
    assert_equal(model.encode(src[:, order]), model.encode(src)[:, order])


@BOTH_PLACES
def test_with_positions_the_order_of_the_source_shows(generator, norm_first):
    model, (src, tgt) = tiny_transformer(norm_first=norm_first), padded_ids(generator)
    assert (model(src, tgt) - model(src[:, [1, 0, 2, 3, 4]], tgt)).abs().max() > 1e-3


def test_every_source_word_reaches_every_target_word(generator):
    model, (src, tgt) = tiny_transformer(), padded_ids(generator)
    logits = model(src, tgt)
    for s in range(S - 2):  # sentence 1 has S - 2 words
        changed = src.clone()
        changed[:, s] = (src[:, s] + 1 + (src[:, s] + 1 == PAD).long()) % SRC_VOCAB
        assert ((model(changed, tgt) - logits).abs().amax(dim=-1) > 1e-9).all()


def test_encode_then_decode_is_forward(transformer, generator):
    src, tgt = padded_ids(generator)
    memory = transformer.encode(src)
    assert memory.shape == (B, S, D_MODEL)
    assert_equal(transformer.decode(tgt, memory, src), transformer(src, tgt))


def test_decode_reads_only_the_padding_of_the_source(transformer, generator):
    src, tgt = padded_ids(generator)
    memory = transformer.encode(src)
    others = torch.where(src == PAD, PAD, PAD + 1)
    assert_equal(transformer.decode(tgt, memory, others), transformer(src, tgt))


@TIES
@BOTH_PLACES
def test_gradients_reach_every_parameter_but_the_biases_of_the_keys(
    generator, tie_embeddings, norm_first
):
    model = tiny_transformer(**ONE_VOCAB, tie_embeddings=tie_embeddings, norm_first=norm_first)
    src, tgt = padded_ids(generator)
    assert_every_parameter_learns(model, trace(lambda: model(src, tgt), [], model)["parameters"])


def test_the_source_learns_nothing_from_its_padding(transformer, generator):
    src, tgt = padded_ids(generator)
    transformer(src, tgt).sum().backward()
    gradient = transformer.src_embedding.weight.grad
    assert (gradient[PAD] == 0).all()
    assert (gradient[src[src != PAD]] != 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sentence_of_padding_leaves_everything_finite(generator, dtype):
    model, (src, tgt) = tiny_transformer().to(dtype), padded_ids(generator)
    src[0] = tgt[1] = PAD
    result = trace(lambda: model(src, tgt), [], model)
    assert all(x.isfinite().all() for x in [*result["outputs"], *result["parameters"].values()])


@BOTH_PLACES
def test_ids_are_left_unchanged(generator, norm_first):
    ids = padded_ids(generator)
    kept = tuple(x.clone() for x in ids)
    model = tiny_transformer(norm_first=norm_first)
    model(*ids)
    model.attention_maps(*ids)
    torch.testing.assert_close(ids, kept)


def test_ids_of_32_bits_mean_the_same(transformer, generator):
    src, tgt = padded_ids(generator)
    assert_equal(transformer(src.int(), tgt.int()), transformer(src, tgt))


# --- attention maps


@given(seed=SEEDS, training=st.booleans(), norm_first=st.booleans())
def test_attention_maps_are_distributions_over_what_may_be_seen(seed, training, norm_first):
    model = tiny_transformer(norm_first=norm_first).train(training)
    src, tgt = padded_ids(make_generator(seed))
    maps = model.attention_maps(src, tgt)
    source, target = (src != PAD)[:, None, None, :], (tgt != PAD)[:, None, None, :]
    may_look = {
        "encoder": source.expand(2, B, H, S, S),
        "decoder": (target & torch.ones(T, T, dtype=torch.bool).tril()).expand(1, B, H, T, T),
        "cross": source.expand(1, B, H, T, S),
    }
    assert maps.keys() == may_look.keys()
    for place, weights in maps.items():
        assert weights.shape == may_look[place].shape
        assert torch.equal(weights > 0, may_look[place])
        assert_equal(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
    assert model.training is training


@BOTH_PLACES
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_maps_are_those_of_the_pass_itself(generator, dropout, norm_first):
    model = tiny_transformer(dropout=dropout, norm_first=norm_first)
    src, tgt = padded_ids(generator)
    places = attention_names(model)
    with seeded():
        heard = overheard(model, sum(places.values(), []), lambda: model(src, tgt))
    with seeded():
        maps = model.attention_maps(src, tgt)
    for place, names in places.items():
        expected = []
        for name in names:
            args, kwargs, _ = heard[name]
            expected.append(multi_head_by_loops(model.get_submodule(name), *args, **kwargs)[1])
        assert_equal(maps[place], torch.stack(expected))


def test_attention_maps_leave_nothing_behind(transformer, generator):
    src, tgt = padded_ids(generator)
    logits = transformer(src, tgt)
    transformer.attention_maps(src, tgt)
    assert hooks_left(transformer) == 0
    names = sum(attention_names(transformer).values(), [])
    heard = overheard(transformer, names, lambda: transformer(src, tgt))
    assert all(output[1] is None for *_, output in heard.values())  # the fused path again
    assert_equal(transformer(src, tgt), logits)


def test_attention_maps_leave_no_hooks_even_after_an_error(transformer, generator):
    src, _ = padded_ids(generator)
    too_long = random_ids(generator, TGT_VOCAB, B, MAX_LEN + 1)  # found after the encoder has run
    with pytest.raises(ValueError, match=says("target", 10)):
        transformer.attention_maps(src, too_long)
    assert hooks_left(transformer) == 0


# --- dropout


@BOTH_PLACES
def test_nothing_is_random_in_eval_mode(generator, norm_first):
    src, tgt = padded_ids(generator)
    dropping = tiny_transformer(dropout=0.5, norm_first=norm_first)
    keeping = tiny_transformer(norm_first=norm_first)
    with seeded():
        assert (dropping(src, tgt) - keeping(src, tgt)).abs().max() > 1e-3
    assert_equal(dropping.eval()(src, tgt), keeping.train()(src, tgt))
    assert_equal(keeping.eval()(src, tgt), keeping.train()(src, tgt))


def test_dropout_acts_on_embeddings_with_positions_and_on_every_sublayer(generator):
    model, (src, tgt) = tiny_transformer(dropout=1.0), padded_ids(generator)
    x = torch.zeros(D_MODEL, dtype=torch.float64)  # no word is left
    for layer in model.decoder.layers:
        for add_norm in (layer.add_norm1, layer.add_norm2, layer.add_norm3):
            x = add_norm.norm(x)
    assert_equal(model(src, tgt), model.output(x).expand(B, T, TGT_VOCAB))


def test_dropout_acts_nowhere_else(generator):
    model, (src, tgt) = tiny_transformer(dropout=0.5), padded_ids(generator)
    sublayers = sum(attention_names(model).values(), [])
    sublayers += [name for name, _ in model.named_modules() if name.endswith(".feed_forward")]
    assert len(sublayers) == 2 * 2 + 1 * 3
    heard = overheard(model, [*sublayers, "output"], lambda: model(src, tgt))
    model.eval()
    for name, (args, kwargs, output) in heard.items():
        assert_equal(model.get_submodule(name)(*args, **kwargs), output)


# --- sizes, sharing and the start


def test_a_deep_model_with_two_vocabularies_scores_every_target_word():
    config = TransformerConfig(
        src_vocab_size=128,
        tgt_vocab_size=256,
        d_model=512,
        num_heads=8,
        d_ff=2048,
        num_encoder_layers=8,
        num_decoder_layers=6,
        tie_embeddings="none",
    )
    generator = make_generator()
    src = torch.randint(128, (8, 32), generator=generator)
    tgt = torch.randint(256, (8, 64), generator=generator)
    with seeded(), torch.no_grad():
        logits = Transformer(config).eval()(src, tgt)
    assert logits.shape == (8, 64, 256)
    # vectors of variance 1 times 512 numbers of Glorot's variance 2 / (512 + 256): 4 / 3;
    # the vectors of one start are alike, so the 256 columns it is estimated from vary by a tenth
    assert logits.var().item() == pytest.approx(4 / 3, rel=0.3)


@pytest.mark.parametrize(("tie_embeddings", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_base_model_has_as_many_parameters_as_worked_out_by_hand(tie_embeddings, tables):
    with torch.device("meta"):  # shapes without numbers
        model = Transformer(TransformerConfig(**BASE, tie_embeddings=tie_embeddings))
    attention, feed_forward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder = 6 * (attention + feed_forward + 2 * norm)
    decoder = 6 * (2 * attention + feed_forward + 3 * norm)
    expected = tables * 37_000 * 512 + encoder + decoder
    assert expected == {1: 63_082_496, 2: 82_026_496, 3: 100_970_496}[tables]
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_free_head_widths_reach_every_attention(generator):
    model, ids = tiny_transformer(d_model=10, d_k=6, d_v=7), padded_ids(generator)
    for name in sum(attention_names(model).values(), []):
        attention = model.get_submodule(name)
        assert attention.w_k.weight.shape == (H * 6, 10)
        assert attention.w_v.weight.shape == (H * 7, 10)
    assert model(*ids).shape == (B, T, TGT_VOCAB)


@TIES
def test_tied_matrices_are_one_matrix_and_stay_one(tie_embeddings):
    model = tiny_transformer(**ONE_VOCAB, tie_embeddings=tie_embeddings)
    other = tiny_transformer(**ONE_VOCAB, tie_embeddings=tie_embeddings)
    for parameter in other.parameters():
        parameter.data.add_(1.0)
    buffer = io.BytesIO()
    torch.save(other.state_dict(), buffer)
    buffer.seek(0)
    copied = deepcopy(model)
    model.load_state_dict(torch.load(buffer, weights_only=True))
    model.output.weight.data[0, 0] = 7.0
    model.src_embedding.weight.data[1, 1] = 8.0
    for place in (model, copied):
        src, tgt = place.src_embedding.weight, place.tgt_embedding.weight
        assert (tgt.data_ptr() == place.output.weight.data_ptr()) == (tie_embeddings != "none")
        assert (src.data_ptr() == tgt.data_ptr()) == (tie_embeddings == "all")
    assert (model.tgt_embedding.weight[0, 0] == 7.0) == (tie_embeddings != "none")
    assert (model.output.weight[1, 1] == 8.0) == (tie_embeddings == "all")
    assert_equal(model.encoder.state_dict(), other.encoder.state_dict())


def test_tied_matrices_learn_as_one(generator):
    model, (src, tgt) = tiny_transformer(**ONE_VOCAB, tie_embeddings="all"), padded_ids(generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.output.weight.detach().clone()
    model(src, tgt).square().sum().backward()
    optimizer.step()
    assert_equal(before - model.src_embedding.weight, 0.1 * model.tgt_embedding.weight.grad)


@TIES
def test_embeddings_start_with_variance_1_over_d_model(tie_embeddings):
    sizes = dict(src_vocab_size=900, tgt_vocab_size=900, d_model=64, num_heads=4, d_ff=96)
    depth = dict(num_encoder_layers=1, num_decoder_layers=1)
    with seeded():
        model = Transformer(TransformerConfig(**sizes, **depth, tie_embeddings=tie_embeddings))
    for embedding in (model.src_embedding, model.tgt_embedding):
        # 57,600 draws know their spread to 0.3 %; its mean to 0.0005
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


def test_positions_are_not_saved_and_move_with_the_model(transformer):
    assert not any("encoding" in name for name in transformer.state_dict())
    assert transformer.positions.encoding.dtype == torch.float64
    assert transformer.to("meta").positions.encoding.device.type == "meta"


def test_a_compiled_model_is_one_graph_and_says_the_same(transformer, generator):
    if not torch._dynamo.is_dynamo_supported():
        pytest.skip("torch.compile does not support this Python")
    src, tgt = padded_ids(generator)
    compiled = torch.compile(transformer, fullgraph=True, backend="eager")
    ours = trace(lambda: transformer(src, tgt), [], transformer)
    assert_equal(trace(lambda: compiled(src, tgt), [], transformer), ours)
    torch._dynamo.reset()


def test_ids_on_another_device_are_not_read(generator):
    with torch.device("meta"):  # where there are no values to read, and reading raises
        model = Transformer(tiny_config())
        logits = model(torch.zeros(B, S, dtype=torch.long), torch.zeros(B, T, dtype=torch.long))
    assert logits.shape == (B, T, TGT_VOCAB)


# --- the configuration


def test_the_configuration_is_frozen_and_goes_by_name():
    config = TransformerConfig(**BASE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 256
    with pytest.raises(TypeError):
        TransformerConfig(37_000, 37_000)
    assert config == TransformerConfig(**dataclasses.asdict(config))


def test_the_defaults_are_the_base_model_of_the_paper():
    paper = dict(d_model=512, num_heads=8, num_encoder_layers=6, num_decoder_layers=6, d_ff=2048)
    paper |= dict(dropout=0.1, norm_first=False, activation="relu", tie_embeddings="all")
    course = dict(max_len=512, pad_id=0, d_k=None, d_v=None)
    assert dataclasses.asdict(TransformerConfig(**BASE)) == BASE | paper | course


# --- limits


@BOTH_PLACES
def test_one_token_one_head_batch_of_one(generator, norm_first):
    model = tiny_transformer(num_heads=1, norm_first=norm_first)
    src, tgt = random_ids(generator, SRC_VOCAB, 1, 1), random_ids(generator, TGT_VOCAB, 1, 1)
    assert model(src, tgt).isfinite().all()
    assert all((weights == 1).all() for weights in model.attention_maps(src, tgt).values())


def test_sentences_may_be_as_long_as_max_len(transformer, generator):
    src = random_ids(generator, SRC_VOCAB, B, MAX_LEN)
    tgt = random_ids(generator, TGT_VOCAB, B, MAX_LEN)
    logits = transformer(src, tgt)
    assert_equal(logits[:, :-1], transformer(src, tgt[:, :-1]))


def test_the_only_word_that_is_not_padding_is_looked_at_by_all(transformer, generator):
    src, tgt = padded_ids(generator)
    src[:] = PAD
    src[:, 2] = 5
    weights = transformer.attention_maps(src, tgt)["cross"]
    assert_equal(weights[..., 2], torch.ones(weights.shape[:-1], dtype=torch.float64))


# --- errors

ODD_IDS = {
    "floats": (torch.ones(B, 4), [torch.float32]),
    "booleans": (torch.ones(B, 4, dtype=torch.bool), [torch.bool]),
    "no tokens": (torch.ones(B, 0, dtype=torch.long), [(B, 0)]),
    "no sentences": (torch.ones(0, 4, dtype=torch.long), [(0, 4)]),
    "no batch": (torch.ones(4, dtype=torch.long), [(4,)]),
    "too deep": (torch.ones(B, 4, 1, dtype=torch.long), [(B, 4, 1)]),
    "too long": (torch.ones(B, 10, dtype=torch.long), [10, "max_len=9"]),
}


@pytest.mark.parametrize(("ids", "message"), ODD_IDS.values(), ids=ODD_IDS.keys())
def test_ids_of_another_kind_or_shape_are_named(transformer, generator, ids, message):
    src, tgt = padded_ids(generator)
    for read in (lambda: transformer(ids, tgt), lambda: transformer.encode(ids)):
        with pytest.raises(ValueError, match=says("source", *message)):
            read()
    memory = transformer.encode(src)
    for read in (lambda: transformer(src, ids), lambda: transformer.decode(ids, memory, src)):
        with pytest.raises(ValueError, match=says("target", *message)):
            read()


def test_each_side_has_a_vocabulary_of_its_own(transformer, generator):
    src, tgt = padded_ids(generator)
    for wrong in (-1, SRC_VOCAB):
        ids = src.clone()
        ids[1, 1] = wrong
        with pytest.raises(ValueError, match=says("source", wrong, SRC_VOCAB - 1)):
            transformer(ids, tgt)
    for wrong in (-1, TGT_VOCAB, SRC_VOCAB - 1):  # the last one is a good source id
        ids = tgt.clone()
        ids[1, 1] = wrong
        with pytest.raises(ValueError, match=says("target", wrong, TGT_VOCAB - 1)):
            transformer(src, ids)
    assert transformer(torch.full_like(src, SRC_VOCAB - 1), tgt).isfinite().all()
    assert transformer(src, torch.full_like(tgt, TGT_VOCAB - 1)).isfinite().all()


def test_a_batch_of_another_size_is_named(transformer, generator):
    src, tgt = padded_ids(generator)
    with pytest.raises(ValueError, match=says((3, T), (B, S, D_MODEL), (B, S))):
        transformer(src, tgt[[0, 1, 1]])
    with pytest.raises(ValueError, match=says((1, T))):  # would broadcast in silence
        transformer(src, tgt[:1])


def test_a_memory_of_another_source_is_named(transformer, generator):
    src, tgt = padded_ids(generator)
    memory = transformer.encode(src)
    for other in (src[:, 1:], src[:1], src[[0, 1, 1]]):
        with pytest.raises(ValueError, match=says((B, S, D_MODEL), tuple(other.shape))):
            transformer.decode(tgt, memory, other)
    with pytest.raises(ValueError, match=says((B, S, 17))):
        transformer.decode(tgt, normal(generator, B, S, D_MODEL - 1), src)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 10}, ["d_model=10", "num_heads=3"]),
        ({"d_model": 18.0}, ["d_model", 18.0]),
        ({"num_heads": 0}, ["num_heads", 0]),
        ({"d_k": 0}, [0]),
        ({"d_v": -1}, [-1]),
        ({"tie_embeddings": "both"}, ["both", "all", "decoder", "none"]),
        ({"tie_embeddings": "all"}, ["all", 13, 10]),
        ({"pad_id": 10}, ["pad_id=10", 13]),
        ({"pad_id": -1}, ["pad_id=-1"]),
        ({"src_vocab_size": 0}, ["vocab", 0]),
        ({"tgt_vocab_size": -1}, ["vocab", -1]),
        ({"num_encoder_layers": 0}, ["layers", 0]),
        ({"num_decoder_layers": -1}, ["layers", -1]),
        ({"max_len": 0}, ["max_len", 0]),
        ({"d_ff": 0}, ["d_ff", 0]),
        ({"activation": "swish"}, ["swish"]),
        ({"dropout": 1.5}, [1.5]),
    ],
)
def test_numbers_that_make_no_model_are_named(changes, message):
    with pytest.raises(ValueError, match=says(*message)):
        tiny_transformer(**changes)
