"""Wrong answers in a textbook's style fail, and the frequent mistakes are named."""

import inspect

import pytest
from textbooks import annotated, cells_of, nanogpt, pytorch_tutorial

from course_lib.exercises.bank import (
    decoder,
    decoding,
    gpt,
    positions,
    transformer,
)
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise
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


LOSS = "        loss.backward()\n"
SUBLAYER = "self.dropout(sublayer(x))"
PLACES = "self.dropout(x + self.encoding[start:end])"
SLIPS = (  # the exercise, the stage that must fail, and the edit
    ("MultiHeadAttention", "dropout", "p_attn = dropout(p_attn)",
     "return dropout(p_attn @ value), p_attn"),
    ("MultiHeadAttention", "dropout", "dropout(p_attn)",
     "p_attn * dropout(torch.ones(p_attn.size(-1)))"),
    ("AddNorm", "dropout", SUBLAYER, "nn.functional.dropout(sublayer(x), self.dropout.p / 2)"),
    ("AddNorm", "defaults", "dropout: float = 0.0", "dropout: float = 0.1"),
    ("PositionalEncoding", "dropout", PLACES,
     "self.dropout(x) + self.dropout(self.encoding[start:end])"),
    ("FeedForward", "dropout", "self.dropout(self.w_1(x).relu())",
     "(y := self.w_1(x).relu()) * self.dropout(torch.ones_like(y[..., :1]))"),
    ("EncoderLayer", "inner dropouts", "dropout=attention_dropout\n",
     "dropout=attention_dropout ** 2\n"),
    ("DecoderLayer", "inner dropouts", decoder.CROSS_ATTN,
     "self.cross_attn = MultiHeadAttention(d_model, num_heads, d_k=d_k, d_v=d_v)"),
    ("CausalSelfAttention", "dropout", gpt.LOOK,
     f"F.dropout({gpt.LOOK.replace('dropout_p=dropout_p, ', '')}, dropout_p)"),
    ("adam_update", "defaults", "eps: float = 1e-9", "eps: float = 1e-8"),
    ("LayerNorm", "large mean", "centered.square().mean(dim=-1, keepdim=True)",
     "(x ** 2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2"),
    ("sinusoidal_encoding", "formula", "/ d_model)", "/ math.sqrt(4 * d_model))"),
    ("random_windows", "start", "(batch_size,))", "(batch_size,)).sort()[0]"),
    ("training_step", "clip_norm", LOSS,
     f"{LOSS}        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)\n"),
    ("training_step", "one step", "optimizer.zero_grad()", "optimizer.zero_grad(); model.eval()"),
    ("apply_rope", "half precision", ".to(x.dtype)", ""),
    ("greedy_decode", "work", decoding.READ, decoding.AGAIN),
    ("sample_tokens", "top_p", decoding.KEPT, f"({decoding.KEPT})[:1]"),
    ("mask_tokens", "choice", "chosen = (torch.rand(ids.shape,",
     "chosen = (torch.rand(ids.shape[1:],"),  # the same for every sentence
    # `reorder` writes into a tensor of an earlier step
    ("DecodingEngine", "reorder", "@torch.no_grad()\n    def step",
     "@torch.inference_mode()\n    def step"),
    ("batch_by_tokens", "input checks", "raise ValueError(", "raise RuntimeError("),
    ("GPT", "logits", "self.output(self.norm(x))", "self.output(self.norm(x)).squeeze()"),
    ("label_smoothed_cross_entropy", "only padding", ".clamp(min=1)", ""),
)  # fmt: skip


@pytest.mark.parametrize("name, stage, old, new", SLIPS)
def test_a_planted_mistake_fails_the_stage_that_checks_it(name, stage, old, new):
    stages = {found.name: found for found in examine(name, book(name, (old, new))).stages}
    assert not stages[stage].held and stages[stage].wrong


