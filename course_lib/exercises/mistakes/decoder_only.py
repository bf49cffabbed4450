"""What goes wrong in chapter 17."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes.random_windows import MISTAKES as WINDOWS

model = known("decoder_only", "DecoderOnly")

PAST = "past = causal_mask(ids.size(1), ids.device)"
SCALE = " * math.sqrt(self.config.d_model)"
PLACED = "self.positions(vectors)"
STACK = f"self.stack({PLACED}, past)"
OUT = f"return self.output({STACK})"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"
CHECK = 'check_ids(ids, self.config.tgt_vocab_size, self.config.max_len, "input")'
SQUARE = "torch.ones(ids.size(1), ids.size(1), dtype=torch.bool)"

MISTAKES = (
    *WINDOWS,
    model(
        "future_seen",
        "no causal mask is handed on: every row sees the token that it should predict",
        "keras-team/keras #23038; huggingface/transformers #48745",
        (STACK, f"self.stack({PLACED})"),
    ),
    model(
        "future_seen_in_eval",
        "the causal mask is used while training only",
        "facebookresearch/fairmotion #56 moves the mask under `if self.training`",
        (STACK, f"self.stack({PLACED}, past if self.training else None)"),
    ),
    model(
        "future_seen_in_training",
        "the causal mask is used while predicting only: in training each row sees its answer",
        "student code: a mask that was added for sampling",
        (STACK, f"self.stack({PLACED}, None if self.training else past)"),
    ),
    model(
        "sees_only_itself",
        "a row sees its own token and nothing else: of the triangle only the diagonal is left",
        "student code: tril and triu, one after the other",
        (PAST, f"{PAST}.triu()"),
    ),
    model(
        "causal_transposed",
        "the causal mask is transposed: a row sees itself and what comes later",
        "triu in place of tril, in student code",
        (PAST, f"{PAST}.T"),
    ),
    model(
        "causal_inverted",
        "the causal mask is turned round, as torch.nn wants it: True as blocked",
        "ports from nn.TransformerEncoder, whose True means blocked",
        (PAST, "past = ~causal_mask(ids.size(1), ids.device)"),
    ),
    model(
        "causal_one_ahead",
        "the causal mask is off by one: a row sees the next token, its own answer",
        "reported in RVC-Boss/GPT-SoVITS #965",
        (PAST, f"past = {SQUARE}.tril(1)"),
    ),
    model(
        "padding_hidden",
        "tokens equal to pad_id are hidden: here all ids are text, and there is no padding",
        "student code: a mask kept from the translator",
        (PAST, f"{PAST} & (ids != self.config.pad_id)[:, None, None]"),
    ),
    model(
        "padding_learns_nothing",
        "the embedding is told of a padding_idx, and that token's vector does not learn",
        "student code: an embedding kept from the translator",
        (
            "nn.Embedding(c.tgt_vocab_size, c.d_model)",
            "nn.Embedding(c.tgt_vocab_size, c.d_model, padding_idx=c.pad_id)",
        ),
    ),
    model(
        "positions_missing",
        "positions are never added: a layer reads the earlier tokens as a bag, without order",
        "Lightning-AI/pytorch-lightning #20099",
        (PLACED, "vectors"),
    ),
    model(
        "positions_before_scaling",
        "the positions are added before the multiplication by √d_model, and grow with the tokens",
        "student code: the two lines in the other order",
        (f"self.embedding(ids){SCALE}", f"self.positions(self.embedding(ids)){SCALE}"),
        (PLACED, "vectors"),
    ),
    model(
        "always_sines",
        "learned_positions is not looked at: positions are sines and cosines in any case",
        "student code: an argument that nobody reads",
        (
            "LearnedPositionalEmbedding if learned_positions else PositionalEncoding",
            "PositionalEncoding",
        ),
    ),
    model(
        "scale_missing",
        "the vectors are not multiplied by √d_model",
        "asked about again and again: pytorch/examples #854, OpenNMT/OpenNMT-py #1328",
        (SCALE, ""),
    ),
    model(
        "output_not_tied",
        "the output does not share the embedding's matrix; a copy of its numbers is not sharing",
        "karpathy/nanoGPT #21 ties them later",
        ("        self.output.weight = self.embedding.weight\n", ""),
    ),
    model(
        "output_bias",
        "the output adds a bias",
        "nn.Linear's default, in student code",
        (", bias=False", ""),
    ),
    model(
        "softmax_inside",
        "a softmax stands at the end of the model, and the loss will take a second one",
        "bkitano/llama-from-scratch #5",
        (OUT, f"{OUT}.softmax(dim=-1)"),
    ),
    model(
        "last_row_cut",
        "the last row of logits is cut off: the window is shifted already, and all rows count",
        "student code: logits[:, :-1], kept from another training loop",
        (OUT, f"{OUT}[:, :-1]"),
    ),
    model(
        "initialize_missing",
        "the matrices start as torch leaves them: tokens eight times too loud, at d_model = 64",
        "student code: the last line forgotten",
        ("\n        initialize(self)\n", "\n"),
    ),
    model(
        "encoders_depth",
        "the stack is as deep as the config's encoder: num_decoder_layers counts",
        "student code: an Encoder, so num_encoder_layers",
        ("c.num_decoder_layers", "c.num_encoder_layers"),
    ),
    model(
        "sources_vocabulary",
        "the vocabulary is the source's: of the two sides the target's counts",
        "student code: src_vocab_size stands first",
        ("tgt_vocab_size", "src_vocab_size"),
    ),
    model(
        "norm_first_lost",
        "norm_first and activation are not handed on to the stack",
        "student code: arguments with a default, not given",
        (SIZES, SIZES.replace(", c.norm_first, c.activation", "")),
    ),
    model(
        "head_widths_lost",
        "d_k and d_v are not handed on to the stack",
        "student code: arguments with a default, not given",
        (", d_k=c.d_k, d_v=c.d_v", ""),
    ),
    model(
        "norm_at_the_end_of_post_norm",
        "one more norm follows the stack: in post-norm the last sub-layer has normalized already",
        "torch.nn.Transformer has such a norm; pytorch/pytorch #50086",
        (
            "        initialize(self)\n",
            "        self.norm = nn.LayerNorm(c.d_model)\n        initialize(self)\n",
        ),
        (STACK, f"self.norm({STACK})"),
    ),
    model(
        "dropout_on_tokens_missing",
        "dropout does not reach the tokens with their positions",
        "student code: an argument with a default, not given",
        ("c.max_len, c.dropout)", "c.max_len)"),
    ),
    model(
        "dropout_in_the_stack_missing",
        "dropout does not reach the stack",
        "student code: an argument with a default, not given",
        ("c.d_ff, c.dropout,", "c.d_ff, 0.0,"),
    ),
    model(
        "ids_not_checked",
        "the ids are not checked: torch's own error comes, from further down, or none",
        "student code",
        (CHECK, "pass"),
    ),
)
