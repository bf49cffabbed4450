"""What goes wrong in chapter 07."""

from course_lib.exercises.mistake_catalogue import ignored, known

layer = known("encoder", "EncoderLayer")
stack = known("encoder", "Encoder")

NORM = "AddNorm(d_model, dropout, norm_first)"
NORM2 = f"self.add_norm2 = {NORM}"
HEADS = "dict(d_k=d_k, d_v=d_v, dropout=attention_dropout)"
THINKER = "FeedForward(d_model, d_ff, activation_dropout, activation)"
ATTEND = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, mask)[0])"
THINK = "return self.add_norm2(x, self.feed_forward)"
LOOK = "self.self_attn(y, y, y, mask)[0]"

WITHOUT_SUM = """def alone(part, x, sublayer):
            read = part.norm(x) if part.norm_first else x
            answer = part.dropout(sublayer(read))
            return answer if part.norm_first else part.norm(answer)
"""

LAYER = "EncoderLayer(*sizes, d_k=d_k, d_v=d_v, **rates)"
LAYERS = f"[{LAYER} for _ in range(num_layers)]"
LAST_NORM = "nn.LayerNorm(d_model) if norm_first else None"
LOOP = "for layer in self.layers:\n            x = layer(x, mask)"
END = "return x if self.norm is None else self.norm(x)"

MISTAKES = (
    layer(
        "residual_missing",
        "no sub-layer's input is added to its answer: the residual paths are missing",
        "suspected in tensorflow/models #7533",
        (ATTEND, f"{WITHOUT_SUM}\n        x = alone(self.add_norm1, x, lambda y: {LOOK})"),
        (THINK, "return alone(self.add_norm2, x, self.feed_forward)"),
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
        "one_norm",
        "there is one norm for both sub-layers: each needs a gain and a shift of its own",
        "bentrevett/pytorch-seq2seq #100; lsdefine/attention-is-all-you-need-keras #33",
        (NORM2, ""),
        (THINK, THINK.replace("add_norm2", "add_norm1")),
    ),
    layer(
        "always_pre_norm",
        "the norm comes before each sub-layer, though the paper's order is asked for",
        "The Annotated Transformer, and GPT-2 after it",
        (NORM, "AddNorm(d_model, dropout, True)"),
    ),
    layer(
        "feed_forward_first",
        "the feed-forward part comes before attention",
        "allenai/allennlp #3334",
        (ATTEND, "x = self.add_norm1(x, self.feed_forward)"),
        (THINK, f"return self.add_norm2(x, lambda y: {LOOK})"),
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
        "keys_not_normalized",
        "in pre-norm only the queries are normalized: keys and values are the x outside the lambda",
        "facebookresearch/xformers #233; tier4/Diffusion-Planner #239",
        (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(z, x, x, mask)[0])"),
    ),
    layer(
        "lambda_ignores_its_argument",
        "the lambda uses the x outside, not what AddNorm hands it: pre-norm reads no norm",
        "a closure over the wrong x; chapter 07 has it among its exercises",
        (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(x, x, x, mask)[0])"),
    ),
    layer(
        "attention_over_the_batch",
        "attention compares sentences instead of words: the first two axes are swapped",
        "IBM/TabFormer #14; Exorust/TorchLeet #5 (batch_first left at False)",
        (LOOK, "self.self_attn(*3 * [y.transpose(0, 1)], mask)[0].transpose(0, 1)"),
    ),
    layer(
        "dropout_as_in_torch",
        "dropout acts in all three places as in torch.nn; here each place has its own share",
        "torch.nn.TransformerEncoderLayer does so",
        ("dropout=attention_dropout", "dropout=dropout"),
        (THINKER, "FeedForward(d_model, d_ff, dropout, activation)"),
    ),
    *ignored(
        layer,
        ("norm_first", (NORM, "AddNorm(d_model, dropout)")),
        ("activation", (THINKER, "FeedForward(d_model, d_ff, activation_dropout)")),
        ("d_k", (HEADS, "dict(d_v=d_v, dropout=attention_dropout)")),
        ("dropout", (NORM, "AddNorm(d_model, norm_first=norm_first)")),
        ("attention_dropout", (HEADS, "dict(d_k=d_k, d_v=d_v)")),
        ("activation_dropout", (THINKER, "FeedForward(d_model, d_ff, activation=activation)")),
    ),
    stack(
        "plain_list",
        "the layers stand in a plain Python list: torch does not see them, and they never learn",
        "LiamMaclean216/Pytorch-Transfomer #7; many questions on nn.ModuleList",
        ("nn.ModuleList(layers)", "layers"),
    ),
    stack(
        "one_layer_repeated",
        "one and the same layer stands in the list num_layers times: all share their weights",
        "espnet/espnet #1278; IDEA-Research/DAB-DETR #17; acids-ircam/ddsp_pytorch #37",
        (LAYERS, f"[{LAYER}] * num_layers"),
    ),
    stack(
        "layers_copied",
        "all layers are copies of one: they have weights of their own, that start alike",
        "clones(layer, N) without drawing the weights anew",
        (
            f"layers = {LAYERS}",
            f"import copy\n        one = {LAYER}\n"
            "        layers = [copy.deepcopy(one) for _ in range(num_layers)]",
        ),
    ),
    stack(
        "every_layer_reads_the_input",
        "every layer reads the stack's input: only the last layer has a say",
        "Atcold/NYU-DLSP20 #270; simon-ging/coot-videotext #5",
        (LOOP, "given = x\n        for layer in self.layers:\n            x = layer(given, mask)"),
    ),
    stack(
        "first_layer_only",
        "only the first layer runs: a return inside the loop ends it",
        "microsoft/ProDA #33",
        (LOOP, f"{LOOP}\n            {END}"),
    ),
    stack(
        "result_dropped",
        "layer(…) is called and its result not kept: x stays as it came",
        "a call without `x =`; linters do not see it",
        ("x = layer(x, mask)", "layer(x, mask)"),
    ),
    stack(
        "mask_not_handed_on",
        "the layers do not get the mask",
        "imperial-qore/TranAD #10; facebookresearch/fairseq #1339",
        ("layer(x, mask)", "layer(x)"),
    ),
    stack(
        "mask_for_first_layer_only",
        "only the first layer gets the mask; the others read the padding",
        "keras-team/keras-hub #137",
        (LOOP, f"{LOOP}\n            mask = None"),
    ),
    stack(
        "last_norm_missing",
        "a pre-norm stack ends without a norm of its own",
        "NVIDIA-NeMo/Speech #2197; marian-nmt/marian-dev #719",
        (LAST_NORM, "None"),
    ),
    stack(
        "last_norm_in_post_norm",
        "a post-norm stack ends with one more norm, though its last layer ends with one already",
        "pytorch/pytorch #50086; Atten4Vis/ConditionalDETR #11",
        (LAST_NORM, "nn.LayerNorm(d_model)"),
    ),
    stack(
        "options_not_passed",
        "d_k, d_v and the two further dropouts do not reach the layers",
        "keyword arguments added to a signature later than the call",
        (LAYER, "EncoderLayer(*sizes)"),
    ),
)
