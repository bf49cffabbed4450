"""Wrong answers in a textbook's style fail, and the frequent mistakes are named."""

import inspect
from dataclasses import replace

import pytest
import torch
from textbooks import annotated, cells_of, nanogpt, pytorch_tutorial
from torch.testing import assert_close

from course_lib.exercises import predict, score_test
from course_lib.exercises.bank import (
    decoder,
    decoding,
    gpt,
    kv_cache,
    modern_decoder,
    positions,
    transformer,
)
from course_lib.exercises.bank.transformer import APART
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise, right_ways
from course_lib.exercises.checking.mistake import course_source, define

IN_TEXTBOOKS = {
    "sinusoidal_encoding": annotated.sines_and_cosines,
    "AddNorm": annotated.SublayerConnection,
    "FeedForward": annotated.PositionwiseFeedForward,
    "random_windows": nanogpt.get_batch,
    "EncoderLayer": pytorch_tutorial.TransformerEncoderLayer,
    "RMSNorm": pytorch_tutorial.RMSNorm,
}
BOOK = {name: inspect.getsource(answer) for name, answer in IN_TEXTBOOKS.items()} | {
    "scaled_dot_product_attention": """
def scaled_dot_product_attention(q, k, v, mask=None):
    d_k = q.size(-1)
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
    return torch.matmul(p_attn, v), p_attn
""",
    "MultiHeadAttention": cells_of("annotated")["MultiHeadAttention"],
    "DecoderLayer": """
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.cross_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        a = self.norm1(x + self.dropout(self.self_attn(x, x, x, self_mask)[0]))
        b = self.norm2(a + self.dropout(self.cross_attn(a, memory, memory, cross_mask)[0]))
        return self.norm3(b + self.dropout(self.feed_forward(b)))
""",
}


def book(name, *edits):
    """Return a textbook's definition, or else the course's, with some lines changed."""
    sources = (BOOK.get(name, ""), course_source(find_exercise(name).module, name))
    source = next(text for text in sources if all(old in text for old, _ in edits))
    for old, new in edits:
        source = source.replace(old, new)
    if name in IN_TEXTBOOKS:
        source = source.replace(IN_TEXTBOOKS[name].__name__, name)
    return define(source, find_exercise(name).module, name, f"<textbook's {name}: {edits}>")


@pytest.mark.parametrize("name", BOOK)
def test_the_answers_are_correct_before_a_mistake_is_planted(name):
    report = examine(name, book(name))
    looked_at = {stage for exercise, stage, *_ in SLIPS if exercise == name}
    wrong = [stage for stage in report.stages if stage.wrong and stage.name in looked_at]
    assert report.passed and not wrong, report


