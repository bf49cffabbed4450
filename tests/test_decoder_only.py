"""DecoderOnly is torch's encoder under a causal mask, and windows come from everywhere alike."""

import io
import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_FF,
    D_MODEL,
    MAX_LEN,
    PAD,
    TGT_VOCAB,
    B,
    H,
    T,
    assert_equal,
    assert_every_parameter_learns,
    encoding_by_loops,
    make_generator,
    multi_head_by_loops,
    overheard,
    randomize,
    says,
    seeded,
    tiny_config,
    trace,
)
from torch import nn
from torch.nn import functional as F

from course_lib.decoder_only import DecoderOnly, random_windows
from course_lib.interop import grad_pairs, load_from_torch
from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding

N = 2  # layers; the other side of the configuration has 3, which nobody should build
BOTH_PLACES = pytest.mark.parametrize("norm_first", [False, True])
BOTH_POSITIONS = pytest.mark.parametrize("learned", [False, True])
SEEDS = st.integers(0, 2**31)


def config(**changes):
    """Describe a model whose two sides differ in every number."""
    return tiny_config(**(dict(num_encoder_layers=3, num_decoder_layers=N) | changes))


def tiny(learned=False, **changes):
    """Build the model of a tiny configuration, in float64, filled with random numbers."""
    return randomize(DecoderOnly(config(**changes), learned))


def torch_stack(norm_first, activation):
    """Build what users of torch take: its encoder, with a final norm in pre-norm only."""
    how = dict(norm_first=norm_first, activation=activation, dropout=0.0, batch_first=True)
    layer = nn.TransformerEncoderLayer(D_MODEL, H, D_FF, **how)
    last = nn.LayerNorm(D_MODEL) if norm_first else None
    return randomize(nn.TransformerEncoder(layer, N, last, enable_nested_tensor=False))


def draw_ids(generator, *shape):
    """Draw ids of the whole vocabulary; the id of padding is text like any other."""
    ids = torch.randint(TGT_VOCAB, shape, generator=generator)
    ids[0, 1 % shape[1]] = PAD
    return ids


# --- windows


@given(
    seed=SEEDS,
    text_length=st.integers(2, 40),
    batch_size=st.integers(1, 6),
    data=st.data(),
)
def test_a_window_is_a_passage_and_its_prediction_is_one_token_later(
    seed, text_length, batch_size, data
):
    length, generator = data.draw(st.integers(1, text_length - 1)), make_generator(seed)
    text = torch.randperm(text_length, generator=generator) + 100  # every token occurs once
    read, predicted = random_windows(text, batch_size, length, generator)
    for row, next_row in zip(read.tolist(), predicted.tolist(), strict=True):
        start = text.tolist().index(row[0])
        assert row == text[start : start + length].tolist()
        assert next_row == text[start + 1 : start + 1 + length].tolist()
    assert read.shape == predicted.shape == (batch_size, length)


@pytest.mark.parametrize(("text_length", "length"), [(2, 1), (7, 6), (7, 1), (12, 5)])
def test_every_window_that_fits_is_drawn(generator, text_length, length):
    read, _ = random_windows(torch.arange(text_length), 2000, length, generator)
    assert set(read[:, 0].tolist()) == set(range(text_length - length))


def test_all_windows_are_drawn_alike(generator):
    draws, windows = 40_000, 8
    read, _ = random_windows(torch.arange(11), draws, 3, generator)
    shares = read[:, 0].bincount(minlength=windows) / draws
    assert len(shares) == windows
    five_deviations = 5 * math.sqrt(1 / windows * (1 - 1 / windows) / draws)
    assert (shares - 1 / windows).abs().max() < five_deviations


def test_rows_and_batches_are_drawn_on_their_own(generator):
    text = torch.arange(1000)
    first, second = (random_windows(text, 50, 4, generator)[0][:, 0] for _ in range(2))
    assert len(first.unique()) > 40 and len(second.unique()) > 40
    assert (first != second).sum() > 40
    assert first.diff().unique().numel() > 40  # not side by side either


def test_the_generator_says_which_windows_and_torchs_own_is_left_alone():
    text, state = torch.arange(1000), torch.get_rng_state()
    one, again, other = (random_windows(text, 9, 4, make_generator(seed)) for seed in (1, 1, 2))
    assert_equal(one, again)
    assert not one[0].equal(other[0])
    assert torch.get_rng_state().equal(state)


