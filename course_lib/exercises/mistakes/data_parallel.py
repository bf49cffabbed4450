"""What goes wrong in chapter 22."""

from course_lib.exercises.mistake_catalogue import known

split = known("data_parallel", "split_batch")
scale = known("data_parallel", "token_loss_scale")

DEALT = "rows[rank::world_size]"
LISTED = f"list({DEALT})"
RETURN = f"return {LISTED}"
RANK = "not 0 <= rank < world_size"
CHECK = f"    if {RANK}:\n"
REFUSAL = (
    '        raise ValueError(f"{rank=} is none of the ranks 0 to {world_size - 1} of '
    '{world_size=}")\n'
)
FLOOR = "len(rows) // world_size"
CEIL = "-(-len(rows) // world_size)"

SCALE = "world_size * num_tokens / all_tokens"
PART = "not 0 <= num_tokens <= all_tokens"
REFUSED = "world_size < 1 or not 0 <= num_tokens <= all_tokens or all_tokens < 1"
FACTORS = "world_size * num_tokens"

MISTAKES = (
    split(
        "contiguous_parts",
        "each process gets neighbours: of a sorted batch, the last one gets all the long rows",
        "huggingface/datasets #4570 and NVIDIA/OpenSeq2Seq #107: one way taken for the other",
        (DEALT, "rows[rank * len(rows) // world_size : (rank + 1) * len(rows) // world_size]"),
    ),
    split(
        "remainder_cut_off",
        "contiguous parts are of one size, rounded down: the rows behind the last one are lost",
        "modelscope/ms-swift #9859",
        (DEALT, f"rows[rank * ({FLOOR}) : (rank + 1) * ({FLOOR})]"),
    ),
    split(
        "parts_rounded_up",
        "contiguous parts are of one size, rounded up: the last processes get less, or nothing",
        "verl-project/verl #6869",
        (DEALT, f"rows[rank * ({CEIL}) : (rank + 1) * ({CEIL})]"),
    ),
    split(
        "remainder_dropped",
        "the last rows are dropped, so that all processes have as many: they are never read",
        "lhotse-speech/lhotse #695",
        (DEALT, f"rows[: {FLOOR} * world_size]{DEALT[4:]}"),
    ),
    split(
        "filled_up_from_the_front",
        "parts are filled up to one size with rows that another process has, too",
        "DistributedSampler's way: pytorch/pytorch #25162, #22584, roboflow/rf-detr #1507",
        (RETURN, f"rows = (list(rows) * world_size)[: {CEIL} * world_size]\n    {RETURN}"),
    ),
    split(
        "everything_for_everybody",
        "every process gets all rows: nothing is split",
        "Shark-NLP/DiffuSeq #37, PatrickHua/SimSiam #16, Parskatt/RoMa #32",
        (DEALT, "rows"),
    ),
    split(
        "rank_ignored",
        "every process gets the same rows: `rank` is where to begin",
        "the same data on each rank: ray-project/ray #64315 (found in review)",
        (DEALT, "rows[::world_size]"),
    ),
    split(
        "indices_for_rows",
        "indices come out, and not the rows that are there",
        "DistributedSampler's way, which leaves the rows to the loader",
        (LISTED, "list(range(rank, len(rows), world_size))"),
    ),
    split(
        "not_a_list",
        "what the slice gives comes out as it is, and that is no list for a text or a range",
        "student code: rows[rank::world_size], tried on lists only",
        (LISTED, DEALT),
    ),
    split(
        "few_rows_refused",
        "fewer rows than processes are refused: some processes get none",
        "DistributedSampler of 2020: pytorch/pytorch #45324, #49172",
        (RANK, f"{RANK} or len(rows) < world_size"),
    ),
    split(
        "ranks_not_checked",
        "a rank that no process has gets rows, or none, without a word",
        "DistributedSampler before pytorch/pytorch #48865",
        (RANK, "False"),
    ),
    split(
        "rank_asserted",
        "a bad rank stops at an `assert`: a ValueError is asked for, as asserts are skipped under "
        "`python -O`",
        "Megatron-LM's samplers assert the data-parallel rank",
        (CHECK + REFUSAL, "    assert 0 <= rank < world_size\n"),
    ),
    scale(
        "always_one",
        "all processes weigh the same: a token counts for more where there are few",
        "huggingface/transformers #34242, PrimeIntellect-ai/prime-rl #2562, #1957",
        (SCALE, "1.0"),
    ),
    scale(
        "world_size_forgotten",
        "the fraction of the tokens comes out: the mean over processes divides by their number "
        "again",
        "verl-project/verl-SpeCo #29, Snowflake-AI-Research/Arctic-Platform #119",
        (SCALE, "num_tokens / all_tokens"),
    ),
    scale(
        "divided_by_world_size",
        "it is divided by the number of processes, as their mean does already: multiply by it",
        "asked in sanderwood/bgpt #5",
        (SCALE, "num_tokens / all_tokens / world_size"),
    ),
    scale(
        "world_size_alone",
        "every factor is `world_size`: that is right for losses divided by all tokens already",
        "NVIDIA-NeMo/Automodel #3830, neuralmagic/sparseml #135",
        (SCALE, "float(world_size)"),
    ),
    scale(
        "for_sums",
        "the loss is taken to be a sum over the tokens; here it is a mean, so they count, too",
        "right where losses are sums: facebookresearch/fairseq #494",
        (SCALE, "world_size / all_tokens"),
    ),
    scale(
        "at_least_one_token",
        "a process without tokens is counted as one of one token",
        "guards against 0 / 0: max(num_tokens, 1)",
        (FACTORS, "world_size * max(num_tokens, 1)"),
    ),
    scale(
        "no_tokens_refused",
        "a process without tokens is refused: its factor is 0, and the others go on",
        "an input check that is too strict; such batches are met in allenai/OLMo-core #657",
        (PART, "not 0 < num_tokens <= all_tokens"),
    ),
    scale(
        "nothing_checked",
        "nothing is refused: no count larger than the batch, none of no process",
        "student code: the formula alone; instructlab/training #547",
        (REFUSED, "False"),
    ),
)