WEIGHTS = "dropout(p_attn)"
DROPPED = {  # the mistake, and the stage that must fail; AddNorm has every axis
    "MultiHeadAttention": (
        ("dropout", f"p_attn = {WEIGHTS}", "return dropout(p_attn @ value), p_attn"),
        ("dropout", WEIGHTS, "p_attn * dropout(torch.ones(p_attn.size(-1)))"),
        ("dropout", WEIGHTS,
         "p_attn * ((torch.rand_like(scores) >= dropout.p) | (not dropout.training))"),
        ("dropout", WEIGHTS, "dropout(scores).softmax(dim=-1)"),
        ("dropout", WEIGHTS, "nn.functional.normalize(dropout(p_attn), 1, -1)"),
        ("dropout", "return self.linears[-1](x)", "return self.dropout(self.linears[-1](x))"),
        ("dropout", "attention(query, key, value, mask=mask",
         "attention(query, key, self.dropout(value), mask=mask"),
    ),
    "AddNorm": tuple(
        (stage, f"self.dropout(sublayer({read}))", new.format(read))
        for stage, read in (("dropout", "x"), ("dropout in pre-norm", "self.layer_norm(x)"))
        for new in (
            "(lambda y: y * ((torch.rand_like(y) >= self.dropout.p) | (not self.training)))"
            "(sublayer({}))",
            "(lambda y: y * self.dropout(torch.ones_like(y[..., :1])))(sublayer({}))",
            "(lambda y: y * self.dropout(torch.ones_like(y[:, :1])))(sublayer({}))",
            "(lambda y: y * self.dropout(torch.ones_like(y[:1])))(sublayer({}))",
            "nn.functional.dropout(sublayer({}), self.dropout.p / 2, self.training)",
        )
    ),
    "PositionalEncoding": tuple(
        ("dropout", "self.dropout(x + self.encoding[start:end])", new)
        for new in (
            "(x + self.encoding[start:end]) * self.dropout(torch.ones_like(x[..., :1]))",
            "self.dropout(x) + self.dropout(self.encoding[start:end])",
            "(x + self.encoding[start:end]) * self.dropout(torch.ones_like(x)).ceil()",
        )
    ),
    "FeedForward": (
        ("dropout", "self.dropout(self.w_1(x).relu())",
         "(y := self.w_1(x).relu()) * self.dropout(torch.ones_like(y[..., :1]))"),
    ),
    "EncoderLayer": (
        ("inner dropouts", "        self.add_norm2 = ",
         "        self.add_norm1.dropout = nn.Dropout1d(dropout)\n"
         "        self.add_norm2 = "),
        ("inner dropouts", "dropout=attention_dropout\n", "dropout=attention_dropout ** 2\n"),
        ("inner dropouts", "        self.add_norm1 = ",
         "        self.feed_forward.dropout = nn.Dropout1d(activation_dropout)\n"
         "        self.add_norm1 = "),
    ),
    "DecoderLayer": (
        ("inner dropouts", decoder.CROSS_ATTN,
         "self.cross_attn = MultiHeadAttention(d_model, num_heads, d_k=d_k, d_v=d_v)"),
        ("inner dropouts", "d_ff, activation_dropout,", "d_ff, activation_dropout ** 2,"),
    ),
    "CausalSelfAttention": tuple(
        ("dropout", gpt.LOOK, new)
        for new in (
            f"F.dropout({gpt.LOOK.replace('dropout_p=dropout_p, ', '')}, dropout_p)",
            f"(F.dropout(torch.ones(x.size(1)), dropout_p) * {gpt.SCORES}.{gpt.FUTURE}.softmax(-1))"
            " @ v",
        )
    ),
    **dict.fromkeys(("Transformer", "DecoderOnly"), (
        ("dropout", "self.positions(vectors)",
         "(vectors + self.positions.encoding[: vectors.size(1)]) * F.dropout("
         "torch.ones_like(vectors[..., :1]), self.config.dropout, self.training)"),
    )),
}  # fmt: skip
UNNAMED = {
    "AddNorm": (("defaults", "dropout: float = 0.0", "dropout: float = 0.1"),),
    "PositionalEncoding": (("defaults", "dropout: float = 0.0", "dropout: float = 0.1"),),
    "adam_update": (("defaults", "eps: float = 1e-9", "eps: float = 1e-8"),),
    "LayerNorm": tuple(
        ("large mean", "centered.square().mean(dim=-1, keepdim=True)", new)
        for new in (
            "(x ** 2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2",
            "(x.norm(dim=-1, keepdim=True) ** 2 / x.size(-1) - (x - centered) ** 2).abs()",
        )
    ),
    "sinusoidal_encoding": (
        ("formula", "torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model)",
         "torch.arange(d_model // 2) * -(math.log(10000.0) / (d_model - 2))"),
        ("formula", "torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model)",
         "torch.arange(d_model // 2) * -(math.log(10000.0) / 2)"),
        ("formula", "/ d_model)", "/ math.sqrt(4 * d_model))"),
    ),
    "random_windows": (
        ("start", "(batch_size,))", "(1,)) + torch.arange(batch_size) * block_size\n"
         "    ix = ix % (len(data) - block_size)"),  # then windows come one after another
        ("start", "(batch_size,))", "(1,)) + torch.arange(batch_size)\n"
         "    ix = ix % (len(data) - block_size)"),  # then each window starts one token later
        ("start", "(batch_size,))", "(batch_size,)).sort()[0]"),
    ),
    "training_step": (
        ("clip_norm", "        loss.backward()\n", "        loss.backward()\n"
         "        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)\n"),
        ("clip_norm", "        loss.backward()\n", "        (loss / 2).backward()\n"),
        ("one step", "optimizer.zero_grad()", "optimizer.zero_grad(); model.eval()"),
        ("several losses", "    for loss in losses:\n",
         "    model.eval()\n    losses = list(losses)\n    model.train()\n"
         "    for loss in losses:\n"),
    ),
    "apply_rope": (
        ("half precision", ".to(x.dtype)", ""),
        ("half precision", "angles.cos().to(x.dtype), angles", "angles.to(x.dtype).cos(), angles"),
        ("half precision", "angles.sin().to(x.dtype)", "angles.to(x.dtype).sin()"),
        ("input checks", "angles.shape != (T, d_k / 2)", "angles.shape[1] != d_k / 2"),
    ),
    "greedy_decode": (
        ("work", decoding.READ, decoding.AGAIN),
        ("work", decoding.READ, f"model(src[rows], {decoding.PREFIX})[:, -1]"),
        ("work", decoding.READ, f"(model.encode(src), {decoding.READ})[1]"),
    ),
    "sample_tokens": (
        ("top_k", "probs, tokens = probs.topk(k)",
         "tokens = probs[0].topk(k).indices.expand(len(probs), k)\n"
         "    probs = probs.gather(1, tokens)"),
        ("top_k", "probs.topk(k)", "(probs * (probs >= probs[0].topk(k).values[-1])).topk(k)"),
        ("top_p", decoding.KEPT, f"({decoding.KEPT})[:1]"),
        ("top_p", decoding.KEPT, f"({decoding.KEPT}).all(dim=0)"),
    ),
    "mask_tokens": tuple(
        (stage, f"{name} = {old}torch.rand(ids.shape, generator=generator)", f"{name} = {old}{new}")
        for stage, name, old in (("choice", "chosen", "("), ("fates", "fate", ""))
        for new in (
            "torch.rand(ids.shape[1:], generator=generator)",  # the same for every sentence
            "torch.rand(len(ids), 1, generator=generator)",  # the same for a whole sentence
            "(torch.arange(ids.size(1)) % 20 / 20 + 0.01)",  # not random
        )
    ),
    "DecodingEngine": (
        # `reorder` writes into a tensor of an earlier step
        ("reorder", "@torch.no_grad()\n    def step", "@torch.inference_mode()\n    def step"),
        *(
            ("several tokens", kv_cache.ENGINE,
             kv_cache.masked_by(mask)[0][1].replace("MaskedLayer", "CachedDecoderLayer"))
            for mask in (
                "None",
                "causal_mask(n) if T == n else None",  # in the first chunk only
                "F.pad(torch.ones(T, T).tril(1).bool(), (n - T, 0), value=True)",
            )
        ),
    ),
    "batch_by_tokens": (
        ("input checks", "sum(lengths[pair]) > tokens", "False"),
        ("input checks", "sum(lengths[pair]) > tokens", "lengths[pair][0] > tokens"),
        ("input checks", "raise ValueError(", "raise RuntimeError("),
    ),
    "causal_mask": (("input checks", "length < 1", "length < 0"),),
    "CausalSelfAttention": (("attention", "dropout: float = 0.0", "dropout: float = 0.1"),),
    "ablate_head": (("logits", "return model(ids)[0]", "return model(ids)[0].squeeze()"),),
    "patch_activations": (("logits", "return model(ids)[0]", "return model(ids)[0].squeeze()"),),
    "group_advantages": (
        ("eps", "(rewards - mean) / (std + eps)", "((rewards - mean) / (std + eps)).squeeze()"),
    ),
    "GPT": (("logits", "self.output(self.norm(x))", "self.output(self.norm(x)).squeeze()"),),
    "run_with_tool": (
        ("calls", "new = [int(token)]", "new = [token]"),  # the chapter looks ids up in a dict
        ("default limit", "= 12", "= 16"),
    ),
    "warmup_inverse_sqrt": (("input checks", "(step, d_model, warmup_steps)", "(step, d_model)"),),
    "label_smoothed_cross_entropy": (
        ("input checks", "0 <= smoothing <= 1", "0 <= smoothing"),
        ("only padding", ".clamp(min=1)", ""),
    ),
}  # fmt: skip
SLIPS = [(name, *slip) for kinds in (DROPPED, UNNAMED) for name in kinds for slip in kinds[name]]


