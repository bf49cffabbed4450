"""What goes wrong in chapter 03."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes import sinusoidal_encoding
from course_lib.exercises.mistakes.positional_encoding_layers import in_either

encoding = known("positions", "PositionalEncoding")
learned = known("positions", "LearnedPositionalEmbedding")

TABLE = "sinusoidal_encoding(max_len, d_model)"
BUFFER = f'self.register_buffer("encoding", {TABLE}, persistent=False)'
START = "torch.empty(max_len, d_model).normal_(std=0.02)"
PARAMETER = f"nn.Parameter({START})"


MISTAKES = (
    *sinusoidal_encoding.MISTAKES,
    *in_either(encoding, "self.encoding"),
    encoding(
        "not_a_buffer",
        "the table is a plain attribute: .to() and .double() leave it behind",
        "facebookresearch/fairseq pull request #5213, lyuwenyu/RT-DETR #677",
        (BUFFER, f"self.encoding = {TABLE}"),
    ),
    encoding(
        "table_is_learned",
        "the table is an nn.Parameter, so that training changes the waves",
        "henry9zhr/QANet-pytorch #3, weihaosky/mogents #11, MONAI pull request #7564",
        (BUFFER, f"self.encoding = nn.Parameter({TABLE})"),
    ),
    encoding(
        "table_is_frozen",
        "the table is an nn.Parameter without gradients: not learned, but saved and counted",
        "code that came before buffers; mindspore-lab/mindone pull request #439",
        (BUFFER, f"self.encoding = nn.Parameter({TABLE}, requires_grad=False)"),
    ),
    encoding(
        "table_is_saved",
        "the buffer is persistent: a saved file holds the table, and then fits one max_len only",
        "espnet/espnet pull request #1060, multidim-positional-encoding pull request #36",
        (", persistent=False", ""),
    ),
    encoding(
        "sizes_swapped",
        "max_len and d_model are swapped: the table's length comes first, unlike the layer's",
        "student code",
        (TABLE, "sinusoidal_encoding(d_model, max_len)"),
    ),
    encoding(
        "sizes_swapped_unguarded",
        "max_len and d_model are swapped: the table's length comes first, unlike the layer's",
        "student code",
        (TABLE, "sinusoidal_encoding(d_model, max_len)"),
        ("check_fits(x, *self.encoding.shape, start)", ""),
    ),
    *in_either(learned, "self.weight"),
    learned(
        "not_a_parameter",
        "the rows are a plain tensor: the optimizer does not see them, and they are not saved",
        "guillefix/transflower-lightning #6 (a layer called learned that is not)",
        (PARAMETER, START),
    ),
    learned(
        "rows_are_a_buffer",
        "the rows are a buffer: saved, but never learned",
        "student code",
        (
            f"self.weight = {PARAMETER}",
            f'self.register_buffer("weight", {START})',
        ),
    ),
    learned(
        "rows_are_frozen",
        "requires_grad=False: the rows are counted and saved, but never learned",
        "MSA-LMC/S2D #21, hancyran/LiDAR-Diffusion #25",
        (PARAMETER, f"nn.Parameter({START}, requires_grad=False)"),
    ),
    learned(
        "rows_are_detached",
        "the rows are added through .data or .detach(): no gradient comes back to them",
        "student code",
        ("x + self.weight[", "x + self.weight.detach()["),
    ),
    learned(
        "one_row_for_all",
        "there is one row for all places, so that order stays invisible",
        "student code",
        (START, START.replace("max_len", "1")),
        ("check_fits(x, *self.weight.shape, start)", ""),
        ("self.weight[start:end]", "self.weight"),
    ),
    learned(
        "sizes_swapped",
        "the rows have the shape (d_model, max_len) instead of (max_len, d_model)",
        "student code",
        (START, START.replace("max_len, d_model", "d_model, max_len")),
    ),
    learned(
        "never_filled",
        "torch.empty is never filled: the rows start as whatever the memory held, nan too",
        "junjiehe96/FastInst #57",
        (START, "torch.empty(max_len, d_model)"),
    ),
    learned(
        "rows_start_at_0",
        "the rows start at 0: a fresh layer cannot tell one place from another",
        "karpathy/minGPT pull request #62",
        (START, "torch.zeros(max_len, d_model)"),
    ),
    learned(
        "rows_start_alike",
        "the rows start all alike: a fresh layer cannot tell one place from another",
        "student code",
        (START, "torch.full((max_len, d_model), 0.02)"),
    ),
    learned(
        "rows_start_large",
        "the rows start as large as the words (torch.randn, and nn.Embedding, have spread 1)",
        "lucidrains/vit-pytorch #134, Advocate99/DiffGesture #13",
        (START, "torch.randn(max_len, d_model)"),
    ),
)
