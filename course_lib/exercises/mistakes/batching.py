"""What goes wrong in chapter 16."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes.weight_averaging import MISTAKES as AVERAGES

share = known("batching", "padding_fraction")
cut = known("batching", "batch_by_tokens")

SHARE = "1 - real / places"
WIDTH = "(max(sources) + max(targets))"
ALL_PLACES = "for pair in batch"

ORDER = "sorted(range(len(lengths)), key=lambda i: sorted(lengths[i], reverse=True))"
KEY = "sorted(lengths[i], reverse=True)"
PAIR_KEY = "lambda pair: sorted(pair, reverse=True)"
PLACES = "(len(batch) + 1) * sum(grown)"
FIRST_OF_A_BATCH = "batch = []\n            grown = lengths[pair]"
LONE = "sum(lengths[pair]) > tokens"
WORDS = 'f"a pair of {sum(lengths[pair])} tokens, a batch of {tokens}"'
REFUSAL = f"            raise ValueError({WORDS})\n"
END = "return [*batches, batch] if batch else batches"

MISTAKES = (
    share(
        "tokens_not_padding",
        "the share of places *with* a token is returned: take it from 1",
        "CarperAI/trlx #448",
        (SHARE, "real / places"),
    ),
    share(
        "whole_number",
        "the division is one of whole numbers: the share is 0 or 1, never between",
        "CarperAI/trlx #245",
        (SHARE, "1 - real // places"),
    ),
    share(
        "percent",
        "the share comes in percent: in [0, 1) is asked for",
        "metrics in [0, 100] beside others in [0, 1]",
        (SHARE, "100 * (1 - real / places)"),
    ),
    share(
        "padding_for_each_token",
        "padding is divided by the tokens, not by all places",
        "student code: places / real - 1",
        (SHARE, "places / real - 1"),
    ),
    share(
        "mean_of_batches",
        "every batch has a share of its own, and the shares are averaged: add the counts first",
        "student code: mean() of a list of shares",
        ("places = 0", "shares = []"),
        (
            f"places += len(batch) * {WIDTH}",
            "here = sum(map(sum, zip(sources, targets)))\n"
            f"        shares.append(1 - here / (len(batch) * {WIDTH}))",
        ),
        (SHARE, "sum(shares) / len(shares)"),
    ),
    share(
        "source_only",
        "only the sources are looked at: the targets are padded, too",
        "student code: src without tgt",
        ("sum(lengths[pair])", "lengths[pair][0]"),
        (WIDTH, "max(sources)"),
    ),
    share(
        "target_only",
        "only the targets are looked at: the sources are padded, too",
        "student code: tgt without src",
        ("sum(lengths[pair])", "lengths[pair][1]"),
        (WIDTH, "max(targets)"),
    ),
    share(
        "one_width_for_both",
        "both sides are taken to be as wide as the longer one; each has a rectangle of its own",
        "student code: one max_len for source and target",
        (WIDTH, "2 * max(*sources, *targets)"),
    ),
    share(
        "width_of_the_longest_pair",
        "one pair's tokens are the width; longest source and longest target may be of two pairs",
        "student code: max(map(sum, pairs))",
        (WIDTH, "max(map(sum, zip(sources, targets)))"),
    ),
    share(
        "as_wide_as_the_longest_of_all",
        "every batch is as wide as the longest of *all* pairs: its own longest is enough",
        "huggingface/transformers #3634, deepspeedai/DeepSpeedExamples #849",
        (WIDTH, "sum(map(max, zip(*lengths)))"),
    ),
    share(
        "mean_widths",
        "a batch is taken to be as wide as its sentences are on average: longer ones do not fit",
        "EdGENetworks/attention-networks-for-classification #8",
        (WIDTH, "(sum(sources) + sum(targets)) / len(batch)"),
    ),
    share(
        "last_batch_only",
        "the places of a batch replace those before it, where they should be added",
        "student code: = for +=",
        ("places += ", "places = "),
    ),
    share(
        "first_pairs",
        "the indices in a batch are only counted: it is the first pairs of `lengths` that are read",
        "student code: range(len(batch))",
        (ALL_PLACES, "for pair in range(len(batch))"),
    ),
    share(
        "tokens_of_all_pairs",
        "the tokens of all pairs are counted: only those in a batch are real there",
        "student code: sum(map(sum, lengths))",
        (
            "sum(sum(lengths[pair]) for batch in batches for pair in batch)",
            "sum(map(sum, lengths))",
        ),
    ),
    share(
        "no_batches_divide_by_zero",
        "no batches lead to a ZeroDivisionError instead of a ValueError with words",
        "student code",
        ("not batches or ", ""),
    ),
    share(
        "nothing_is_no_padding",
        "no batches, or an empty one, count as no padding: there is nothing to say about them",
        "student code: a guard against 0 / 0",
        (
            'raise ValueError(f"no share of padding in {list(map(list, batches))}: a batch is '
            'empty")',
            "return 0.0",
        ),
    ),
    share(
        "empty_batches_skipped",
        "empty batches are skipped without a word",
        "student code: if not batch: continue",
        ("not all(batches)", "not any(batches)"),
        ("for batch in batches:", "for batch in filter(None, batches):"),
    ),
    cut(
        "padding_not_counted",
        "tokens are counted without padding: a batch costs B · (S + T) places",
        "OpenNMT/CTranslate2 #939, meta-pytorch/data #788",
        (PLACES, "sum(sum(lengths[i]) for i in [*batch, pair])"),
    ),
    cut(
        "last_batch_lost",
        "the last batch is lost: it is still being filled when the pairs end",
        "a review in huggingface/trl #6092",
        (END, "return batches"),
    ),
    cut(
        "one_pair_too_many",
        "the bound is looked at before the new pair is counted: a batch may be one pair too large",
        "NVIDIA-NeMo/Speech #5907",
        (PLACES, "len(batch) * sum(grown)"),
    ),
    cut(
        "widths_of_before",
        "the widths of before are used for the new pair, and it may be longer than all others",
        "lhotse-speech/lhotse #1590",
        (PLACES, "(len(batch) + 1) * sum(widest)"),
    ),
    cut(
        "widths_of_the_newest",
        "the newest pair is taken for the widest: it is on its longer side only",
        "student code: sorted, so the last is the longest",
        (PLACES, "(len(batch) + 1) * sum(lengths[pair])"),
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
        "student code: a global max_src_in_batch",
        (FIRST_OF_A_BATCH, "batch = []"),
    ),
    cut(
        "overflowing_pair_lost",
        "the pair that does not fit ends a batch and then stands in none: it begins the next",
        "student code: continue",
        (FIRST_OF_A_BATCH, "batch, widest = [], (0, 0)\n            continue"),
    ),
    cut(
        "full_is_too_much",
        "a batch of exactly `tokens` places is taken for too large: that many it may have",
        "student code: >= for >",
        (f"{PLACES} > tokens", f"batch and {PLACES} >= tokens"),
    ),
    cut(
        "lone_pair_of_the_bound_refused",
        "a pair of exactly `tokens` tokens is refused, and it fills a batch",
        "student code: >= for >",
        (LONE, "sum(lengths[pair]) >= tokens"),
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
        "longer_side_sorted_only",
        "the pairs are sorted by the longer side only: where it is equal, the shorter one decides",
        "student code: key=max",
        (KEY, "max(lengths[i])"),
    ),
    cut(
        "first_with_room",
        "a pair goes into the first batch with room: later pairs stand before earlier ones then",
        "packing by first fit, as samplers for packed rows do",
        (
            """        grown = tuple(map(max, widest, lengths[pair]))
        if (len(batch) + 1) * sum(grown) > tokens:
            batches.append(batch)
            batch = []
            grown = lengths[pair]
        batch = [*batch, pair]
        widest = grown