@pytest.mark.parametrize("name, stage, old, new", SLIPS)
def test_a_planted_mistake_fails_the_stage_that_checks_it(name, stage, old, new):
    stages = {found.name: found for found in examine(name, book(name, (old, new))).stages}
    assert not stages[stage].held and stages[stage].wrong


def test_a_search_that_never_ends_and_an_option_that_is_missing_are_told_apart():
    (search,) = (way for way in right_ways("batch_by_tokens") if way.name == "by_searching")
    source = search.source.replace("> tokens for pair", "> 1e9 for pair")
    endless = define(source, "batching", "batch_by_tokens", "<search>")
    report = examine("batch_by_tokens", endless)
    assert report.missed == ["input checks"] and "raises TimeoutError" in report.detail
    unclipped = (
        ("    *,\n    clip_norm: float = math.inf,\n", ""),
        ("not clip_norm > 0", "False"),
        ("clip_norm < math.inf", "False"),
    )
    stages = examine("training_step", book("training_step", *unclipped)).stages
    assert [stage.wrong for stage in stages if stage.name == "input checks"] == [False]


A, M = "scaled_dot_product_attention", "MultiHeadAttention"
E, D = "EncoderLayer", "DecoderLayer"
SCALE, MASKED = "/ math.sqrt(d_k)", "scores = scores.masked_fill(mask == 0, -1e9)"
SKIPPED = "self.norm2(src + self._ff_block(src))"
OUT = "self.linears[-1](x)"
SA_BLOCK, FF_BLOCK = "self._sa_block(x, src_mask)", "self._ff_block(x)"
BOTH_NORMS = """if True:
            y = self.layer_norm(x)
            return self.layer_norm(x + self.dropout(sublayer(y)))
        if self.first:"""
