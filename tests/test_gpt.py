"""GPT is torch's stack with a start of its own, and writes the same with a cache and without."""

import ast
import dataclasses
import io
import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_K,
    D_MODEL,
    MAX_LEN,
    B,
    H,
    T,
    assert_equal,
    assert_parity,
    attention_by_loops,
    hooks_left,
    make_generator,
    normal,
    overheard,
    randomize,
    says,
    seeded,
    silenced,
    trace,
)
from torch import nn
from torch.nn import functional as F

from course_lib.gpt import (
    GPT,
    CausalSelfAttention,
    GPTCache,
    GPTConfig,
    GPTLayer,
    param_groups,
    parse_rate,
    sample,
)
from course_lib.interop import grad_pairs, load_from_torch

N, VOCAB = 2, 11
SEEDS = st.integers(0, 2**31)
BIASES = pytest.mark.parametrize("bias", [True, False])
MODES = pytest.mark.parametrize("training", [True, False])


def tiny_config(**changes):
    """Describe a model in which no two sizes are equal, without dropout."""
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, d_model=D_MODEL)
    return GPTConfig(**(sizes | dict(dropout=0.0) | changes))


def tiny(**changes):
    """Build the model of a tiny configuration, in float64, filled with random numbers."""
    return randomize(GPT(tiny_config(**changes)))


def draw_ids(generator, *shape):
    """Draw ids of the whole vocabulary."""
    return torch.randint(VOCAB, shape, generator=generator)


def torch_layer(d_model=D_MODEL, num_heads=H, bias=True):
    """Build torch's layer with the choices of GPT-2."""
    how = dict(activation="gelu", norm_first=True, batch_first=True, bias=bias)
    return nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, dropout=0.0, **how)


