"""What goes wrong in GPT's layer."""

from course_lib.exercises.mistake_catalogue import known

layer = known("gpt", "GPTLayer")

NORMS = "dropout, norm_first=True, bias=bias)"
NORM2 = "self.add_norm2 = AddNorm(d_model, dropout, norm_first=True, bias=bias)"
THINK = 'FeedForward(d_model, 4 * d_model, activation="gelu", bias=bias)'
RUN = "return self.add_norm2(self.add_norm1(x, attend), self.feed_forward)"

MISTAKES = (
    layer(
        "post_norm",
        "the sums are normalized, as in the paper: GPT-2 normalizes what a sub-layer reads",
        "karpathy/minGPT #52, karpathy/nanoGPT #278",
        (NORMS, "dropout)"),
    ),
    layer(
        "second_norm_post",
        "only the first AddNorm is norm first; the second normalizes the sum",
        "student code: an argument with a default, given once",
        (NORM2, "self.add_norm2 = AddNorm(d_model, dropout)"),
    ),
    layer(
        "relu",
        "the features go through ReLU: GPT has GELU",
        "PaddlePaddle/PaddleNLP #1048, OpenNMT/OpenNMT-py #1971",
        (', activation="gelu"', ""),
    ),
    layer(
        "widened_by_two",
        "the feed-forward widens by 2: GPT's widens by 4",
        "student code",
        ("4 * d_model", "2 * d_model"),
    ),
    layer(
        "not_widened",
        "the feed-forward is as wide as the model: it widens by 4",
        "student code: nn.Linear(d_model, d_model), twice",
        ("4 * d_model", "d_model"),
    ),
    layer(
        "side_by_side",
        "both sub-layers read x: the second should read what the first has made of it",
        "GPT-J is built so: huggingface/transformers #18695; shown in karpathy/nanoGPT #278",
        (
            RUN,
            "return self.add_norm1(x, self.self_attn) + self.add_norm2(x, self.feed_forward) - x",
        ),
    ),
    layer(
        "feed_forward_first",
        "the feed-forward part comes before attention",
        "allenai/allennlp #3334",
        (RUN, "return self.add_norm2(self.add_norm1(x, self.feed_forward), self.self_attn)"),
    ),
    layer(
        "feed_forward_skipped",
        "the layer ends after attention: nothing calls the feed-forward part",
        "student code",
        (RUN, "return self.add_norm1(x, self.self_attn)"),
    ),
    layer(
        "norms_exchanged",
        "add_norm2 wraps attention and add_norm1 the feed-forward part",
        "student code",
        (RUN, "return self.add_norm1(self.add_norm2(x, self.self_attn), self.feed_forward)"),
    ),
    layer(
        "norm_shared",
        "add_norm2 is add_norm1: both sub-layers share one norm",
        "bentrevett/pytorch-seq2seq #100",
        (NORM2, "self.add_norm2 = self.add_norm1"),
    ),
    layer(
        "attention_reads_no_norm",
        "attention reads x itself: the lambda should use what AddNorm hands it",
        "student code; chapter 07 has it among its exercises",
        ("(x, attend)", "(x, lambda _: self.self_attn(x))"),
    ),
    layer(
        "dropout_inside_the_features",
        "the features are dropped as well: inside the feed-forward GPT-2 drops nothing",
        "ports from nn.TransformerEncoderLayer, which has a dropout there",
        (THINK, THINK.replace("4 * d_model", "4 * d_model, dropout")),
    ),
    layer(
        "dropout_of_weights_missing",
        "dropout does not reach the attention",
        "student code: an argument with a default, not given",
        ("num_heads, dropout, bias", "num_heads, bias"),
    ),
    layer(
        "dropout_of_answers_missing",
        "dropout does not reach the AddNorms",
        "student code: an argument with a default, not given",
        (NORMS, "norm_first=True, bias=bias)"),
    ),
)