S, ONE = "sample_tokens", "1, generator=generator).squeeze(1)"
FROM_LOGITS = (
    "k = logits.size(-1) if top_k is None"  # the first line; nothing is validated above it
)
UNCHANGED = f"return torch.multinomial(logits.softmax(-1), {ONE}\n    {FROM_LOGITS}"
PROBS = "probs = (logits / temperature).softmax(-1)"
SORTED = f"""{PROBS}
    if top_k is not None:
        probs = probs * (probs >= probs.topk(min(top_k, probs.size(-1)))[0][:, -1:])
        probs = probs / probs.sum(-1, keepdim=True)
    if top_p is not None:
        probs, order = probs.sort(-1, descending=True)
        probs = probs * (probs.cumsum(-1) - probs < top_p)
    return torch.multinomial(probs, {ONE}
    {FROM_LOGITS}"""
ZEROED = f"""scores = logits / temperature
    kept = scores.topk(min(top_k or 99, scores.size(-1)))[0][:, -1:]
    scores[scores < kept] = 0
    probs, order = scores.softmax(-1).sort(-1, descending=True)
    probs = probs * (probs.cumsum(-1) - probs < (top_p or 1.0))
    return order.gather(1, torch.multinomial(probs, 1, generator=generator)).squeeze(1)
    {FROM_LOGITS}"""
JOINED = "x.transpose(1, 2).contiguous()"
NAMED = (  # the short name of a mistake, and how the reader of a textbook makes it
    ("scale_twice", A, (SCALE, "/ math.sqrt(d_k) / math.sqrt(d_k)")),
    ("scale_d_k", A, (SCALE, "/ d_k")),
    ("scale_keys", A, (SCALE, "/ math.sqrt(k.shape[-2])")),
    ("mask_added", A, (MASKED, "scores += mask.float()")),
    ("scale_num_heads", M, ("math.sqrt(d_k)", "math.sqrt(query.size(1))")),
    ("heads_joined_number_by_number", M, (JOINED, "x.permute(0, 2, 3, 1).contiguous()")),
    ("heads_joined_by_another_axis", M, (JOINED, "x.transpose(2, 3).contiguous()")),
    ("mask_ignored", M, ("mask=mask", "mask=None")),  # without need_weights
    ("dropout_ignored", E, ("self.dropout1(", "("), ("self.dropout2(", "(")),  # no norm_first
    ("residual_inside", M, ("nbatches = ", "old, nbatches = query, "), (OUT, f"old + {OUT}")),
    ("negative_numbers_kept", "FeedForward", (".relu()", ".clamp(max=0)")),
    ("gain_around_zero", "RMSNorm", ("ones(", "zeros("), ("self.scale\n", "(1 + self.scale)\n")),
    ("residual_missing_feed_forward", E, ("self.norm2(x + ", "self.norm2(")),
    ("feed_forward_reads_input", E, ("self._ff_block(x)", "self._ff_block(src)")),
    ("attention_dropped", E, ("self.norm2(x + self._ff_block(x))", SKIPPED)),
    ("residual_missing_cross_attention", D, ("self.norm2(a + ", "self.norm2(")),
    ("cross_attention_of_input", D, ("self.cross_attn(a", "self.cross_attn(x")),
    ("feed_forward_reads_first_sum", D, ("self.feed_forward(b)", "self.feed_forward(a)")),
    ("residual_from_input", D, ("self.norm2(a + ", "self.norm2(x + ")),
    ("norm_used_twice", E, ("self.norm2(x + ", "self.norm1(x + ")),
    ("second_norm_used_twice", E, ("self.norm1(x + ", "self.norm2(x + ")),
    ("add_norm_missing_attention", E, ("self.norm1(x + self._sa_block(x, src_mask))", SA_BLOCK)),
    ("add_norm_missing_feed_forward", E, ("self.norm2(x + self._ff_block(x))", FF_BLOCK)),
    ("norm_missing_feed_forward", E, ("self.norm2(x + self._ff_block(x))", f"x + {FF_BLOCK}")),
    ("added_inside_attention", E, ("self.norm1(x + ", "self.norm1(x + x + ")),
    ("added_inside", E, ("self.norm1(x", "self.norm1(2 * x"), ("self.norm2(x", "self.norm2(2 * x")),
    ("feed_forward_skipped", E, ("return self.norm2(x + self._ff_block(x))", "return x")),
    ("add_norm1_replaces_add_norm3", D, ("self.norm3(b", "self.norm1(b")),
    ("add_norm_missing_cross_attention", D, ("self.norm2(a + self.dropout(", "((")),
    ("norm_missing_self_attention", D, ("a = self.norm1(", "a = (")),
    ("added_inside_cross_attention", D, ("self.norm2(a", "self.norm2(2 * a")),
    ("always_pre_norm", "AddNorm", (", norm_first=True", ""), ("= norm_first", "= True")),
    ("orders_exchanged", "AddNorm", ("if self.first:", "if not self.first:")),
    ("always_normed_twice", "AddNorm", ("if self.first:", BOTH_NORMS)),
    ("larger_of_the_two", "warmup_inverse_sqrt", ("min(step**", "max(step**")),
    ("product_of_the_curves", "warmup_inverse_sqrt", ("min(step**-0.5, ", "(step**-0.5 * ")),
    ("options_ignored", S, (FROM_LOGITS, UNCHANGED)),
    ("temperature_ignored", S, ("logits.float() / temperature", "logits.float()")),
    ("places_in_place_of_tokens", S, ("drawn).squeeze(1)", "drawn).squeeze(1) * 0 + drawn[:, 0]")),
    ("places_in_place_of_tokens_after_top_p", S, (FROM_LOGITS, SORTED)),
    ("cut_to_zero", S, (FROM_LOGITS, ZEROED)),
    ("step_for_every_loss", "training_step", ("    optimizer.step()\n", ""),
     ("loss.backward()", "optimizer.param_groups[0]['lr'] = rate\n"
      "        loss.backward()\n        optimizer.step()")),
)  # fmt: skip