def test_without_a_generator_torchs_own_numbers_are_used():
    drawn = []
    for seed in (3, 3, 4):
        with seeded(seed):
            drawn.append(random_windows(torch.arange(1000), 9, 4)[0])
    assert drawn[0].equal(drawn[1]) and not drawn[0].equal(drawn[2])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_text_is_left_alone_and_keeps_its_type(generator, dtype, batch_size):
    text = torch.arange(30, dtype=dtype)
    windows = random_windows(text, batch_size, 5, generator)
    assert {window.dtype for window in windows} == {dtype}
    windows[0].add_(7)  # copies, not views
    assert text.equal(torch.arange(30, dtype=dtype))


@pytest.mark.parametrize(
    ("text_length", "batch_size", "length"),
    [(5, 2, 5), (5, 2, 9), (1, 1, 1), (0, 1, 1), (5, 0, 2), (5, 2, 0), (5, -1, 2), (5, 2, -3)],
)
def test_windows_that_cannot_be_cut_are_explained(text_length, batch_size, length):
    with pytest.raises(ValueError, match=says(text_length, batch_size, length)):
        random_windows(torch.arange(text_length), batch_size, length)


# --- parity


@pytest.mark.filterwarnings("error")
@BOTH_POSITIONS
@BOTH_PLACES
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("length", [1, T, MAX_LEN])
def test_agrees_with_torch(generator, learned, norm_first, activation, length):
    theirs = torch_stack(norm_first, activation)
    ours = tiny(learned, norm_first=norm_first, activation=activation)
    load_from_torch(ours.stack, theirs)
    ids = draw_ids(generator, B, length)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)  # torch: True = blocked
    sines = encoding_by_loops(MAX_LEN, D_MODEL).float().double()  # the table is kept in float32

    def run_theirs(table, out_table, places):
        vectors = F.embedding(ids, table) * D_MODEL**0.5 + places[:length]
        return theirs(vectors, mask=future) @ out_table.T

    table, places = ours.embedding.weight, ours.positions.weight if learned else sines
    other = trace(run_theirs, [table, table, places], theirs)
    mine = trace(lambda: ours(ids), [], ours)
    assert_equal(mine["outputs"], other["outputs"])

    read, scored, placed = other["inputs"]
    assert_equal(table.grad, read + scored)  # one matrix, so both lessons
    gradients = {id(table.grad)}
    if learned:
        assert_equal(places.grad, placed)
        gradients.add(id(places.grad))
    pairs = grad_pairs(ours.stack, theirs)
    for mine_gradient, other_gradient in pairs:
        assert_equal(mine_gradient, other_gradient)
    compared = gradients | {id(gradient) for gradient, _ in pairs}
    assert compared == {id(parameter.grad) for parameter in ours.parameters()}


# --- properties


@given(
    seed=SEEDS,
    cut=st.integers(1, T - 1),
    training=st.booleans(),
    norm_first=st.booleans(),
    learned=st.booleans(),
)
def test_future_cannot_change_the_past(seed, cut, training, norm_first, learned):
    generator = make_generator(seed)
    model = tiny(learned, norm_first=norm_first, dropout=0.3).train(training)
    ids = draw_ids(generator, B, T)
    changed = ids.clone()
    changed[:, cut:] = torch.randint(TGT_VOCAB, (B, T - cut), generator=generator)
    changed[0, cut] = (ids[0, cut] + 1) % TGT_VOCAB
    with seeded(seed):
        before = model(ids)
    with seeded(seed):  # the same features are dropped
        after = model(changed)
    assert_equal(after[:, :cut], before[:, :cut])
    assert (after[0, cut] != before[0, cut]).any()


@BOTH_PLACES
@BOTH_POSITIONS
def test_every_token_reaches_every_row_from_its_own_on(generator, norm_first, learned):
    model, ids = tiny(learned, norm_first=norm_first), draw_ids(generator, B, T)
    logits = model(ids)
    for place in range(T):
        changed = ids.clone()
        changed[:, place] = (ids[:, place] + 1) % TGT_VOCAB
        change = (model(changed) - logits).abs().amax(dim=-1)  # (B, T)
        assert (change[:, place:] > 1e-6).all()


@BOTH_PLACES
@BOTH_POSITIONS
def test_the_order_of_earlier_tokens_shows_through_the_positions_alone(
    generator, norm_first, learned
):
    model = tiny(learned, norm_first=norm_first, num_decoder_layers=1)
    ids = torch.tensor([[4, 7, 1, 2], [0, 5, 3, 9]])
    swapped = ids[:, [1, 0, 2, 3]]
    change = (model(ids) - model(swapped)).abs().amax(dim=-1)  # (B, T)
    assert (change[:, -1] > 1e-6).all()
    table = model.positions.weight if learned else model.positions.encoding
    table.data.zero_()
    assert_equal(model(swapped)[:, 2:], model(ids)[:, 2:])  # a bag of what came before


