"""What goes wrong in chapter 06."""

from course_lib.exercises.mistake_catalogue import known

padding = known("masks", "padding_mask")
causal = known("masks", "causal_mask")

KEYS = "(ids != pad_id)[:, None, None, :]"
LOWER = "torch.ones(length, length, dtype=torch.bool, device=device).tril()"

MISTAKES = (
    padding(
        "padding_inverted",
        "padding is True and words are False: True has to mean *may look*",
        "mix-ups of torch's two conventions, as in pytorch/pytorch #170415",
        (KEYS, "(ids == pad_id)[:, None, None, :]"),
    ),
    padding(
        "padding_on_queries",
        "the mask hides query rows, (B, 1, S, 1), instead of keys, (B, 1, 1, S)",
        "hyunwoongko/transformer #40",
        (KEYS, "(ids != pad_id)[:, None, :, None]"),
    ),
    padding(
        "padding_rows_and_columns",
        "padding is hidden in rows and columns: a padded query then has nothing to look at",
        "asked for in bentrevett/pytorch-seq2seq #119 and Biohub/esm #299",
        (KEYS, "(ids != pad_id)[:, None, :, None] & (ids != pad_id)[:, None, None, :]"),
    ),
    padding(
        "padding_one_axis_short",
        "there is one axis too few: in (B, 1, S) the sentences fall on the axis of the heads",
        "The Annotated Transformer, whose attention adds the axis of the heads itself",
        (KEYS, "(ids != pad_id)[:, None, :]"),
    ),
    padding(
        "padding_of_numbers",
        "the mask holds 1 and 0 instead of True and False: torch's kernel would add such numbers "
        "to the scores",
        "tokenizers, whose attention_mask is one of integers; vllm-project/speculators #691",
        (KEYS, "(ids != pad_id).long()[:, None, None, :]"),
    ),
    padding(
        "padding_is_zero",
        "the ids are compared with 0 instead of pad_id",
        "wzhouad/RE_improved_baseline #3; kpe/bert-for-tf2 #68",
        (KEYS, "(ids != 0)[:, None, None, :]"),
    ),
    padding(
        "padding_by_length",
        "the words are counted, and the first ones kept: padding in front is taken for words",
        "TransformerLensOrg/TransformerLens #390; NVIDIA-NeMo/Automodel #3704",
        (KEYS, "(torch.arange(ids.size(1)) < (ids != pad_id).sum(1, keepdim=True))[:, None, None]"),
    ),
    causal(
        "causal_sees_next",
        "the triangle reaches one too far (diagonal=1): every position sees the next one",
        "asked about in TransformerLensOrg/TransformerLens #284",
        (".tril()", ".tril(diagonal=1)"),
    ),
    causal(
        "causal_without_itself",
        "the diagonal is missing (diagonal=-1): no position sees itself, the first one nothing",
        "pbloem/former #10, a post whose first row became nan",
        (".tril()", ".tril(diagonal=-1)"),
    ),
    causal(
        "causal_transposed",
        "it is the upper triangle (triu): every position sees what comes after it",
        "pytorch/pytorch #29546; asked in karpathy/nanoGPT #170",
        (".tril()", ".triu()"),
    ),
    causal(
        "causal_inverted",
        "True stands for what is hidden: in this course True means *may look*",
        "rasbt/LLMs-from-scratch #1061; hkproj/pytorch-transformer #19",
        (".tril()", ".triu(diagonal=1)"),
    ),
    causal(
        "causal_of_numbers",
        "the mask holds 1.0 and 0.0 instead of True and False: torch's kernel would add such "
        "numbers to the scores",
        "code after nanoGPT, which compares its triangle with 0 later",
        (LOWER, "torch.ones(length, length, device=device).tril()"),
    ),
    causal(
        "causal_additive",
        "the mask holds 0 and -inf, to be added to the scores, instead of True and False",
        "nn.Transformer's own generate_square_subsequent_mask",
        (LOWER, 'torch.full((length, length), float("-inf"), device=device).triu(1)'),
    ),
    causal(
        "causal_leading_axes",
        "there are axes in front; the mask for all sentences and heads is (T, T)",
        "The Annotated Transformer makes (1, T, T), nanoGPT (1, 1, T, T)",
        (LOWER, f"{LOWER}[None]"),
    ),
    causal(
        "causal_device_ignored",
        "the mask is made on the default device instead of the one that is asked for",
        "mlverse/torch #1473; databrickslabs/dolly #180",
        (", device=device", ""),
    ),
)