@pytest.mark.parametrize("name, mistake, edits", [(n, m, edits) for m, n, *edits in NAMED])
def test_a_mistake_in_a_textbooks_style_is_named(name, mistake, edits):
    report = examine(name, book(name, *edits))
    assert report.mistake == mistake
    in_core = next(stage for stage in report.stages if not stage.held).core
    assert report.passed != in_core


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("positions_copied", (32_639, 32_641, 32_895, 32_896)),
        ("tokens_read_for_ten", (45, 54, 56)),
        ("parameters_of_sixteen_heads", (1_048_000, 1_049_088)),
        ("length_where_attention_rules", (3050, 3071, 3073)),
        ("first_loss", (3.892, 3.932)),
        ("parameters_of_the_big_model", (210.0, 219.0)),
        ("parameters_of_gpt2", (124_400_000, 124_439_807)),
    ],
)
def test_a_count_that_is_off_by_one_is_not_accepted(name, wrong):
    assert not any(predict(name, number).passed for number in wrong)


def listens(layer_class, read, hide):
    """Test a decoder layer for one of two requirements, or for both."""
    layer = layer_class(d_model=24, num_heads=3, d_ff=96)
    x, memory = torch.randn(2, 5, 24), torch.randn(2, 4, 24)
    seen = torch.tensor([[True, True, False, False]])
    if read:
        assert (layer(x, memory) - layer(x, -memory)).abs().amax(dim=-1).min() > 1e-3
    if hide:
        other = memory.masked_fill(~seen.T, 9.0)
        assert_close(layer(x, other, None, seen), layer(x, memory, None, seen))


def differ(encoder_class, drawn, hidden):
    """Test a stack for equal initial layers, for layers that torch does not register, or both."""
    encoder = encoder_class(2, 24, 3, 96)
    first, second = (layer.self_attn.w_q.weight for layer in encoder.layers)
    assert not drawn or not torch.equal(first, second)
    assert not hidden or len(list(encoder.parameters())) == 2 * 16


@pytest.mark.parametrize(
    "question, test", [("test_of_listening", listens), ("test_of_different_layers", differ)]
)
def test_a_test_that_checks_one_of_two_requirements_misses_mistakes(question, test):
    def asking(*demands):
        return score_test(question, lambda candidate: test(candidate, *demands))

    assert asking(True, True).passed
    for demands in ((True, False), (False, True)):
        assert asking(*demands).mistake == "too_content"


