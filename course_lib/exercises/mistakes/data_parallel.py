"""What goes wrong in chapter 22."""

from course_lib.exercises.mistake_catalogue import known

deal = known("data_parallel", "split_batch")
weight = known("data_parallel", "token_loss_scale")

DEALT = "rows[rank::world_size]"
LISTED = f"list({DEALT})"
RETURN = f"return {LISTED}"
RANK = "not 0 <= rank < world_size"
FLOOR = "len(rows) // world_size"
CEIL = "-(-len(rows) // world_size)"

WEIGHT = "world_size * num_tokens / all_tokens"
SHARE = "not 0 <= num_tokens <= all_tokens"
REFUSED = "world_size < 1 or not 0 <= num_tokens <= all_tokens or all_tokens < 1"
FACTORS = "world_size * num_tokens"

MISTAKES = (
    deal(
        "pieces_in_a_row",
        "each process gets a piece of neighbours: of a sorted batch, the last one gets all the "
        "long rows",
        "huggingface/datasets #4570 and NVIDIA/OpenSeq2Seq #107: one way taken for the other",
        (DEALT, "rows[rank * len(rows) // world_size : (rank + 1) * len(rows) // world_size]"),
    ),
    deal(
        "remainder_cut_off",
        "the pieces are of one size, rounded down: the rows behind the last piece are lost",
        "modelscope/ms-swift #9859",
        (DEALT, f"rows[rank * ({FLOOR}) : (rank + 1) * ({FLOOR})]"),
    ),
    deal(
        "pieces_rounded_up",
        "the pieces are rounded up: the last processes get less, or nothing",
        "verl-project/verl #6869",
        (DEALT, f"rows[rank * ({CEIL}) : (rank + 1) * ({CEIL})]"),
    ),
    deal(
        "remainder_dropped",
        "the last rows are dropped, so that all shares have as many: they are never read",
        "lhotse-speech/lhotse #695",
        (DEALT, f"rows[: {FLOOR} * world_size]{DEALT[4:]}"),
    ),
    deal(
        "filled_up_from_the_front",
        "shares are filled up to one size with rows that another process has, too",
        "DistributedSampler's way: pytorch/pytorch #25162, #22584, roboflow/rf-detr #1507",
        (RETURN, f"rows = (list(rows) * world_size)[: {CEIL} * world_size]\n    {RETURN}"),
    ),
    deal(
        "filled_up_with_the_last",
        "a share that is too short gets the last row once more",
        "student code: padding batches to one size",
        (LISTED, f"({LISTED} + list(rows[-1:]))[:{CEIL}]"),
    ),
    deal(
        "everything_for_everybody",
        "every process gets all rows: none is shared out",
        "Shark-NLP/DiffuSeq #37, PatrickHua/SimSiam #16, Parskatt/RoMa #32",
        (DEALT, "rows"),
    ),
    deal(
        "rank_ignored",
        "every process gets the same share: `rank` is where to begin",
        "the same data on each rank: ray-project/ray #64315 (found in review)",
        (DEALT, "rows[::world_size]"),
    ),
    deal(
        "step_ignored",
        "every row from `rank` on comes out: go on in steps of `world_size`",
        "student code",
        (DEALT, "rows[rank:]"),
    ),
    deal(
        "counted_from_one",
        "ranks are counted from 1: rank 0 begins with the last row",
        "student code: rank - 1",
        (DEALT, "rows[rank - 1 :: world_size]"),
    ),
    deal(
        "rank_and_size_swapped",
        "start and step have changed places: begin at `rank`, go on in steps of `world_size`",
        "student code",
        (DEALT, "rows[world_size::rank]"),
    ),
    deal(
        "mixed_by_each",
        "each process mixes the rows in its own way before it takes its share: shares overlap",
        "NVlabs/LongLive #71",
        (
            LISTED,
            "__import__('random').Random(rank).sample(list(rows), len(rows))[rank::world_size]",
        ),
    ),
    deal(
        "reordered_in_place",
        "the rows are put in another order before they are dealt, in the caller's own list",
        "student code: rows.sort(…), random.shuffle(rows)",
        (
            RETURN,
            f"rows.sort(key=str, reverse=True) if isinstance(rows, list) else None\n    {RETURN}",
        ),
    ),
    deal(
        "places_for_rows",
        "places come out, and not the rows that are there",
        "DistributedSampler's way, which leaves the rows to the loader",
        (LISTED, "list(range(rank, len(rows), world_size))"),
    ),
    deal(
        "equal_rows_together",
        "`index` finds the first of equal rows, so that all of them go to one process",
        "student code: rows.index(row) % world_size",
        (LISTED, "[row for row in rows if rows.index(row) % world_size == rank]"),
    ),
    deal(
        "one_by_one",
        "a generator comes out: nothing is refused until somebody asks it, and it has no length",
        "student code: yield",
        (RETURN, f"yield from {DEALT}"),
    ),
    deal(
        "few_rows_refused",
        "fewer rows than processes are refused: some processes get none",
        "DistributedSampler of 2020: pytorch/pytorch #45324, #49172",
        (RANK, f"{RANK} or len(rows) < world_size"),
    ),
    deal(
        "ranks_not_checked",
        "a rank that no process has gets rows, or none, without a word",
        "DistributedSampler before pytorch/pytorch #48865",
        (RANK, "False"),
    ),
    deal(
        "negative_ranks_accepted",
        "a rank below 0 counts from the end, without a word",
        "student code: rank < world_size",
        (RANK, "rank >= world_size"),
    ),
    deal(
        "one_rank_too_many",
        "the rank after the last one is let through: ranks go from 0 to world_size - 1",
        "student code: rank <= world_size",
        (RANK, "not 0 <= rank <= world_size"),
    ),
    weight(
        "always_one",
        "all shares weigh the same: a token in a short share counts for more than one in a long",
        "huggingface/transformers #34242, PrimeIntellect-ai/prime-rl #2562, #1957",
        (WEIGHT, "1.0"),
    ),
    weight(
        "world_size_forgotten",
        "the share of the tokens comes out: the mean over processes divides by their number again",
        "verl-project/verl-SpeCo #29, Snowflake-AI-Research/Arctic-Platform #119",
        (WEIGHT, "num_tokens / all_tokens"),
    ),
    weight(
        "divided_by_world_size",
        "it is divided by the number of processes, as their mean does already: multiply by it",
        "asked in sanderwood/bgpt #5",
        (WEIGHT, "num_tokens / all_tokens / world_size"),
    ),
    weight(
        "world_size_alone",
        "every share weighs `world_size`: that is right for losses divided by all tokens already",
        "NVIDIA-NeMo/Automodel #3830, neuralmagic/sparseml #135",
        (WEIGHT, "float(world_size)"),
    ),
    weight(
        "for_sums",
        "the loss is taken to be a sum over the share; here it is a mean, so its tokens count, too",
        "right where losses are sums: facebookresearch/fairseq #494",
        (WEIGHT, "world_size / all_tokens"),
    ),
    weight(
        "upside_down",
        "the fraction is upside down: a long share would weigh less",
        "student code",
        (WEIGHT, "all_tokens / (world_size * num_tokens)"),
    ),
    weight(
        "whole_numbers",
        "the division is one of whole numbers: weights are 0, 1, 2, and never between",
        "student code: // for /",
        (WEIGHT, f"{FACTORS} // all_tokens"),
    ),
    weight(
        "mean_rounded_down",
        "the tokens of an average share are rounded down before they divide",
        "student code: all_tokens // world_size",
        (WEIGHT, "num_tokens / (all_tokens // world_size)"),
    ),
    weight(
        "never_above_one",
        "weights above 1 are cut off: a long share weighs more than 1",
        "student code: min(1.0, …)",
        (WEIGHT, f"min(1.0, {WEIGHT})"),
    ),
    weight(
        "at_least_one_token",
        "a share without tokens is counted as one of one token",
        "guards against 0 / 0: max(num_tokens, 1)",
        (FACTORS, "world_size * max(num_tokens, 1)"),
    ),
    weight(
        "no_tokens_refused",
        "a share without tokens is refused: it weighs 0, and the others go on",
        "a guard in the wrong place; such shares are met in allenai/OLMo-core #657",
        (SHARE, "not 0 < num_tokens <= all_tokens"),
    ),
    weight(
        "nothing_divides",
        "a batch without tokens ends in a ZeroDivisionError, and not in a ValueError with words",
        "instructlab/training #547",
        (" or all_tokens < 1", ""),
    ),
    weight(
        "nothing_checked",
        "nothing is refused: not a share larger than the batch, nor one of no process",
        "student code",
        (REFUSED, "False"),
    ),
    weight(
        "larger_than_the_whole",
        "more tokens here than in all are accepted: two counts do not belong together",
        "student code: num_tokens < 0 is looked at, and no more",
        (SHARE, "num_tokens < 0"),
    ),
)