def future(length):
    """Return torch's causal mask: True = blocked."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


# --- parity: attention and layer


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_heads", [1, H, 6])
@pytest.mark.parametrize("length", [1, 2, T])
def test_attention_agrees_with_torch(generator, num_heads, length):
    theirs = randomize(nn.MultiheadAttention(D_MODEL, num_heads, batch_first=True))
    ours = CausalSelfAttention(D_MODEL, num_heads).double()
    load_from_torch(ours, theirs)
    blocked = future(length)
    x = [normal(generator, B, length, D_MODEL)]
    assert_parity(
        ours, theirs, ours, lambda x: theirs(x, x, x, attn_mask=blocked, need_weights=False)[0], x
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("d_model", "num_heads"), [(D_MODEL, H), (5, 1), (8, 2), (6, 6)])
def test_layer_agrees_with_torch(generator, d_model, num_heads):
    theirs = randomize(torch_layer(d_model, num_heads))
    ours = GPTLayer(d_model, num_heads).double()
    load_from_torch(ours, theirs)
    x = [normal(generator, B, T, d_model)]
    assert_parity(ours, theirs, ours, lambda x: theirs(x, future(T)), x)


def test_attention_agrees_with_the_formula_head_by_head(generator):
    attention, x = randomize(CausalSelfAttention(D_MODEL, H)), normal(generator, B, T, D_MODEL)
    weights, biases = attention.w_qkv.weight.chunk(3), attention.w_qkv.bias.chunk(3)
    q, k, v = (x @ weight.T + bias for weight, bias in zip(weights, biases, strict=True))
    answer = attention.w_o.bias
    for head in range(H):
        own = slice(head * D_K, (head + 1) * D_K)
        blend, _ = attention_by_loops(q[..., own], k[..., own], v[..., own], ~future(T))
        answer = answer + blend @ attention.w_o.weight[:, own].T
    assert_equal(attention(x), answer)


def test_project_cuts_and_merge_joins_as_the_docstring_says(generator):
    attention, x = randomize(CausalSelfAttention(D_MODEL, H)), normal(generator, B, T, D_MODEL)
    parts = attention.project(x)
    whole = x @ attention.w_qkv.weight.T + attention.w_qkv.bias
    for number, part in enumerate(parts):
        assert part.shape == (B, H, T, D_K)
        for head in range(H):
            start = number * D_MODEL + head * D_K
            assert_equal(part[:, head], whole[..., start : start + D_K])
    heads = normal(generator, B, H, T, D_K)
    joined = torch.cat([heads[:, head] for head in range(H)], dim=-1)
    assert_equal(attention.merge(heads), joined @ attention.w_o.weight.T + attention.w_o.bias)


# --- parity: the model

SIZES = {
    "tiny": {},
    "one of all": dict(num_layers=1, num_heads=1, d_model=5, vocab_size=3),
    "three layers": dict(num_layers=3, num_heads=2, d_model=8),
}


@pytest.mark.filterwarnings("error")
@BIASES
@pytest.mark.parametrize("length", [1, T, MAX_LEN])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_logits_loss_and_every_gradient_agree_with_torch(generator, sizes, length, bias):
    ours = tiny(**sizes, bias=bias)
    c = ours.config
    layer = torch_layer(c.d_model, c.num_heads, bias)
    last = nn.LayerNorm(c.d_model, bias=bias)
    theirs = nn.TransformerEncoder(layer, c.num_layers, last, enable_nested_tensor=False)
    load_from_torch(ours, randomize(theirs, seed=1))
    ids, targets = torch.randint(c.vocab_size, (2, B, length), generator=generator)

    def run_theirs(table, out_table, places):
        x = F.embedding(ids, table) + places[:length]
        logits = theirs(x, mask=future(length)) @ out_table.T
        right = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))
        return logits, -right.mean().view(1)

    def run_ours():
        logits, loss = ours(ids, targets)
        assert loss.shape == ()
        return logits, loss.view(1)

    table, places = ours.embedding.weight, ours.positions.weight
    other = trace(run_theirs, [table, table, places], theirs)
    mine = trace(run_ours, [], ours)
    assert_equal(mine["outputs"], other["outputs"])
    read, scored, placed = other["inputs"]
    assert_equal(table.grad, read + scored)  # one matrix, so both lessons
    assert_equal(places.grad, placed)
    pairs = grad_pairs(ours, theirs)
    for mine_gradient, other_gradient in pairs:
        assert_equal(mine_gradient, other_gradient)
    compared = {id(table.grad), id(places.grad)} | {id(gradient) for gradient, _ in pairs}
    assert compared == {id(parameter.grad) for parameter in ours.parameters()}


@BIASES
def test_the_loss_alone_teaches_every_parameter_but_the_biases_of_the_keys(generator, bias):
    model, ids = tiny(bias=bias), draw_ids(generator, B, T)
    model(ids, draw_ids(generator, B, T))[1].backward()
    for name, parameter in model.named_parameters():
        if not name.endswith("w_qkv.bias"):
            assert parameter.grad.abs().max() > 1e-6, f"{name} learns nothing"
    for layer in model.layers if bias else ():
        q, k, v = layer.self_attn.w_qkv.bias.grad.chunk(3)
        assert k.abs().max() < 1e-12 < 1e-6 < min(q.abs().max(), v.abs().max())


def test_targets_change_no_logits_and_without_them_there_is_no_loss(generator):
    model, ids = tiny(), draw_ids(generator, B, T)
    logits, nothing = model(ids)
    assert nothing is None
    assert_equal(model(ids, draw_ids(generator, B, T))[0], logits)


# --- properties


@given(seed=SEEDS, cut=st.integers(1, T - 1), training=st.booleans(), bias=st.booleans())
def test_future_cannot_change_the_past(seed, cut, training, bias):
    generator = make_generator(seed)
    model = tiny(dropout=0.3, bias=bias).train(training)
    ids = draw_ids(generator, B, T)
    changed = ids.clone()
    changed[:, cut:] = draw_ids(generator, B, T - cut)
    changed[0, cut] = (ids[0, cut] + 1) % VOCAB
    with seeded(seed):
        before, _ = model(ids)
    with seeded(seed):  # the same numbers are dropped
        after, _ = model(changed)
    assert_equal(after[:, :cut], before[:, :cut])
    assert (after[0, cut] != before[0, cut]).any()


@MODES
def test_every_token_reaches_every_row_from_its_own_on(generator, training):
    model, ids = tiny().train(training), draw_ids(generator, B, T)
    logits, _ = model(ids)
    for place in range(T):
        changed = ids.clone()
        changed[:, place] = (ids[:, place] + 1) % VOCAB
        change = (model(changed)[0] - logits).abs().amax(dim=-1)  # (B, T)
        assert (change[:, place:] > 1e-6).all()


def test_the_order_of_earlier_tokens_shows_through_the_positions_alone():
    model, ids = tiny(num_layers=1), torch.tensor([[4, 7, 1, 2], [0, 5, 3, 9]])
    swapped = ids[:, [1, 0, 2, 3]]
    change = (model(ids)[0] - model(swapped)[0]).abs().amax(dim=-1)  # (B, T)
    assert (change[:, -1] > 1e-6).all()
    model.positions.weight.data.zero_()
    assert_equal(model(swapped)[0][:, 2:], model(ids)[0][:, 2:])  # a bag of what came before


@given(seed=SEEDS)
def test_a_text_is_read_alike_alone_and_in_a_batch(seed):
    model, ids = tiny(), draw_ids(make_generator(seed), B, T)
    logits, _ = model(ids)
    for row in range(B):
        assert_equal(model(ids[row : row + 1])[0][0], logits[row])


def test_ids_and_targets_are_left_unchanged_and_ids_may_have_32_bits(generator):
    model, ids = tiny(), draw_ids(generator, B, T)
    targets = draw_ids(generator, B, T)
    kept = ids.clone(), targets.clone()
    logits, _ = model(ids, targets)
    assert_equal((ids, targets), kept)
    assert_equal(model(ids.int())[0], logits)


# --- dropout


@BIASES
def test_nothing_is_random_in_eval_mode(generator, bias):
    ids = draw_ids(generator, B, T)
    dropping, keeping = tiny(dropout=0.5, bias=bias), tiny(bias=bias)
    with seeded():
        assert (dropping(ids)[0] - keeping(ids)[0]).abs().max() > 1e-3
    assert_equal(dropping.eval()(ids)[0], keeping.train()(ids)[0])
    assert_equal(keeping.eval()(ids)[0], keeping.train()(ids)[0])


def switch_off(model, *places):
    """Set dropout to 0 in some of its places: embeddings, weights, answers."""
    if "embeddings" in places:
        model.positions.dropout.p = 0.0
    for layer in model.layers:
        if "weights" in places:
            layer.self_attn.dropout = 0.0
        if "answers" in places:
            layer.add_norm1.dropout.p = layer.add_norm2.dropout.p = 0.0
    return model


def through_layers(model, x):
    """Pass vectors through what follows the embeddings."""
    for layer in model.layers:
        x = layer(x)
    return model.output(model.norm(x))


def test_dropping_everything_leaves_the_last_norm_of_nothing(generator):
    model = tiny(dropout=1.0)
    logits, _ = model(draw_ids(generator, B, T))
    assert_equal(logits, (model.norm.bias @ model.embedding.weight.T).expand(B, T, VOCAB))


def test_dropout_of_the_embeddings_lets_no_word_and_no_place_through(generator):
    model = switch_off(tiny(dropout=1.0), "weights", "answers")
    logits, _ = model(draw_ids(generator, B, T))
    nothing = torch.zeros(B, T, D_MODEL, dtype=torch.float64)
    assert_equal(logits, through_layers(tiny(), nothing))


def test_dropout_of_the_weights_leaves_attention_its_bias(generator):
    ids, model = draw_ids(generator, B, T), switch_off(tiny(dropout=1.0), "embeddings", "answers")
    silent = silenced(tiny(), *(f"layers.{n}.self_attn.w_o" for n in range(N)))
    assert_equal(model(ids)[0], silent(ids)[0])


def test_dropout_of_the_answers_leaves_the_words_as_they_came(generator):
    ids, model = draw_ids(generator, B, T), switch_off(tiny(dropout=1.0), "embeddings", "weights")
    still = tiny()
    x = still.embedding(ids) + still.positions.weight[:T]
    assert_equal(model(ids)[0], still.output(still.norm(x)))


@pytest.mark.parametrize("which", [1, 2])
def test_each_sublayer_has_its_own_dropout(generator, which):
    layer, x = randomize(GPTLayer(D_MODEL, H, dropout=1.0)), normal(generator, B, T, D_MODEL)
    layer.self_attn.dropout = 0.0
    getattr(layer, f"add_norm{which}").dropout.p = 0.0
    sublayer = (layer.self_attn, layer.feed_forward)[which - 1]
    norm = getattr(layer, f"add_norm{which}").norm
    assert_equal(layer(x), x + sublayer(norm(x)))


def test_dropout_acts_nowhere_else(generator):
    model, ids = tiny(dropout=0.5), draw_ids(generator, B, T)
    parts = [f"layers.{n}.feed_forward" for n in range(N)] + ["norm", "output"]
    heard = overheard(model, parts, lambda: model(ids))
    logits, _ = switch_off(model, "weights", "answers", "embeddings")(ids)
    assert_equal(logits, tiny()(ids)[0])
    model.eval()
    for name, (args, kwargs, output) in heard.items():
        assert_equal(model.get_submodule(name)(*args, **kwargs), output)


def dropped_share(before, after):
    """Return the share of zeros, after making sure that the rest grew to make up for it."""
    gone = after == 0
    share = gone.double().mean().item()
    assert_equal(after[~gone], (before / 0.75).expand_as(after)[~gone])
    return share


def test_a_quarter_is_dropped_of_embeddings_answers_and_weights(generator):
    # at least 8,100 draws each: the share is known to 0.005
    model, ids = tiny(dropout=0.25), draw_ids(generator, 50, MAX_LEN)
    with seeded():
        said = model.positions(model.embedding(ids))
    before = model.embedding(ids) + model.positions.weight
    assert dropped_share(before, said) == pytest.approx(0.25, abs=0.025)

    x = torch.zeros(50, MAX_LEN, D_MODEL, dtype=torch.float64)
    for add_norm in (model.layers[1].add_norm1, model.layers[1].add_norm2):
        with seeded():
            said = add_norm(x, lambda x: x + 3.0)
        answer = add_norm.norm.bias + 3.0
        assert dropped_share(answer, said) == pytest.approx(0.25, abs=0.025)

    attention = model.layers[1].self_attn  # one token each: one weight of 1 for each head
    attention.w_qkv.weight.data.zero_()
    attention.w_qkv.bias.data.fill_(1.0)
    attention.w_o.weight.data.copy_(torch.eye(D_MODEL))
    attention.w_o.bias.data.zero_()
    with seeded():
        said = attention(torch.zeros(3000, 1, D_MODEL, dtype=torch.float64))
    heads = said.view(3000, H, D_K)
    assert (heads == heads[..., :1]).all()  # a weight goes as a whole
    share = dropped_share(torch.ones(1, dtype=torch.float64), heads)
    assert share == pytest.approx(0.25, abs=0.025)


# --- sizes, sharing and the start


def test_matrices_start_small_and_those_that_write_into_the_sum_smaller():
    sizes = dict(vocab_size=1000, max_len=200, num_layers=5, num_heads=4, d_model=96)
    with seeded():
        model = GPT(tiny_config(**sizes))
    into_sum = 0.02 / math.sqrt(2 * 5)
    matrices = {name: p for name, p in model.named_parameters() if p.dim() > 1}
    assert len(matrices) == 2 + 5 * 4
    for name, matrix in matrices.items():  # 9,216 draws or more: ± 0.7 %
        std = into_sum if name.endswith(("w_o.weight", "linear2.weight")) else 0.02
        assert matrix.std().item() == pytest.approx(std, rel=0.04), name
        assert abs(matrix.mean().item()) < 5 * std / math.sqrt(matrix.numel()), name
        within = (matrix.abs() < std).double().mean().item()
        assert within == pytest.approx(math.erf(0.5**0.5), abs=0.03), name  # it is normal
    assert len({matrix[0, 0].item() for matrix in matrices.values()}) == len(matrices)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == float("norm" in name and name.endswith("weight"))).all(), name


@pytest.mark.parametrize("num_layers", [1, 3, 8])
def test_the_deeper_the_quieter_is_each_addition(num_layers):
    with seeded():
        model = GPT(tiny_config(num_layers=num_layers, d_model=96))
    for layer in model.layers:
        for matrix in (layer.self_attn.w_o.weight, layer.feed_forward.linear2.weight):
            expected = 0.02 / math.sqrt(2 * num_layers)
            assert matrix.std().item() == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize("vocab_size", [96, 5000])
def test_a_new_model_knows_nothing(generator, vocab_size):
    with seeded():
        model = GPT(tiny_config(vocab_size=vocab_size, max_len=64, d_model=96))
    ids, targets = torch.randint(vocab_size, (2, 20, 64), generator=generator)
    logits, loss = model(ids, targets)
    assert loss.item() == pytest.approx(math.log(vocab_size), abs=0.1)
    assert logits.std() < 0.5


PARAMETERS = {  # of GPT-2: layers, heads, width
    124_439_808: (12, 12, 768),
    354_823_168: (24, 16, 1024),
    774_030_080: (36, 20, 1280),
    1_557_611_200: (48, 25, 1600),
}


@BIASES
@pytest.mark.parametrize(("total", "sizes"), PARAMETERS.items())
def test_the_models_of_gpt_2_have_as_many_parameters_as_published(total, sizes, bias):
    depth, num_heads, width = sizes
    depths = dict(num_layers=depth, num_heads=num_heads, d_model=width)
    with torch.device("meta"):  # shapes without numbers
        model = GPT(GPTConfig(vocab_size=50_257, bias=bias, **depths))
    # a layer has 3 + 1 + 4 + 4 squares, 9 widths of biases, and two norms of gain and shift
    layer = 12 * width**2 + (9 + 4) * width
    expected = (50_257 + 1024) * width + depth * layer + 2 * width
    assert expected == total
    expected -= 0 if bias else depth * (9 + 2) * width + width
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_without_bias_no_bias_is_left_anywhere():
    model = GPT(tiny_config(bias=False))
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    assert not [name for name in model.state_dict() if "bias" in name]
    parts = [m for m in model.modules() if isinstance(m, nn.Linear | nn.LayerNorm)]
    assert len(parts) == N * (4 + 2) + 2
    assert all(part.bias is None for part in parts)


def test_with_bias_every_linear_layer_and_norm_has_one_but_the_output():
    model = GPT(tiny_config())
    parts = [m for m in model.modules() if isinstance(m, nn.Linear | nn.LayerNorm)]
    assert [part for part in parts if part.bias is None] == [model.output]


@BIASES
def test_the_output_is_the_embedding_and_stays_it(generator, bias):
    model, other = tiny(bias=bias), randomize(GPT(tiny_config(bias=bias)), seed=1)
    buffer = io.BytesIO()
    torch.save(other.state_dict(), buffer)
    buffer.seek(0)
    copied = deepcopy(model)
    model.load_state_dict(torch.load(buffer, weights_only=True))
    assert_equal(model.state_dict(), other.state_dict())
    ids = draw_ids(generator, B, T)
    assert_equal(model(ids)[0], other(ids)[0])
    assert (model(ids)[0] - copied(ids)[0]).abs().max() > 1e-3
    for place in (model, copied):
        place.output.weight.data[0, 0] = 7.0
        assert place.embedding.weight[0, 0] == 7.0


@BIASES
def test_a_compiled_model_is_one_graph_and_says_the_same(generator, bias):
    if not torch._dynamo.is_dynamo_supported():
        pytest.skip("torch.compile does not support this Python")
    model, ids, targets = tiny(bias=bias), draw_ids(generator, B, T), draw_ids(generator, B, T)
    compiled = torch.compile(model, fullgraph=True, backend="eager")

    def run(module):
        logits, loss = module(ids, targets)
        return logits, loss.view(1)

    ours = trace(lambda: run(model), [], model)
    assert_equal(trace(lambda: run(compiled), [], model), ours)
    assert_equal(compiled(ids)[0], model(ids)[0])
    torch._dynamo.reset()


def test_ids_on_another_device_are_not_read():
    with torch.device("meta"):  # where there are no values to read, and reading raises
        logits, _ = GPT(tiny_config())(torch.zeros(B, T, dtype=torch.long))
    assert logits.shape == (B, T, VOCAB)


# --- the configuration


def test_the_configuration_is_frozen_and_goes_by_name():
    config = tiny_config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 24
    with pytest.raises(TypeError):
        GPTConfig(VOCAB)
    assert config == GPTConfig(**dataclasses.asdict(config)) == GPT(config).config


def test_the_defaults_are_the_smallest_gpt_2():
    small = dict(max_len=1024, num_layers=12, num_heads=12, d_model=768, dropout=0.1, bias=True)
    assert dataclasses.asdict(GPTConfig(vocab_size=5)) == dict(vocab_size=5) | small


@pytest.mark.parametrize("name", ["vocab_size", "max_len", "num_layers", "num_heads", "d_model"])
@pytest.mark.parametrize("value", [0, -3, 6.0, "6", True, None])
def test_what_is_no_size_is_named(name, value):
    with pytest.raises(ValueError, match=says(name, repr(value), "whole number")):
        tiny_config(**{name: value})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(d_model=10), ("d_model=10", f"num_heads={H}")),
        (dict(dropout=1.5), ("dropout", 1.5)),
        (dict(dropout=-0.1), ("dropout", -0.1)),
        (dict(dropout=math.nan), ("dropout", "nan")),
    ],
)
def test_numbers_that_make_no_model_are_named(changes, words):
    with pytest.raises(ValueError, match=says(*words)):
        tiny_config(**changes)


@pytest.mark.parametrize("kind", [CausalSelfAttention, GPTLayer])
@pytest.mark.parametrize(("d_model", "num_heads"), [(10, 3), (0, 1), (4, 0), (2, 4)])
def test_heads_that_do_not_divide_the_width_are_named(kind, d_model, num_heads):
    with pytest.raises(ValueError, match=says(f"d_model={d_model}", f"num_heads={num_heads}")):
        kind(d_model, num_heads)


# --- limits and errors of the model


def test_one_token_one_head_one_layer():
    model = tiny(num_heads=1, num_layers=1)
    logits, loss = model(torch.tensor([[5]]), torch.tensor([[2]]))
    assert_equal(loss, logits.logsumexp(dim=-1)[0, 0] - logits[0, 0, 2])


def test_a_window_may_be_as_long_as_max_len(generator):
    model, ids = tiny(), draw_ids(generator, B, MAX_LEN)
    assert_equal(model(ids)[0][:, :-1], model(ids[:, :-1])[0])


ODD_IDS = [
    (torch.full((B, MAX_LEN + 1), 4), (MAX_LEN + 1, f"max_len={MAX_LEN}")),
    (torch.full((B, T), VOCAB), (VOCAB, VOCAB - 1)),
    (torch.full((B, T), -1), (-1, VOCAB - 1)),
    (torch.full((B, T), 1.0), (torch.float32,)),
    (torch.full((T,), 4), ((T,),)),
    (torch.ones(B, 0, dtype=torch.long), ((B, 0),)),
]


@pytest.mark.parametrize(("ids", "words"), ODD_IDS)
def test_ids_that_the_model_cannot_read_are_named(ids, words):
    with pytest.raises(ValueError, match=says("input", *words)):
        tiny()(ids, ids)


@pytest.mark.parametrize("shape", [(B, T + 1), (B + 1, T), (T, B), (B * T,), (B, T, 1)])
def test_targets_of_another_shape_are_named(generator, shape):
    ids, targets = draw_ids(generator, B, T), draw_ids(generator, *shape)
    with pytest.raises(ValueError, match=says((B, T), shape)):
        tiny()(ids, targets)


# --- weight decay


def everything(groups):
    """List the identities of all parameters of some groups."""
    return [id(parameter) for group in groups for parameter in group["params"]]


@BIASES
def test_every_parameter_is_in_one_group_once(bias):
    model = GPT(tiny_config(bias=bias))
    found = everything(param_groups(model, 0.1))
    assert len(found) == len(set(found))
    assert set(found) == {id(parameter) for parameter in model.parameters()}


def test_matrices_and_tables_decay_gains_and_biases_do_not():
    model = GPT(tiny_config())
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    matrices, rest = param_groups(model, 0.3)
    assert (matrices["weight_decay"], rest["weight_decay"]) == (0.3, 0.0)
    assert set(matrices) == set(rest) == {"params", "weight_decay"}
    by_hand = {"embedding.weight", "positions.weight"}
    by_hand |= {
        f"layers.{n}.{part}.weight"
        for n in range(N)
        for part in ("self_attn.w_qkv", "self_attn.w_o", "feed_forward.linear1")
        + ("feed_forward.linear2",)
    }
    assert {names[id(parameter)] for parameter in matrices["params"]} == by_hand
    assert {names[id(parameter)] for parameter in rest["params"]} == set(names.values()) - by_hand


def test_what_is_frozen_is_left_out_and_what_is_shared_counts_once():
    model = GPT(tiny_config())
    frozen = [model.positions.weight, model.norm.weight, model.layers[0].self_attn.w_qkv.weight]
    for parameter in frozen:
        parameter.requires_grad_(False)
    found = everything(param_groups(model, 0.1))
    assert not {id(parameter) for parameter in frozen} & set(found)
    assert len(found) == len(list(model.parameters())) - len(frozen)
    assert found.count(id(model.output.weight)) == 1  # the embedding's


def test_the_number_of_axes_decides_whatever_the_model():
    model = nn.Module()
    shapes = [(), (3,), (1,), (2, 3), (1, 1), (2, 3, 4)]
    model.parts = nn.ParameterList(nn.Parameter(torch.ones(shape)) for shape in shapes)
    matrices, rest = param_groups(model, 0.1)
    assert [tuple(p.shape) for p in matrices["params"]] == shapes[3:]
    assert [tuple(p.shape) for p in rest["params"]] == shapes[:3]


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_a_step_without_gradients_shrinks_the_matrices_and_nothing_else(weight_decay):
    model = tiny()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(param_groups(model, weight_decay), lr=0.1, weight_decay=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        kept = 1 - 0.1 * weight_decay if parameter.dim() > 1 else 1.0
        assert_equal(parameter.detach(), kept * before[name])


def test_a_weight_decay_below_0_is_explained():
    with pytest.raises(ValueError, match=says("weight_decay=-0.1")):
        param_groups(GPT(tiny_config()), -0.1)


# --- the cache


@given(
    seed=SEEDS,
    rows=st.integers(1, 4),
    length=st.integers(1, MAX_LEN),
    bias=st.booleans(),
    num_heads=st.sampled_from([1, 2, 3]),
    data=st.data(),
)
def test_every_step_gives_the_scores_of_reading_again(seed, rows, length, bias, num_heads, data):
    model = tiny(bias=bias, num_heads=num_heads, dropout=0.5).eval()
    ids = draw_ids(make_generator(seed), rows, length)
    cache, start = GPTCache(model), 0
    while start < length:
        end = data.draw(st.integers(start + 1, length))
        assert_equal(cache(ids[:, :end]), model(ids[:, :end])[0][:, start:].detach())
        start = cache.length
        assert start == end


@pytest.mark.parametrize("portion", [1, 2, 4, MAX_LEN])
def test_portions_of_one_size_up_to_the_full_window(generator, portion):
    model, ids = tiny().eval(), draw_ids(generator, 3, MAX_LEN)
    cache = GPTCache(model)
    ends = [*range(portion, MAX_LEN, portion), MAX_LEN]
    said = torch.cat([cache(ids[:, :end]) for end in ends], dim=1)
    assert_equal(said, model(ids)[0].detach())


def test_what_is_kept_are_the_keys_and_values_of_every_layer(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, T)
    cache = GPTCache(model)
    assert cache.length == 0 and len(cache.kept) == 0
    for end in range(1, T + 1):
        cache(ids[:, :end])
    names = [f"layers.{n}.self_attn" for n in range(N)]
    heard = overheard(model, names, lambda: model(ids))
    for name, kept in zip(names, cache.kept, strict=True):
        _, keys, values = model.get_submodule(name).project(*heard[name][0])
        assert kept.shape == (2, B, H, MAX_LEN, D_K)
        assert_equal(kept[:, :, :, :T], torch.stack([keys, values]).detach())


def test_two_caches_of_one_model_do_not_meet(generator):
    model, texts = tiny().eval(), draw_ids(generator, 2, B, T)
    expected, caches = [model(ids)[0].detach() for ids in texts], [GPTCache(model), GPTCache(model)]
    for end in range(1, T + 1):
        for cache, ids, logits in zip(caches, texts, expected, strict=True):
            assert_equal(cache(ids[:, :end]), logits[:, end - 1 : end])


def listen(model):
    """Return a list that will hold how many tokens pass the first layer, each time."""
    heard = []
    part = model.layers[0].feed_forward
    part.register_forward_pre_hook(lambda _, args: heard.append(args[0].size(1)))
    return heard


def test_every_token_passes_the_layers_once(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, MAX_LEN)
    heard, cache = listen(model), GPTCache(model)
    for end in (1, 2, 5, 9):
        cache(ids[:, :end])
    assert heard == [1, 1, 3, 4]


def test_the_cache_keeps_no_gradients_and_leaves_ids_and_model_alone(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, T)
    before = [x.clone() for x in (ids, *model.state_dict().values())]
    cache = GPTCache(model)
    assert cache.model is model
    assert not cache(ids).requires_grad and torch.is_grad_enabled()
    assert not any(kept.requires_grad for kept in cache.kept)
    assert_equal([ids, *model.state_dict().values()], before)
    assert hooks_left(model) == 0


def test_the_cache_keeps_numbers_of_the_models_own_type(generator):
    model, ids = tiny().float().eval(), draw_ids(generator, B, T)
    cache = GPTCache(model)
    assert cache(ids).dtype == torch.float32
    assert {kept.dtype for kept in cache.kept} == {torch.float32}


def test_a_cache_of_a_model_in_training_mode_is_refused():
    with pytest.raises(ValueError, match=says("eval()")):
        GPTCache(tiny())


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.full((2, 3), 4), ((2, 3), "3 tokens")),  # nothing is new
        (torch.full((2, 2), 4), ((2, 2), "3 tokens")),
        (torch.full((1, 4), 4), ((1, 4), "rows")),
        (torch.full((3, 4), 4), ((3, 4), "rows")),
        *((ids, ("input", *words)) for ids, words in ODD_IDS),
    ],
)
def test_ids_that_do_not_go_on_are_explained_and_leave_the_cache_as_it_was(ids, words):
    model, longer = tiny().eval(), torch.tensor([[4, 5, 6, 7], [1, 2, 3, 4]])
    cache = GPTCache(model)
    cache(longer[:, :3])
    with pytest.raises(ValueError, match=says(*words)):
        cache(ids)
    assert cache.length == 3
    assert_equal(cache(longer), model(longer)[0][:, 3:].detach())


# --- sampling


def write_by_hand(model, ids, count, choose):
    """Go on with a text: the whole window again for every token, and a given choice."""
    for _ in range(count):
        with torch.no_grad():
            last = model(ids[:, -model.config.max_len :])[0][:, -1]  # (B, V)
        ids = torch.cat([ids, choose(last).unsqueeze(1)], dim=1)
    return ids


@pytest.mark.parametrize("length", [1, T, MAX_LEN - 1, MAX_LEN, MAX_LEN + 1, 2 * MAX_LEN])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_text_is_written_with_and_without_a_cache(seed, length):
    model, ids = tiny().eval(), draw_ids(make_generator(seed), 3, length)
    how = dict(temperature=1.2, top_k=8, top_p=0.95)
    cached, again = (
        sample(model, ids, 25, **how, generator=make_generator(seed), cached=cached)
        for cached in (True, False)
    )
    assert torch.equal(cached, again)
    assert cached.shape == (3, length + 25) and torch.equal(cached[:, :length], ids)
    assert len({tuple(row) for row in cached[:, length:].tolist()}) == 3  # rows differ


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("length", [1, MAX_LEN - 2, MAX_LEN + 3])
def test_with_one_choice_left_the_likeliest_token_is_written(generator, length, cached):
    model, ids = tiny().eval(), draw_ids(generator, 4, length)
    expected = write_by_hand(model, ids, 14, lambda last: last.argmax(dim=-1))
    for how in (dict(top_k=1), dict(temperature=1e-6), dict(top_p=1e-9)):
        assert torch.equal(sample(model, ids, 14, **how, cached=cached), expected)
    assert len(set(expected[:, length:].flatten().tolist())) > 3


def test_of_a_long_text_the_last_max_len_are_read(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, 3 * MAX_LEN)
    longer = sample(model, ids, 12, generator=make_generator(1))
    short = sample(model, ids[:, -MAX_LEN:], 12, generator=make_generator(1))
    assert torch.equal(longer[:, -12:], short[:, -12:])
    assert torch.equal(longer[:, : 3 * MAX_LEN], ids)


DRAWS = 6000


def shares_by_hand(last, temperature=1.0, top_k=None, top_p=None):
    """Compute, in a loop over tokens, with which probability each should come."""
    weights = {v: math.exp(x / temperature) for v, x in enumerate(last.tolist())}
    ranked = sorted(weights, key=weights.get, reverse=True)[:top_k]
    whole, kept, reached = sum(weights[v] for v in ranked), [], 0.0
    for v in ranked:
        if top_p is not None and reached >= top_p:
            break
        kept.append(v)
        reached += weights[v] / whole
    rest = sum(weights[v] for v in kept)
    return torch.tensor([weights[v] / rest if v in kept else 0.0 for v in range(VOCAB)])


@pytest.mark.parametrize(
    "how",
    [
        {},
        dict(temperature=0.4),
        dict(temperature=3.0),
        dict(top_k=3),
        dict(top_k=VOCAB + 5),
        dict(top_p=0.6),
        dict(temperature=0.7, top_k=6, top_p=0.8),
    ],
    ids=str,
)
def test_tokens_come_as_often_as_the_models_scores_say(how):
    model, prompts = tiny().eval(), torch.tensor([[4, 7, 1], [0, 5, 9]])
    written = sample(model, prompts.repeat(DRAWS, 1), 1, **how, generator=make_generator(5))
    for kind in range(2):
        probs = shares_by_hand(model(prompts)[0][kind, -1], **how)
        shares = written[kind::2, -1].bincount(minlength=VOCAB) / DRAWS
        assert len(shares) == VOCAB  # nothing but tokens
        assert (shares[probs == 0] == 0).all()
        assert ((shares - probs).abs() <= 5 * (probs * (1 - probs) / DRAWS).sqrt() + 1e-9).all()


def test_no_text_ends_and_no_id_is_padding(generator):
    model, ids = tiny().eval(), draw_ids(generator, 20, 1)
    written = sample(model, ids, 40, temperature=100.0, generator=generator)[:, 1:]
    for columns in (written[:, :20], written[:, 20:]):
        assert set(columns.flatten().tolist()) == set(range(VOCAB))
    assert min(len(set(row)) for row in written[:, 20:].tolist()) > 4  # whatever came before


def test_the_generator_says_what_is_written_and_torchs_own_is_left_alone(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, T)
    state = torch.get_rng_state()
    one, again, other = (sample(model, ids, 20, generator=make_generator(s)) for s in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert torch.get_rng_state().equal(state)


def test_without_a_generator_torchs_own_numbers_are_used(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, T)
    written = []
    for seed in (3, 3, 4):
        with seeded(seed):
            written.append(sample(model, ids, 20))
    assert torch.equal(written[0], written[1]) and not torch.equal(written[0], written[2])


@pytest.mark.parametrize("cached", [True, False])
def test_nothing_more_is_written_than_asked(generator, cached):
    model = tiny().eval()
    heard = listen(model)
    for length in (1, MAX_LEN + 4):
        ids = draw_ids(generator, B, length)
        assert torch.equal(sample(model, ids, 0, cached=cached), ids)
    assert heard == []


@pytest.mark.parametrize(
    ("how", "passed"),
    [
        (dict(cached=True), [7, 1, 1, 9, 9]),
        (dict(cached=False), [7, 8, 9, 9, 9]),
        ({}, [7, 1, 1, 9, 9]),
    ],
    ids=str,
)
def test_the_cache_reads_every_token_once_until_the_window_is_full(generator, how, passed):
    model, ids = tiny().eval(), draw_ids(generator, B, 7)
    heard = listen(model)
    sample(model, ids, 5, **how)
    assert heard == passed


def test_the_ways_to_draw_may_go_by_place_the_cache_by_name_only(generator):
    model, ids = tiny().eval(), draw_ids(generator, B, T)
    how = dict(temperature=0.7, top_k=4, top_p=0.9)
    by_name = sample(model, ids, 9, **how, generator=make_generator(1))
    assert torch.equal(sample(model, ids, 9, *how.values(), make_generator(1)), by_name)
    with pytest.raises(TypeError):
        sample(model, ids, 9, *how.values(), make_generator(1), True)


# --- sampling leaves no trace


def modes_of(model):
    """List the modes of a model and of all its parts."""
    return {module.training for module in model.modules()}


@MODES
@pytest.mark.parametrize("cached", [True, False])
def test_the_model_writes_in_eval_mode_without_gradients_and_gets_its_mode_back(
    generator, training, cached
):
    model, ids, seen = tiny(dropout=0.5).train(training), draw_ids(generator, B, T), []
    handle = model.layers[1].add_norm2.register_forward_hook(
        lambda part, args, output: seen.append((part.training, output.requires_grad))
    )
    sample(model, ids, 8, cached=cached)
    handle.remove()
    assert seen == [(False, False)] * 8
    assert modes_of(model) == {training} and torch.is_grad_enabled()


def test_dropout_does_not_write(generator):
    model, sure, ids = tiny(dropout=0.5), tiny(), draw_ids(generator, B, T)
    expected = sample(sure, ids, 20, generator=make_generator(1))
    assert torch.equal(sample(model, ids, 20, generator=make_generator(1)), expected)


def test_the_prompt_and_the_weights_are_left_alone(generator):
    model, ids = tiny(), draw_ids(generator, B, T)
    before = [x.clone() for x in (ids, *model.state_dict().values())]
    sample(model, ids, 12)
    assert_equal([ids, *model.state_dict().values()], before)
    assert hooks_left(model) == 0


IMPOSSIBLE = [dict(temperature=0.0), dict(temperature=-1.0), dict(top_k=0), dict(top_p=1.1)]


@MODES
@pytest.mark.parametrize("how", IMPOSSIBLE, ids=str)
def test_an_impossible_way_to_draw_is_explained_and_the_mode_comes_back(generator, how, training):
    model, ids = tiny().train(training), draw_ids(generator, B, T)
    ((name, value),) = how.items()
    with pytest.raises(ValueError, match=says(f"{name}={value}")):
        sample(model, ids, 3, **how)
    assert modes_of(model) == {training}


@MODES
def test_the_mode_comes_back_even_when_the_model_fails_on_its_way(generator, training):
    model, ids, calls = tiny().train(training), draw_ids(generator, B, T), []

    def fail_later(*_):
        calls.append(1)
        if len(calls) == 3:
            raise ArithmeticError

    model.norm.register_forward_hook(fail_later)
    with pytest.raises(ArithmeticError):
        sample(model, ids, 5)
    assert modes_of(model) == {training} and torch.is_grad_enabled()


@MODES
@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.full((B, T), VOCAB), (VOCAB, VOCAB - 1)),
        (torch.full((B, 3 * MAX_LEN), -1), (-1, VOCAB - 1)),
        (torch.full((B, T), 1.0), (torch.float32,)),
        (torch.full((T,), 4), ((T,),)),
        (torch.ones(B, 0, dtype=torch.long), ((B, 0),)),
    ],
)
def test_a_prompt_that_is_none_is_explained(ids, words, training):
    model = tiny().train(training)
    with pytest.raises(ValueError, match=says("prompt", *words)):
        sample(model, ids, 3)
    assert modes_of(model) == {training}


# --- programs

PROGRAMS = [
    "x = 1",
    "  x = 1\n\n",
    "def f(x):\n    return x",
    "pass",
    "x",
    "'text'",
    "if x:\n  y = 1\nelse:\n  y = 2",
    "raise SystemExit",  # read, not run
    "import no_such_module_anywhere",
]
NO_PROGRAMS = [
    "",
    "  \n\t ",
    "# a comment",
    "x = = 1",
    "if x:",
    "def f(x)",
    "x = 1\n  y = 2",
    "return(",
    "'text",
    "else: pass",
    "x = 1\0",
    "café au lait",
]


@pytest.mark.parametrize(
    ("snippet", "rate"),
    [*((snippet, 1.0) for snippet in PROGRAMS), *((snippet, 0.0) for snippet in NO_PROGRAMS)],
)
def test_one_text_is_a_program_or_none(snippet, rate):
    assert parse_rate([snippet]) == rate


@given(texts=st.lists(st.sampled_from(PROGRAMS + NO_PROGRAMS), min_size=1, max_size=12))
def test_the_rate_is_the_share_of_programs(texts):
    rate = parse_rate(texts)
    assert isinstance(rate, float)
    assert rate == sum(text in PROGRAMS for text in texts) / len(texts)
    assert parse_rate(tuple(texts)) == rate


@pytest.mark.parametrize("complaint", [SyntaxError, ValueError, RecursionError, MemoryError])
def test_whatever_the_parser_complains_of_is_no_program(monkeypatch, complaint):
    def complain(source):
        raise complaint

    monkeypatch.setattr(ast, "parse", complain)
    assert parse_rate(["x", "y"]) == 0.0


@pytest.mark.parametrize("snippet", ["(" * 5000, "1+" * 5000 + "1", "-" * 5000 + "1"])
def test_a_deep_text_raises_nothing(snippet):
    assert parse_rate([snippet]) in (0.0, 1.0)


def test_a_share_of_nothing_is_explained():
    with pytest.raises(ValueError, match="no text"):
        parse_rate([])


@pytest.mark.filterwarnings("error")
def test_an_odd_backslash_is_a_program_and_nothing_is_said():
    assert parse_rate([r"x = '\d'", "1 is 1", "x ="]) == pytest.approx(2 / 3)