@given(seed=SEEDS, norm_first=st.booleans(), learned=st.booleans())
def test_a_text_is_read_alike_alone_and_in_a_batch(seed, norm_first, learned):
    model, ids = tiny(learned, norm_first=norm_first), draw_ids(make_generator(seed), B, T)
    logits = model(ids)
    for row in range(B):
        assert_equal(model(ids[row : row + 1])[0], logits[row])


def test_no_id_is_padding(generator):
    ids = draw_ids(generator, B, T)
    assert (ids == PAD).any()
    assert_equal(tiny(pad_id=PAD)(ids), tiny(pad_id=PAD + 1)(ids))


@BOTH_PLACES
@BOTH_POSITIONS
def test_gradients_reach_every_parameter_but_the_biases_of_the_keys(generator, norm_first, learned):
    model, ids = tiny(learned, norm_first=norm_first), draw_ids(generator, B, T)
    assert_every_parameter_learns(model, trace(lambda: model(ids), [], model)["parameters"])


def test_ids_are_left_unchanged_and_may_have_32_bits(generator):
    model, ids = tiny(), draw_ids(generator, B, T)
    kept = ids.clone()
    logits = model(ids)
    assert ids.equal(kept)
    assert_equal(model(ids.int()), logits)


# --- dropout


@BOTH_PLACES
@BOTH_POSITIONS
def test_nothing_is_random_in_eval_mode(generator, norm_first, learned):
    ids = draw_ids(generator, B, T)
    dropping = tiny(learned, dropout=0.5, norm_first=norm_first)
    keeping = tiny(learned, norm_first=norm_first)
    with seeded():
        assert (dropping(ids) - keeping(ids)).abs().max() > 1e-3
    assert_equal(dropping.eval()(ids), keeping.train()(ids))


@BOTH_PLACES
@BOTH_POSITIONS
def test_dropout_acts_on_embeddings_with_positions_and_on_every_sublayer(
    generator, norm_first, learned
):
    model = tiny(learned, dropout=1.0, norm_first=norm_first)
    x = torch.zeros(D_MODEL, dtype=torch.float64)  # no word is left
    for layer in model.stack.layers:
        for add_norm in () if norm_first else (layer.add_norm1, layer.add_norm2):
            x = add_norm.norm(x)
    x = model.stack.norm(x) if norm_first else x
    assert_equal(model(draw_ids(generator, B, T)), model.output(x).expand(B, T, TGT_VOCAB))


@BOTH_POSITIONS
@pytest.mark.parametrize("where", ["positions", "sublayers"])
def test_the_two_places_of_dropout_can_be_told_apart(generator, where, learned):
    model, ids = tiny(learned, dropout=1.0, norm_first=True), draw_ids(generator, B, T)
    still = deepcopy(model).eval()
    x = still.positions(still.embedding(ids) * math.sqrt(D_MODEL))
    if where == "positions":
        for layer in model.stack.layers:
            layer.add_norm1.dropout.p = layer.add_norm2.dropout.p = 0.0
        x = still.stack(torch.zeros_like(x), torch.ones(T, T).tril().bool())
    else:
        model.positions.dropout.p = 0.0
        x = still.stack.norm(x)  # no sub-layer is heard
    assert_equal(model(ids), still.output(x))


def test_dropout_acts_nowhere_else(generator):
    model, ids = tiny(dropout=0.5), draw_ids(generator, B, T)
    parts = [f"stack.layers.{n}.{part}" for n in range(N) for part in ("self_attn", "feed_forward")]
    heard = overheard(model, [*parts, "output"], lambda: model(ids))
    model.eval()
    for name, (args, kwargs, output) in heard.items():
        assert_equal(model.get_submodule(name)(*args, **kwargs), output)


# --- sizes, sharing and the start


@BOTH_PLACES
@BOTH_POSITIONS
def test_as_many_parameters_as_worked_out_by_hand(norm_first, learned):
    with torch.device("meta"):  # shapes without numbers
        sizes = dict(src_vocab_size=99, tgt_vocab_size=50_000, d_model=512, num_heads=8, d_ff=2048)
        depth = dict(num_encoder_layers=2, num_decoder_layers=6, max_len=128)
        model = DecoderOnly(tiny_config(**sizes, **depth, norm_first=norm_first), learned)
    attention, feed_forward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    expected = 50_000 * 512 + 6 * (attention + feed_forward + 2 * norm)
    expected += norm_first * norm + learned * 128 * 512
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@BOTH_POSITIONS
def test_the_kind_of_positions_is_as_asked_and_max_len_long(learned):
    model = DecoderOnly(config(), learned_positions=learned)
    kind = LearnedPositionalEmbedding if learned else PositionalEncoding
    assert type(model.positions) is kind
    table = model.positions.weight if learned else model.positions.encoding
    assert table.shape == (MAX_LEN, D_MODEL)
    saved = [name for name in model.state_dict() if name.startswith("positions")]
    assert saved == ["positions.weight"] * learned  # sines are computed, not saved