@pytest.mark.parametrize("masked", ["encoder", "cross", "both"])
def test_a_test_of_padding_has_to_catch_both_source_masks(masked):
    def my_test(model_class):
        model = model_class(replace(APART, num_encoder_layers=1, pad_id=9))
        bare, padded = torch.tensor([[3, 0]]), torch.tensor([[3, 0, 9, 9]])
        memory = model.encode(bare), model.encode(padded)
        if masked != "cross":
            assert_close(memory[1][:, :2], memory[0], rtol=0, atol=1e-4)
        if masked != "encoder":
            other = torch.cat([memory[0], torch.ones_like(memory[0])], dim=1)
            tgt = torch.tensor([[1, 7, 8]])
            found = model.decode(tgt, other, padded), model.decode(tgt, memory[0], bare)
            assert_close(*found, rtol=0, atol=1e-4)

    assert score_test("test_of_padding", my_test).passed == (masked == "both")


FILL, SOFTMAX = "-1e9", f"{MASKED}\n    p_attn = F.softmax(scores, dim=-1)"
GROUPED = (
    "q, k, v = self.project(x, angles)\n"
    "        k, v = (y.repeat_interleave(q.size(1) // y.size(1), 1) for y in (k, v))\n"
    "        past = torch.ones(x.size(1), x.size(1)).tril().bool()\n"
    "        heads = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~past, {}).softmax(dim=-1) @ v"
)
BY_HAND = (
    "mask = torch.ones(()) if mask is None else mask\n    p_attn = F.normalize({} * mask, 1, -1)"
)
REFUSED = {  # core trials must reject these
    "scaled_dot_product_attention": (
        *((FILL, fill) for fill in ("-15", "-20", "-50", "-100")),
        (SOFTMAX, f"pass\n    {BY_HAND.format('scores.softmax(-1)')}"),
        (SOFTMAX, f"pass\n    {BY_HAND.format('scores.exp()')}"),
    ),
    "MultiHeadAttention": (
        (FILL, "-20"),
        (FILL, "-100"),
        ("scores.masked_fill(mask == 0, -1e9)", "scores - 30.0 * ~mask"),
    ),
    "CausalSelfAttention": tuple(
        (gpt.LOOK, f"F.dropout({new}, dropout_p) @ v")
        for new in (
            f"{gpt.SCORES}.masked_fill(torch.ones(x.size(1), x.size(1)).triu(1).bool(), -20)"
            ".softmax(-1)",
            f"F.normalize({gpt.SCORES}.softmax(-1).tril(), 1, -1)",
            f"F.normalize({gpt.SCORES}.exp().tril(), 1, -1)",
        )
    ),
    "GroupedQueryAttention": (
        (modern_decoder.ATTEND, GROUPED.format(-20)),
        (modern_decoder.ATTEND, GROUPED.format(-100)),
        (
            modern_decoder.ATTEND,
            f"{GROUPED.format(-1e9)} if not self.training else "
            "F.scaled_dot_product_attention(q, k, v)",
        ),
    ),
}
TRAINING = {  # what is hidden from learners who only look at eval mode
    "MultiHeadAttention": (
        ("nbatches = ", "mask = None if self.training else mask\n        nbatches = "),
    ),
    "EncoderLayer": (("y, y, mask)", "y, y, None if self.training else mask)"),),
    "Encoder": (("(x, mask)", "(x, None if self.training else mask)"),),
    "DecoderLayer": (
        ("memory, memory, cross_mask)", "memory, memory, None if self.training else cross_mask)"),
        ("y, y, self_mask)", "y, y, None if self.training else self_mask)"),
    ),
    "Transformer": (
        (transformer.CROSS, f"{transformer.CROSS} if not self.training else None"),
        ("vectors), padding_mask(", "vectors), None if self.training else padding_mask("),
    ),
    "DecoderOnly": (("vectors), past)", "vectors), None if self.training else past)"),),
}
BY_LENGTH = (
    "def merged(pair):\n        return -len(pair[0] + pair[1])\n    for pair in sorted(ranks, "
    "key={}):\n        tokens = merge_pair(tokens, pair)\n    return tokens\n    while True:"
)
BPE = {
    "apply_merges": (
        ("ranks[pair])", "-len(pair[0] + pair[1]))"),
        ("ranks[pair])", "(-len(pair[0] + pair[1]), ranks[pair]))"),
        ("while True:", BY_LENGTH.format("lambda pair: -merged(pair)")),
        ("while True:", BY_LENGTH.format("lambda pair: 0")),  # the order of the dictionary
        ("while True:", BY_LENGTH.format("merged")),
    ),
    "merge_pair": (
        ("tokens[position : position + 2] == pair",
         'b"".join(tokens[position : position + 2]) == pair[0] + pair[1]'),
        ("tokens[position : position + 2] == pair",
         "len(tokens) > position + 1 and tokens[position + 1] == pair[1]"),
    ),
    "train_bpe": (("ids.setdefault(best[0] + best[1], len(ids))", "ids[best[0] + best[1]] = 256"),),
}  # fmt: skip
SIZES = {
    "DecoderOnly": (
        ("Encoder(c.num_decoder_layers", "Encoder(c.num_encoder_layers"),
        ("Embedding(c.tgt_vocab_size", "Embedding(c.src_vocab_size"),
    ),
    "AttentionCache": (("self.length = length\n", "self.length -= length\n"),),
}
TYPES = {
    "apply_rope": (("dim=-1).flatten(-2)", "dim=-1).flatten(-2).float()"),),
    "RMSNorm": (("return normed.to(dtype)", "return normed.float()"),),
    "LayerNorm": (
        ("return normed.to(dtype)", "return normed.double()"),
        ("torch.ones(d_model)", "torch.ones(d_model), requires_grad=False"),
    ),
    "mean_pool": ((".to(vectors.dtype)", ".double()"),),
    "group_advantages": (
        ("    return ", "    return 1.0 * torch.ones(()).double().view(1, 1) * "),
    ),
    "FeedForward": (("return self.linear2(", "return self.linear2.double()("),),
    "random_windows": (("window[:, :-1], window[:, 1:]", "window[:, :-1], window[:, 1:].float()"),),
    "mask_tokens": (
        ("return inputs,", "return inputs.float(),"),
        (
            "randint(num_ordinary, ids.shape, generator=generator)  # (B, L)",
            "randint(num_ordinary, ids.shape, generator=generator)\n"
            "    random_ids = (ids + 1) % num_ordinary",
        ),
        ("randint(num_ordinary, ids.shape,", "randint(num_ordinary, (len(ids), 1),"),
        (
            "    inputs = ids.masked",
            "    random_ids = ids[:, torch.randperm(ids.size(1))]\n"
            "    random_ids = random_ids.where(random_ids != pad_id, 0)\n    inputs = ids.masked",
        ),
        ("< 0.15", "< 0.17"),
        ("< 0.15", "< 0.14"),
        ("fate < 0.8)", "fate < 0.82)"),
        ("fate >= 0.9", "fate >= 0.91"),
    ),
    "AttentionCache": (
        ("keys.new_empty(", "torch.empty("),
        ("values.new_empty(", "torch.zeros("),
    ),
    "sample_tokens": (
        ("scores.softmax(dim=-1)", "logits.softmax(dim=-1)"),
        (
            "torch.multinomial(probs, 1, generator=generator).squeeze(1)",
            "(torch.rand(len(probs) // 2, 1, generator=generator).repeat_interleave(2, 0) > "
            "probs.cumsum(-1)).sum(-1)",
        ),
        (
            "torch.multinomial(probs, 1, generator=generator).squeeze(1)",
            "(torch.rand(len(probs) // 2, 1, generator=generator).repeat_interleave(2, 0)"
            ".roll(1, 0) > probs.cumsum(-1)).sum(-1)",
        ),
    ),
}
REFUSED |= BPE | SIZES | {name: (*SIZES.get(name, ()), *edits) for name, edits in TYPES.items()}
REFUSED |= {name: (*REFUSED.get(name, ()), *edits) for name, edits in TRAINING.items()}
RIGHT = {  # the same edits with the right value
    "scaled_dot_product_attention": ((FILL, "-1e4"), (FILL, "torch.finfo(scores.dtype).min")),
    "MultiHeadAttention": ((FILL, "float('-inf')"),),
    "CausalSelfAttention": (
        (gpt.LOOK, f"F.dropout({gpt.SCORES}.{gpt.FUTURE}.softmax(-1), dropout_p) @ v"),
        ("parts = self.w_qkv(x)",  # with the helper of chapter 02
         "return tuple(split_heads(y, self.num_heads) for y in self.w_qkv(x).chunk(3, dim=-1))\n"
         "        parts = self.w_qkv(x)"),
        (gpt.LOOK, f"F.dropout(({gpt.SCORES} - 1e9 * torch.ones(x.size(1), x.size(1)).triu(1))"
         ".softmax(-1), dropout_p) @ v"),
    ),
    "GroupedQueryAttention": ((modern_decoder.ATTEND, GROUPED.format(-1e9)),),
    "PositionalEncoding": tuple(
        (positions.BUFFER, f"self.encoding = {table}")
        for table in (
            f"nn.Parameter({positions.TABLE}, requires_grad=False)",
            f"nn.Parameter({positions.TABLE}).requires_grad_(False)",
            f"nn.Embedding.from_pretrained({positions.TABLE}, freeze=True).weight",
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name, edit", [(n, edit) for n, edits in REFUSED.items() for edit in edits]
)
def test_a_wrong_answer_does_not_pass_the_core(name, edit):
    assert not examine(name, book(name, edit)).passed


@pytest.mark.parametrize("name, edit", [(n, edit) for n, edits in RIGHT.items() for edit in edits])
def test_a_right_answer_next_to_it_passes_the_core(name, edit):
    report = examine(name, book(name, edit))
    assert report.passed, report


W_1, W_2 = "nn.Linear(d_model, d_ff)", "nn.Linear(d_ff, d_model)"
OWN_HEADS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        {layers}
        self.w_o = {last}

    def forward(self, query, key, value, mask=None):
        x = query, key, value
        {project}
        weights = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            weights = weights.masked_fill(~mask, -1e9)
        heads = (weights.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return {output}, None
"""
LINEAR = dict(last="nn.Linear(d_model, d_model)", output="self.w_o(heads)")
SPLIT = "unflatten(-1, (self.num_heads, -1)).transpose(1, 2)"
HEADS = {
    "matrices of shape (in, out)": dict(
        layers="""for name in "qkv":
            setattr(self, name, nn.Parameter(torch.randn(d_model, d_model)))
            setattr(self, f"b_{name}", nn.Parameter(torch.zeros(d_model)))""",
        project=f"q, k, v = ((y @ w + b).{SPLIT} for y, w, b in zip(x, (self.q, self.k, self.v), "
        "(self.b_q, self.b_k, self.b_v)))",
        **LINEAR,
    ),
    "a joined projection": dict(
        layers="self.w = nn.Linear(d_model, 3 * d_model)",
        project=f"q, k, v = (self.w(y).chunk(3, -1)[n].{SPLIT} for n, y in enumerate(x))",
        **LINEAR,
    ),
    "a list of heads": dict(
        layers="self.parts = nn.ModuleList(nn.ModuleList(nn.Linear(d_model, d_model // num_heads)"
        " for _ in range(num_heads)) for _ in range(3))",
        project="q, k, v = (torch.stack([p(y) for p in ps], 1) for y, ps in zip(x, self.parts))",
        **LINEAR,
    ),
    "einsum": dict(
        layers="self.w = nn.Parameter(torch.randn(3, num_heads, d_model, d_model // num_heads))",
        project='q, k, v = (torch.einsum("btm,hmd->bhtd", y, w) for y, w in zip(x, self.w))',
        **LINEAR,
    ),
}  # fmt: skip
FORMS = {
    "matrices": (
        (W_1, "nn.Parameter(torch.randn(d_model, d_ff))\n"
         "        self.b_1 = nn.Parameter(torch.zeros(d_ff))"),
        (W_2, "nn.Parameter(torch.randn(d_ff, d_model))\n"
         "        self.b_2 = nn.Parameter(torch.zeros(d_model))"),
        ("self.w_2(self.dropout(self.w_1(x).relu()))",
         "self.dropout((x @ self.w_1 + self.b_1).relu()) @ self.w_2 + self.b_2"),
    ),
    "convolutions of width 1": (
        (W_1, "nn.Conv1d(d_model, d_ff, 1)"),
        (W_2, "nn.Conv1d(d_ff, d_model, 1)"),
        ("self.w_2(self.dropout(self.w_1(x).relu()))",
         "self.w_2(self.dropout(self.w_1(x.mT).relu())).mT"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", [*FORMS, *HEADS])
def test_a_right_layer_with_other_parameters_is_told_what_to_use(form):
    name = "FeedForward" if form in FORMS else "MultiHeadAttention"
    if form in FORMS:
        answer = book(name, *FORMS[form])
    else:
        answer = define(OWN_HEADS.format(**HEADS[form]), "multi_head", name, f"<{form}>")
    report = examine(name, answer)
    assert not report.passed and report.mistake is None
    assert "the mathematics may be right" in report.hint.lower()
    assert ("use nn.Linear, or transpose" in report.hint) == form.startswith("matrices")


UNNAMED_LAYERS = {
    "FeedForward": ("self.linear2(self.dropout(features))", "self.linear2(features.sin())"),
    "MultiHeadAttention": ("(join_heads(heads)), weights", "(join_heads(heads).tanh()), weights"),
    "EncoderLayer": ("return self.add_norm2(x,", "return 2 * self.add_norm2(x,"),
}


@pytest.mark.parametrize("name", UNNAMED_LAYERS)
def test_a_wrong_layer_with_the_usual_parameters_is_not_told_so(name):
    for edit in (UNNAMED_LAYERS[name], *REFUSED.get(name, ())[:1]):
        report = examine(name, book(name, edit))
        assert not report.passed and "mathematics" not in report.hint