def test_a_search_that_never_ends_and_an_option_that_is_missing_are_told_apart():
    endless = book(
        "batch_by_tokens",
        ("if sum(lengths[pair]) > tokens", "while sum(lengths[pair]) > tokens"),
        ("raise ValueError(", "str("),
    )
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
JOINED = "x.transpose(1, 2).contiguous()"
NAMED = (  # the short name of a mistake, and how the reader of a textbook makes it
    ("scale_d_k", A, (SCALE, "/ d_k")),
    ("mask_added", A, (MASKED, "scores += mask.float()")),
    ("scale_num_heads", M, ("math.sqrt(d_k)", "math.sqrt(query.size(1))")),
    ("heads_joined_number_by_number", M, (JOINED, "x.permute(0, 2, 3, 1).contiguous()")),
    ("mask_ignored", M, ("mask=mask", "mask=None")),  # without need_weights
    ("dropout_ignored", E, ("self.dropout1(", "("), ("self.dropout2(", "(")),  # no norm_first
    ("residual_inside", M, ("nbatches = ", "old, nbatches = query, "), (OUT, f"old + {OUT}")),
    ("gain_around_zero", "RMSNorm", ("ones(", "zeros("), ("self.scale\n", "(1 + self.scale)\n")),
    ("residual_missing_feed_forward", E, ("self.norm2(x + ", "self.norm2(")),
    ("attention_dropped", E, ("self.norm2(x + self._ff_block(x))", SKIPPED)),
    ("cross_attention_of_input", D, ("self.cross_attn(a", "self.cross_attn(x")),
    ("feed_forward_reads_first_sum", D, ("self.feed_forward(b)", "self.feed_forward(a)")),
    ("norm_used_twice", E, ("self.norm2(x + ", "self.norm1(x + ")),
    ("add_norm_missing_attention", E, ("self.norm1(x + self._sa_block(x, src_mask))", SA_BLOCK)),
    ("norm_missing_feed_forward", E, ("self.norm2(x + self._ff_block(x))", f"x + {FF_BLOCK}")),
    ("added_inside_attention", E, ("self.norm1(x + ", "self.norm1(x + x + ")),
    ("always_pre_norm", "AddNorm", (", norm_first=True", ""), ("= norm_first", "= True")),
    ("orders_exchanged", "AddNorm", ("if self.first:", "if not self.first:")),
    ("always_normed_twice", "AddNorm", ("if self.first:", BOTH_NORMS)),
    ("options_ignored", S, (FROM_LOGITS, UNCHANGED)),
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


REFUSED = {  # core trials must reject these
    "scaled_dot_product_attention": (
        ("-1e9", "-100"),
        (f"{MASKED}\n    p_attn = F.softmax(scores, dim=-1)",
         "mask = torch.ones(()) if mask is None else mask\n"
         "    p_attn = F.normalize(scores.exp() * mask, 1, -1)"),
    ),
    "MultiHeadAttention": (
        ("scores.masked_fill(mask == 0, -1e9)", "scores - 30.0 * ~mask"),
        ("nbatches = ", "mask = None if self.training else mask\n        nbatches = "),
    ),
    "CausalSelfAttention": (
        (gpt.LOOK, f"F.dropout(F.normalize({gpt.SCORES}.exp().tril(), 1, -1), dropout_p) @ v"),
    ),
    "EncoderLayer": (("y, y, mask)", "y, y, None if self.training else mask)"),),
    "DecoderLayer": (
        ("memory, memory, cross_mask)", "memory, memory, None if self.training else cross_mask)"),
    ),
    "Transformer": (
        (transformer.CROSS, f"{transformer.CROSS} if not self.training else None"),
    ),
    "DecoderOnly": (
        ("vectors), past)", "vectors), None if self.training else past)"),
        ("Encoder(c.num_decoder_layers", "Encoder(c.num_encoder_layers"),
    ),
    "apply_merges": (("ranks[pair])", "-len(pair[0] + pair[1]))"),),
    "merge_pair": (
        ("tokens[position : position + 2] == pair",
         'b"".join(tokens[position : position + 2]) == pair[0] + pair[1]'),
    ),
    "AttentionCache": (
        ("self.length = length\n", "self.length -= length\n"),
        ("keys.new_empty(", "torch.empty("),
    ),
    "LayerNorm": (
        ("return normed.to(dtype)", "return normed.double()"),
        ("torch.ones(d_model)", "torch.ones(d_model), requires_grad=False"),
    ),
    "mask_tokens": (("< 0.15", "< 0.17"),),
    "sample_tokens": (  # the same draw for two sentences
        ("torch.multinomial(probs, 1, generator=generator).squeeze(1)",
         "(torch.rand(len(probs) // 2, 1, generator=generator).repeat_interleave(2, 0) > "
         "probs.cumsum(-1)).sum(-1)"),
    ),
}  # fmt: skip
RIGHT = {  # the same edits with the right value
    "scaled_dot_product_attention": (("-1e9", "torch.finfo(scores.dtype).min"),),
    "CausalSelfAttention": (
        ("parts = self.w_qkv(x)",  # with the helper of chapter 02
         "return tuple(split_heads(y, self.num_heads) for y in self.w_qkv(x).chunk(3, dim=-1))\n"
         "        parts = self.w_qkv(x)"),
    ),
    "PositionalEncoding": (
        (positions.BUFFER,
         f"self.encoding = nn.Parameter({positions.TABLE}, requires_grad=False)"),
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
FORMS = {
    "matrices of shape (in, out)": (
        "FeedForward",
        (W_1, "nn.Parameter(torch.randn(d_model, d_ff))\n"
         "        self.b_1 = nn.Parameter(torch.zeros(d_ff))"),
        (W_2, "nn.Parameter(torch.randn(d_ff, d_model))\n"
         "        self.b_2 = nn.Parameter(torch.zeros(d_model))"),
        ("self.w_2(self.dropout(self.w_1(x).relu()))",
         "self.dropout((x @ self.w_1 + self.b_1).relu()) @ self.w_2 + self.b_2"),
    ),
    "a joined projection": (
        "MultiHeadAttention",
        ("self.linears = clones(nn.Linear(d_model, d_model), 4)",
         "self.joined = nn.Linear(d_model, 3 * d_model)\n"
         "        self.linears = clones(nn.Linear(d_model, d_model), 1)"),
        ("lin(x).view", "self.joined(x).chunk(3, dim=-1)[n].view"),
        ("for lin, x in zip(self.linears, (query, key, value), strict=False)",
         "for n, x in enumerate((query, key, value))"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_right_layer_with_other_parameters_is_told_what_to_use(form):
    name, *edits = FORMS[form]
    report = examine(name, book(name, *edits))
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
