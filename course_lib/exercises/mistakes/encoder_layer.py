"""What goes wrong in chapter 07's layer."""

from course_lib.exercises.mistake_catalogue import known

layer = known("encoder", "EncoderLayer")

NORM2 = "self.add_norm2 = AddNorm(d_model, dropout, norm_first)"
ATTEND = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, mask)[0])"
THINK = "return self.add_norm2(x, self.feed_forward)"
LOOK = "self.self_attn(y, y, y, mask)[0]"

WITHOUT_SUM = """def alone(part, x, sublayer):
            read = part.norm(x) if part.norm_first else x
            answer = part.dropout(sublayer(read))
            return answer if part.norm_first else part.norm(answer)
"""

MISTAKES = (
    layer(
        "residual_missing",
        "no sub-layer's input is added to its answer: the residual paths are missing",
        "suspected in tensorflow/models #7533; student code",
        (ATTEND, f"{WITHOUT_SUM}\n        x = alone(self.add_norm1, x, lambda y: {LOOK})"),
        (THINK, "return alone(self.add_norm2, x, self.feed_forward)"),
    ),
    layer(
        "feed_forward_residual_missing",
        "what attention found is not added to the feed-forward answer",
        "raoyongming/GFNet #11 asks about a block with one residual path",
        (THINK, f"{WITHOUT_SUM}\n        return alone(self.add_norm2, x, self.feed_forward)"),
    ),
    layer(
        "residual_of_input",
        "the second sum adds the layer's input instead of what add_norm1 returned",
        "strutive07/transformer-tensorflow2.0 #14; JanSchm/CapMarket #8",
        (ATTEND, ATTEND.replace("x = ", "found = ", 1)),
        (THINK, "return self.add_norm2(x, lambda _: self.feed_forward(found))"),
    ),
    layer(
        "residual_twice",
        "x is added once more outside: AddNorm has added it already",
        "yunzeliu/MAP #3",
        (ATTEND, ATTEND.replace("x = ", "x = x + ", 1)),
        (THINK, THINK.replace("return ", "return x + ")),
    ),
    layer(
        "norm_shared",
        "add_norm2 is add_norm1: both sub-layers share one LayerNorm",
        "bentrevett/pytorch-seq2seq #100; lsdefine/attention-is-all-you-need-keras #33",
        (NORM2, "self.add_norm2 = self.add_norm1"),
    ),
    layer(
        "add_norm1_twice",
        "add_norm1 wraps both sub-layers, and add_norm2 is never called",
        "a slip of copying; the same in lsdefine/attention-is-all-you-need-keras #33",
        (THINK, THINK.replace("add_norm2", "add_norm1")),
    ),
    layer(
        "norms_swapped",
        "add_norm2 wraps attention and add_norm1 the feed-forward part",
        "student code",
        (ATTEND, ATTEND.replace("add_norm1", "add_norm2")),
        (THINK, THINK.replace("add_norm2", "add_norm1")),
    ),
    layer(
        "feed_forward_first",
        "the feed-forward part comes before attention",
        "allenai/allennlp #3334",
        (ATTEND, "x = self.add_norm1(x, self.feed_forward)"),
        (THINK, f"return self.add_norm2(x, lambda y: {LOOK})"),
    ),
    layer(
        "feed_forward_skipped",
        "the layer ends after attention: nothing calls the feed-forward part",
        "student code",
        (THINK, "return x"),
    ),
    layer(
        "attention_dropped",
        "attention is computed and then dropped: add_norm2 gets the layer's input again",
        "student code; linters call such a name unused",
        (ATTEND, ATTEND.replace("x = ", "found = ", 1)),
    ),
    layer(
        "mask_not_handed_on",
        "attention does not get the mask",
        "imperial-qore/TranAD #10; facebookresearch/fairseq #1339",
        ("(y, y, y, mask)", "(y, y, y)"),
    ),
    layer(
        "mask_inverted",
        "the mask is turned round on its way, as nn.MultiheadAttention would want it",
        "ports from nn.MultiheadAttention, whose True means blocked (pytorch/pytorch #170415)",
        ("(y, y, y, mask)", "(y, y, y, mask if mask is None else ~mask)"),
    ),
    layer(
        "causal_inside",
        "words cannot see what follows: an encoder has no causal mask",
        "ports from GPT, whose layers only look back",
        (
            "(y, y, y, mask)",
            "(y, y, y, (True if mask is None else mask) & y.new_ones(2 * y.shape[1:2]).bool()"
            ".tril())",
        ),
    ),
    layer(
        "keys_not_normalized",
        "in pre-norm only the queries are normalized: keys and values are the x outside the lambda",
        "facebookresearch/xformers #233; tier4/Diffusion-Planner #239",
        (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(z, x, x, mask)[0])"),
    ),
    layer(
        "lambda_ignores_its_argument",
        "the lambda uses the x outside, not what AddNorm hands it: pre-norm reads no norm",
        "student code; chapter 07 has it among its exercises",
        (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(x, x, x, mask)[0])"),
    ),
    layer(
        "read_normalized_again",
        "what a sub-layer reads is normalized once more: AddNorm does all the norms",
        "student code",
        (
            ATTEND,
            ATTEND.replace("(y, y, y, mask)", "(*3 * [self.add_norm1.norm(y)], mask)"),
        ),
        (THINK, "return self.add_norm2(x, lambda x: self.feed_forward(self.add_norm2.norm(x)))"),
    ),
    layer(
        "answer_normalized_again",
        "the layer's answer is normalized once more: AddNorm does all the norms",
        "pytorch/pytorch #50086 (the last norm of nn.Transformer comes twice)",
        (THINK, "return self.add_norm2.norm(self.add_norm2(x, self.feed_forward))"),
    ),
    layer(
        "attention_over_the_batch",
        "attention compares sentences instead of words: the first two axes are swapped",
        "IBM/TabFormer #14; Exorust/TorchLeet #5 (batch_first left at False)",
        (LOOK, "self.self_attn(*3 * [y.transpose(0, 1)], mask)[0].transpose(0, 1)"),
    ),
)
