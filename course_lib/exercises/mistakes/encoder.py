"""What goes wrong in chapter 07."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes import encoder_layer, encoder_layer_arguments

stack = known("encoder", "Encoder")

LAYER = "EncoderLayer(*sizes, d_k=d_k, d_v=d_v, **rates)"
LAYERS = f"[{LAYER} for _ in range(num_layers)]"
NORM = "nn.LayerNorm(d_model) if norm_first else None"
LOOP = "for layer in self.layers:\n            x = layer(x, mask)"
END = "return x if self.norm is None else self.norm(x)"

MISTAKES = (
    *encoder_layer.MISTAKES,
    *encoder_layer_arguments.MISTAKES,
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
        "layers_unused",
        "the layers are never called",
        "student code",
        (LOOP, ""),
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
        (NORM, "None"),
    ),
    stack(
        "last_norm_unused",
        "the last norm is made and never applied",
        "student code; lucidrains/x-transformers #202 (a setting that is never read)",
        (END, "return x"),
    ),
    stack(
        "last_norm_in_post_norm",
        "a post-norm stack ends with one more norm, though its last layer ends with one already",
        "pytorch/pytorch #50086; Atten4Vis/ConditionalDETR #11",
        (NORM, "nn.LayerNorm(d_model)"),
    ),
    stack(
        "last_norm_after_every_layer",
        "the last norm is applied after every layer",
        "student code",
        (LOOP, f"{LOOP}\n            x = x if self.norm is None else self.norm(x)"),
        (END, "return x"),
    ),
    stack(
        "options_not_passed",
        "d_k, d_v and the two further dropouts do not reach the layers",
        "student code",
        (LAYER, "EncoderLayer(*sizes)"),
    ),
    stack(
        "defaults_in_place_of_arguments",
        "dropout, norm_first and activation do not reach the layers, which take their defaults",
        "student code",
        (LAYER, LAYER.replace("*sizes", "*sizes[:3]")),
    ),
    stack(
        "always_six_layers",
        "there are always six layers, whatever num_layers says",
        "code that takes N = 6 from the paper",
        ("range(num_layers)", "range(6)"),
    ),
    stack(
        "one_layer_too_few",
        "there is one layer too few: range(1, num_layers) counts to num_layers - 1",
        "student code",
        ("range(num_layers)", "range(1, num_layers)"),
    ),
)