""",
            """        for batch in [*batches, new := []]:
            rows = [lengths[i] for i in [*batch, pair]]
            if len(rows) * sum(map(max, zip(*rows))) <= tokens:
                break
        batches += [new] if batch is new else []
        batch.append(pair)
""",
        ),
        (END, "return batches"),
    ),
    cut(
        "longest_first",
        "the longest pairs come first: the shortest are asked for",
        "student code: reverse=True",
        (ORDER, ORDER[:-1] + ", reverse=True)"),
    ),
    cut(
        "pairs_counted",
        "`tokens` is taken for a number of pairs",
        "facebookresearch/fairseq #37 asks which of the two it is",
        (PLACES, "len(batch) + 1"),
    ),
    cut(
        "source_only",
        "the places of the sources are counted, those of the targets are not",
        "facebookresearch/fairseq #1338",
        (PLACES, "(len(batch) + 1) * grown[0]"),
    ),
    cut(
        "longer_side_only",
        "the longer side is counted, not both: B · max(S, T)",
        "fairseq's num_tokens; OpenNMT-py's max of source and target",
        (PLACES, "(len(batch) + 1) * max(grown)"),
    ),
    cut(
        "width_of_the_longest_pair",
        "one pair's tokens are the width; longest source and longest target may be of two pairs",
        "student code: max(map(sum, pairs))",
        ("tuple(map(max, widest, lengths[pair]))", "max(widest, lengths[pair], key=sum)"),
    ),
    cut(
        "too_long_alone",
        "a pair of more than `tokens` tokens gets a batch of its own, above the bound",
        "instructlab/training #51",
        (f"        if {LONE}:\n{REFUSAL}", ""),
        (f"if {PLACES}", f"if batch and {PLACES}"),
    ),
    cut(
        "too_long_skipped",
        "a pair of more than `tokens` tokens is left out without a word",
        "facebookresearch/fairseq #1191, vllm-project/speculators #183",
        (REFUSAL, "            continue\n"),
    ),
    cut(
        "numbers_not_said",
        "the error does not say both numbers: the pair's tokens, and the bound",
        "student code",
        (WORDS, '"a pair is too long"'),
    ),
    cut(
        "places_in_the_sorted_list",
        "a batch holds indices into the *sorted* list: those into `lengths` are asked for",
        "student code: enumerate(sorted(lengths))",
        ("[*batch, pair]", "[*batch, sum(map(len, batches)) + len(batch)]"),
    ),
    cut(
        "equal_pairs_share_a_place",
        "indices are looked up by their lengths: of equal pairs the first stands for all",
        "student code: lengths.index(pair)",
        (ORDER, f"map(lengths.index, sorted(lengths, key={PAIR_KEY}))"),
    ),
    cut(
        "lengths_returned",
        "a batch holds lengths: indices into `lengths` are asked for",
        "student code",
        ("[*batch, pair]", "[*batch, lengths[pair]]"),
    ),
    cut(
        "sorted_in_place",
        "`lengths` itself is sorted: its indices are others then, and the caller's list is changed",
        "student code: .sort() for sorted",
        (
            "    batches = []\n",
            f"    lengths.sort(key={PAIR_KEY})\n    batches = []\n",
        ),
        (ORDER, "range(len(lengths))"),
    ),
    cut(
        "yielded",
        "the batches are yielded one by one: a list is asked for, and errors at once",
        "student code: a sampler's __iter__",
        ("batches.append(batch)", "yield batch"),
        (END, "if batch:\n        yield batch"),
    ),
    cut(
        "an_empty_batch_of_nothing",
        "no pairs make one empty batch: they make none",
        "student code: the last batch added unseen",
        (END, "return [*batches, batch]"),
    ),
    *AVERAGES,
)
