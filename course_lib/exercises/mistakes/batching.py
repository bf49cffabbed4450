"""What goes wrong in chapter 17."""

from course_lib.exercises.mistake_catalogue import known

cut = known("batching", "batch_by_tokens")


ORDER = "sorted(range(len(lengths)), key=lambda i: sorted(lengths[i], reverse=True))"
KEY = "sorted(lengths[i], reverse=True)"
POSITIONS = "(len(batch) + 1) * sum(grown)"
FIRST_OF_A_BATCH = "batch = []\n            grown = lengths[pair]"
END = "return [*batches, batch] if batch else batches"


MISTAKES = (
    cut(
        "padding_not_counted",
        "tokens are counted without padding: a batch costs B · (S + T) positions",
        "OpenNMT/CTranslate2 #939, meta-pytorch/data #788",
        (POSITIONS, "sum(sum(lengths[i]) for i in [*batch, pair])"),
    ),
    cut(
        "last_batch_lost",
        "the last batch is lost: it is still being filled when the pairs end",
        "a review in huggingface/trl #6092",
        (END, "return batches"),
    ),
    cut(
        "one_pair_too_many",
        "the bound is checked before the new pair is counted: a batch may be one pair too large",
        "NVIDIA-NeMo/Speech #5907",
        (POSITIONS, "len(batch) * sum(grown)"),
    ),
    cut(
        "widths_before_the_pair",
        "the widths from before the new pair are used, and it may be longer than all others",
        "lhotse-speech/lhotse #1590",
        (POSITIONS, "(len(batch) + 1) * sum(widest)"),
    ),
    cut(
        "first_pair_forgotten",
        "a new batch begins with widths of 0, though it holds the pair that did not fit before",
        "spring-projects/spring-ai #5528",
        (FIRST_OF_A_BATCH, "batch, grown = [], (0, 0)"),
    ),
    cut(
        "widths_not_reset",
        "a new batch keeps the widths of the one before",
        "the Annotated Transformer's batch_size_fn keeps a global max_src_in_batch",
        (FIRST_OF_A_BATCH, "batch = []"),
    ),
    cut(
        "not_sorted",
        "the pairs are taken in the order in which they come: long and short share a batch",
        "inclusionAI/AReno #204",
        (ORDER, "range(len(lengths))"),
    ),
    cut(
        "sorted_by_source",
        "the pairs are sorted by the source, and the targets of a batch are of all lengths",
        "OpenNMT/OpenNMT-py #590, facebookresearch/fairseq #3012",
        (KEY, "lengths[i]"),
    ),
    cut(
        "sorted_by_the_sum",
        "the pairs are sorted by S + T: (2, 9) stands beside (9, 2), and both are padded",
        "Helsinki-NLP/mammoth #12",
        (KEY, "sum(lengths[i])"),
    ),
    cut(
        "pairs_counted",
        "`tokens` is taken for a number of pairs",
        "facebookresearch/fairseq #37 asks which of the two it is",
        (POSITIONS, "len(batch) + 1"),
    ),
    cut(
        "longer_side_only",
        "the longer side is counted, not both: B · max(S, T)",
        "fairseq's num_tokens; OpenNMT-py's max of source and target",
        (POSITIONS, "(len(batch) + 1) * max(grown)"),
    ),
)