def test_positions_are_sines_unless_asked():
    assert isinstance(DecoderOnly(config()).positions, PositionalEncoding)
    assert DecoderOnly(config()).config == config()


def test_the_output_is_the_embedding_and_stays_it():
    model, other = tiny(), randomize(DecoderOnly(config()), seed=1)
    buffer = io.BytesIO()
    torch.save(other.state_dict(), buffer)
    buffer.seek(0)
    copied = deepcopy(model)
    model.load_state_dict(torch.load(buffer, weights_only=True))
    assert_equal(model.state_dict(), other.state_dict())
    ids = torch.tensor([[4, PAD, 0]])
    assert_equal(model(ids), other(ids))
    for place in (model, copied, DecoderOnly(config(tie_embeddings="none"))):
        place.output.weight.data[0, 0] = 7.0
        assert place.embedding.weight[0, 0] == 7.0


@BOTH_POSITIONS
def test_matrices_start_as_the_whole_models_do(learned):
    sizes = dict(tgt_vocab_size=900, d_model=64, num_heads=4, d_ff=96, max_len=500)
    with seeded():
        model = DecoderOnly(config(**sizes), learned)
    # 57,600 draws know their spread to 0.3 %; its mean to 0.0005
    assert model.embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert abs(model.embedding.weight.mean().item()) < 0.003
    if learned:  # 32,000 draws
        assert model.positions.weight.std().item() == pytest.approx(0.02, rel=0.03)
    matrices = [p for p in model.stack.parameters() if p.dim() > 1]
    assert len(matrices) == N * (4 + 2)
    for matrix in matrices:  # Glorot and Bengio: uniform up to √(6 / (in + out))
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.98 * bound < matrix.abs().max() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


@BOTH_PLACES
def test_free_head_widths_reach_every_attention(generator, norm_first):
    model = tiny(d_model=10, d_k=6, d_v=7, norm_first=norm_first)
    for layer in model.stack.layers:
        assert layer.self_attn.w_k.weight.shape == (H * 6, 10)
        assert layer.self_attn.w_v.weight.shape == (H * 7, 10)
    names = [f"stack.layers.{n}.self_attn" for n in range(N)]
    heard = overheard(model, names, lambda: model(draw_ids(generator, B, T)))
    for name, (args, kwargs, output) in heard.items():
        expected = multi_head_by_loops(model.get_submodule(name), *args, **kwargs)[0]
        assert_equal(output[0], expected)


@BOTH_POSITIONS
def test_a_compiled_model_is_one_graph_and_says_the_same(generator, learned):
    if not torch._dynamo.is_dynamo_supported():
        pytest.skip("torch.compile does not support this Python")
    model, ids = tiny(learned), draw_ids(generator, B, T)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    ours = trace(lambda: model(ids), [], model)
    assert_equal(trace(lambda: compiled(ids), [], model), ours)
    torch._dynamo.reset()


def test_ids_on_another_device_are_not_read():
    with torch.device("meta"):  # where there are no values to read, and reading raises
        logits = DecoderOnly(config())(torch.zeros(B, T, dtype=torch.long))
    assert logits.shape == (B, T, TGT_VOCAB)


# --- limits


@BOTH_PLACES
@BOTH_POSITIONS
def test_one_token_one_head_batch_of_one(norm_first, learned):
    model = tiny(learned, num_heads=1, norm_first=norm_first)
    logits = model(torch.tensor([[5]]))
    assert logits.shape == (1, 1, TGT_VOCAB) and logits.isfinite().all()


# --- errors


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.full((B, MAX_LEN + 1), 4), (MAX_LEN + 1, f"max_len={MAX_LEN}")),
        (torch.full((B, T), TGT_VOCAB), (TGT_VOCAB, TGT_VOCAB - 1)),  # a good id of the source
        (torch.full((B, T), -1), (-1, TGT_VOCAB - 1)),
        (torch.full((B, T), 1.0), (torch.float32,)),
        (torch.full((T,), 4), ((T,),)),
        (torch.ones(B, 0, dtype=torch.long), ((B, 0),)),
    ],
)
@BOTH_POSITIONS
def test_ids_that_the_model_cannot_read_are_named(ids, words, learned):
    with pytest.raises(ValueError, match=says("input", *words)):
        tiny(learned)(ids)
