"""What goes wrong in chapter 05."""

from course_lib.exercises.mistake_catalogue import ignored, known

layer = known("feed_forward", "FeedForward")

FIRST = "self.linear1 = nn.Linear(d_model, d_ff, bias)"
SECOND = "self.linear2 = nn.Linear(d_ff, d_model, bias)"
FEATURES = "self.activation(self.linear1(x))"
BACK = "self.linear2(self.dropout(features))"

MISTAKES = (
    layer(
        "relu_missing",
        "no activation stands between the layers: two linear layers in a row are one",
        "YujiaBao/ls #1; asked in d2l-ai/d2l-en #1564",
        (FEATURES, "self.linear1(x)"),
    ),
    layer(
        "activation_last",
        "the activation comes after linear2 instead of between the layers",
        "goruck/nilm #1, a feed-forward layer after the paper",
        (FEATURES, "self.linear1(x)"),
        (BACK, "self.activation(self.linear2(self.dropout(features)))"),
    ),
    layer(
        "activation_twice",
        "linear2 has an activation after it, too: no answer can be negative then",
        "namedtensor/notation #72 (a feed-forward layer that ends with a ReLU)",
        (BACK, "self.activation(self.linear2(self.dropout(features)))"),
    ),
    layer(
        "activation_ignored",
        "the activation is always ReLU, whatever is asked for",
        "NVlabs/Forecasting-Model-Search #6; bytedance/lightseq #231",
        ("ACTIVATIONS[activation]()", "nn.ReLU()"),
    ),
    layer(
        "gelu_always",
        "the activation is GELU; the paper's, and the default, is ReLU",
        "GPT-2, nanoGPT and BERT have it",
        ("ACTIVATIONS[activation]()", "nn.GELU()"),
    ),
    layer(
        "gelu_by_tanh",
        "GELU is the approximation by tanh instead of the exact one",
        "kyutai-labs/pocket-tts #278, chelsea0x3b/dfdx #804",
        (
            "ACTIVATIONS[activation]()",
            'ACTIVATIONS[activation](*["tanh"] * (activation == "gelu"))',
        ),
    ),
    layer(
        "dropout_always_on",
        "F.dropout is not told the mode, and goes on dropping in eval mode",
        "pytorch/pytorch #26338; rixwew/pytorch-fm #21",
        (BACK, "self.linear2(nn.functional.dropout(features, self.dropout.p))"),
    ),
    layer(
        "dropout_on_output",
        "dropout acts on what linear2 says instead of on the features",
        "BERT does so on purpose; lucidrains/perceiver-pytorch #57 discusses the place",
        (BACK, "self.dropout(self.linear2(features))"),
    ),
    layer(
        "both_layers_d_model_wide",
        "both layers are d_model wide, and d_ff is not used",
        "brightmart/text_classification #86",
        (FIRST, "self.linear1 = nn.Linear(d_model, d_model)"),
        (SECOND, "self.linear2 = nn.Linear(d_model, d_model)"),
    ),
    layer(
        "d_ff_fixed",
        "d_ff is a fixed 4 · d_model, whatever is asked for",
        "HorizonRobotics/alf #1299; nanoGPT, which has no d_ff",
        (FIRST, "self.linear1 = nn.Linear(d_model, 4 * d_model)"),
        (SECOND, "self.linear2 = nn.Linear(4 * d_model, d_model)"),
    ),
    layer(
        "features_centred_over_tokens",
        "the features are centred over the tokens: each answer depends on the other tokens",
        "normalization over the wrong axis, as BatchNorm on sentences does",
        (FEATURES, "(f := self.linear1(x)).relu() - f.relu().mean(dim=-2, keepdim=True)"),
    ),
    layer(
        "bias_missing",
        "the layers have no bias; equation (2) adds b₁ and b₂",
        "ports of Llama-style models",
        (FIRST, "self.linear1 = nn.Linear(d_model, d_ff, bias=False)"),
        (SECOND, "self.linear2 = nn.Linear(d_ff, d_model, bias=False)"),
    ),
    layer(
        "residual_inside",
        "the input is added here already; that is AddNorm's task",
        "NVlabs/Forecasting-Model-Search #6 shows one; nlpyang/hiersumm #28 asks about two",
        (BACK, "x + self.linear2(self.dropout(features))"),
    ),
    *ignored(layer, ("dropout", (BACK, "self.linear2(features)"))),
)
