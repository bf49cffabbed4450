"""What goes wrong when chapter 07's layer hands its arguments to its parts."""

from course_lib.exercises.mistake_catalogue import known

layer = known("encoder", "EncoderLayer")

HEADS = "dict(d_k=d_k, d_v=d_v, dropout=attention_dropout)"
THINKER = "FeedForward(d_model, d_ff, activation_dropout, activation)"
NORM = "AddNorm(d_model, dropout, norm_first)"
NORM2 = f"self.add_norm2 = {NORM}"

MISTAKES = (
    layer(
        "norm_first_not_handed_on",
        "the AddNorms do not get norm_first, and stay post-norm",
        "student code",
        (NORM, "AddNorm(d_model, dropout)"),
    ),
    layer(
        "norm_first_once",
        "only one of the two AddNorms gets norm_first",
        "student code",
        (NORM2, "self.add_norm2 = AddNorm(d_model, dropout)"),
    ),
    layer(
        "activation_not_handed_on",
        "the feed-forward part does not get the activation, and stays with ReLU",
        "bytedance/lightseq #231",
        (THINKER, "FeedForward(d_model, d_ff, activation_dropout)"),
    ),
    layer(
        "widths_not_handed_on",
        "attention does not get d_k and d_v",
        "student code",
        (HEADS, "dict(dropout=attention_dropout)"),
    ),
    layer(
        "dropout_not_handed_on",
        "the AddNorms do not get dropout",
        "layer6ai-labs/TabDPT-inference #4",
        (NORM, "AddNorm(d_model, norm_first=norm_first)"),
    ),
    layer(
        "dropout_on_weights",
        "dropout acts on the attention weights, too; that is what attention_dropout is for",
        "OpenNMT/OpenNMT-py #1512; jadore801120/attention-is-all-you-need-pytorch #72",
        ("dropout=attention_dropout", "dropout=dropout"),
    ),
    layer(
        "dropout_on_features",
        "dropout acts inside the feed-forward part, too; that is what activation_dropout is for",
        "torch.nn's layer and The Annotated Transformer do so",
        (THINKER, "FeedForward(d_model, d_ff, dropout, activation)"),
    ),
    layer(
        "dropout_as_in_torch",
        "dropout acts in all three places as in torch.nn; here each place has its own share",
        "torch.nn.TransformerEncoderLayer does so",
        ("dropout=attention_dropout", "dropout=dropout"),
        (THINKER, "FeedForward(d_model, d_ff, dropout, activation)"),
    ),
    layer(
        "attention_dropout_not_handed_on",
        "attention does not get attention_dropout",
        "zhouhaoyi/Informer2020 #97 (a dropout that is made and never used)",
        (HEADS, "dict(d_k=d_k, d_v=d_v)"),
    ),
    layer(
        "activation_dropout_not_handed_on",
        "the feed-forward part does not get activation_dropout",
        "student code",
        (THINKER, "FeedForward(d_model, d_ff, activation=activation)"),
    ),
    layer(
        "attention_dropout_on_answers",
        "attention_dropout is used where dropout belongs: on the sub-layers' answers",
        "settings of one name mixed up, as in OpenNMT/OpenNMT-py #1830",
        (NORM, "AddNorm(d_model, attention_dropout, norm_first)"),
    ),
)
