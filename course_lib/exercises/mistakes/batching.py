"""What goes wrong in chapter 16."""

from course_lib.exercises.mistake_catalogue import known

padding = known("batching", "padding_fraction")
cut = known("batching", "batch_by_tokens")
average = known("batching", "average_weights")

FRACTION = "1 - real / places"
WIDTH = "(max(sources) + max(targets))"

ORDER = "sorted(range(len(lengths)), key=lambda i: sorted(lengths[i], reverse=True))"
KEY = "sorted(lengths[i], reverse=True)"
PAIR_KEY = "lambda pair: sorted(pair, reverse=True)"
POSITIONS = "(len(batch) + 1) * sum(grown)"
FIRST_OF_A_BATCH = "batch = []\n            grown = lengths[pair]"
LONE = "sum(lengths[pair]) > tokens"
REFUSAL = (
    '            raise ValueError(f"a pair of {sum(lengths[pair])} tokens, a batch of {tokens}")\n'
)
END = "return [*batches, batch] if batch else batches"

STACKED = "torch.stack([state[name].double() for state in states]).mean(dim=0)"
MEAN = f"{STACKED}.to(value.dtype)"
RETURN = f"""    return {{
        name: {MEAN}
        for name, value in states[0].items()
    }}
"""
NONE = """    if not states:
        raise ValueError("there are no weights to average")
"""
CHECKS = (
    NONE
    + """    first = {name: value.shape for name, value in states[0].items()}
    for state in states:
        if {name: value.shape for name, value in state.items()} != first:
            raise ValueError("these weights are of different models: names or shapes differ")
"""
)
SAME = "{name: value.shape for name, value in state.items()} != first"

MISTAKES = (
    padding(
        "tokens_not_padding",
        "the fraction of positions *with* a token is returned: take it from 1",
        "CarperAI/trlx #448",
        (FRACTION, "real / places"),
    ),
    padding(
        "integer_division",
        "the division is one of whole numbers, `//`: the fraction is 0 or 1, never between",
        "CarperAI/trlx #245",
        (FRACTION, "1 - real // places"),
    ),
    padding(
        "percent",
        "the fraction comes in percent: in [0, 1) is asked for",
        "metrics in [0, 100] beside others in [0, 1]",
        (FRACTION, "100 * (1 - real / places)"),
    ),
    padding(
        "mean_of_batches",
        "every batch has a fraction of its own, and these are averaged: add the counts first",
        "student code: mean() of a list, one entry for each batch",
        ("places = 0", "fractions = []"),
        (
            f"places += len(batch) * {WIDTH}",
            "here = sum(map(sum, zip(sources, targets)))\n"
            f"        fractions.append(1 - here / (len(batch) * {WIDTH}))",
        ),
        (FRACTION, "sum(fractions) / len(fractions)"),
    ),
    padding(
        "source_only",
        "only the sources are looked at: the targets are padded, too",
        "student code: src without tgt",
        ("sum(lengths[pair])", "lengths[pair][0]"),
        (WIDTH, "max(sources)"),
    ),
    padding(
        "one_width_for_both",
        "both sides are taken to be as wide as the longer one; each has a rectangle of its own",
        "student code: one max_len for source and target",
        (WIDTH, "2 * max(*sources, *targets)"),
    ),
    padding(
        "as_wide_as_the_longest_of_all",
        "every batch is as wide as the longest of *all* pairs: its own longest is enough",
        "huggingface/transformers #3634, deepspeedai/DeepSpeedExamples #849",
        (WIDTH, "sum(map(max, zip(*lengths)))"),
    ),
    padding(
        "last_batch_only",
        "the positions of a batch replace those before it, where they should be added",
        "student code: = for +=",
        ("places += ", "places = "),
    ),
    padding(
        "empty_not_refused",
        "no batch, or an empty one, ends in an error of Python's own, not in a ValueError with "
        "words",
        "student code: a formula without an input check",
        ("if not batches or not all(batches):", "if False:"),
    ),
    padding(
        "nothing_is_no_padding",
        "no batch, or an empty one, counts as no padding: there is nothing to say about it",
        "student code: a guard against 0 / 0 that returns 0",
        (
            'raise ValueError(f"no share of padding in {list(map(list, batches))}: a batch is '
            'empty")',
            "return 0.0",
        ),
    ),
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
        "widths_of_the_newest",
        "the newest pair is taken for the widest: it is on its longer side only",
        "student code: sorted, so the last is the longest",
        (POSITIONS, "(len(batch) + 1) * sum(lengths[pair])"),
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
        "longest_first",
        "the longest pairs come first: the shortest are asked for",
        "student code: reverse=True",
        (ORDER, ORDER[:-1] + ", reverse=True)"),
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
    cut(
        "too_long_accepted",
        "a pair of more than `tokens` tokens is not refused: it makes a batch above the bound, or "
        "is lost without a word",
        "instructlab/training #51; lost in facebookresearch/fairseq #1191",
        (f"        if {LONE}:\n{REFUSAL}", ""),
        (f"if {POSITIONS}", f"if batch and {POSITIONS}"),
    ),
    cut(
        "asserted",
        "a pair that is too long stops at an `assert`: a ValueError is asked for, as asserts are "
        "skipped under `python -O`",
        "fairseq's batch_by_size asserts that each sentence fits",
        (f"        if {LONE}:\n{REFUSAL}", "        assert sum(lengths[pair]) <= tokens\n"),
    ),
    cut(
        "positions_in_the_sorted_list",
        "a batch holds indices into the *sorted* list: those into `lengths` are asked for",
        "student code: enumerate(sorted(lengths))",
        ("[*batch, pair]", "[*batch, sum(map(len, batches)) + len(batch)]"),
    ),
    cut(
        "sorted_in_place",
        "`lengths` itself is sorted: its indices are others then, and the caller's list is changed",
        "student code: .sort() for sorted",
        ("    batches = []\n", f"    lengths.sort(key={PAIR_KEY})\n    batches = []\n"),
        (ORDER, "range(len(lengths))"),
    ),
    average(
        "added_in_place",
        "the sum is built in the first checkpoint's own tensors: they change, shared ones twice",
        "facebookresearch/fairseq #647, espnet/espnet #5533",
        (
            RETURN,
            """    total = dict(states[0])
    for state in states[1:]:
        for name in total:
            total[name] += state[name]
    return {name: (value / len(states)).to(value.dtype) for name, value in total.items()}
""",
        ),
    ),
    average(
        "first_overwritten",
        "the first `state_dict` is used for the result: it is the caller's",
        "OpenMined/PySyft #3613",
        (
            RETURN,
            f"""    average = states[0]
    for name, value in average.items():
        average[name] = {MEAN}
    return average
""",
        ),
    ),
    average(
        "not_divided",
        "the sum is returned: divide it by the number of checkpoints",
        "student code: a loop of += without its last line",
        (".mean(dim=0)", ".sum(dim=0)"),
    ),
    average(
        "first_counted_twice",
        "the sum begins with the first checkpoint, and the first is added again",
        "OpenMined/PySyft #3863: a sum that does not begin with 0",
        (
            STACKED,
            "torch.stack([state[name].double() for state in [states[0], *states]]).sum(dim=0)"
            ".div(len(states))",
        ),
    ),
    average(
        "halved_again_and_again",
        "mean and next checkpoint are averaged in turn: the last one counts half, the first least",
        "student code: (a + b) / 2 in a loop",
        (
            RETURN,
            """    average = {name: value.double() for name, value in states[0].items()}
    for state in states[1:]:
        average = {name: (value + state[name].double()) / 2 for name, value in average.items()}
    return {name: average[name].to(value.dtype) for name, value in states[0].items()}
""",
        ),
    ),
    average(
        "last_one_wins",
        "the dicts are joined: under each name the last checkpoint's numbers stay",
        "student code: dict.update",
        (".mean(dim=0)", "[-1]"),
    ),
    average(
        "by_order_not_by_name",
        "the tensors are matched by their order in the dict: go by name",
        "student code: zip(*(state.values() …))",
        (
            RETURN,
            """    rows = zip(*(state.values() for state in states))
    means = [torch.stack([x.double() for x in row]).mean(dim=0).to(row[0].dtype) for row in rows]
    return dict(zip(first, means))
""",
        ),
    ),
    average(
        "own_dtype",
        "each number is averaged in its own dtype, and whole numbers have no mean",
        "pytorch/pytorch #94909 and #64897",
        (".double()", ""),
    ),
    average(
        "dtype_stays_float64",
        "the means stay in float64: put them back into the dtype of the first",
        "secretflow/secretflow #1056",
        (".to(value.dtype)", ""),
    ),
    average(
        "always_float32",
        "all means come out in float32, whatever the dtype was: files of half precision double",
        "facebookresearch/fairseq #1079",
        (".to(value.dtype)", ".float()"),
    ),
    average(
        "whole_numbers_of_the_first",
        "whole numbers are taken from the first checkpoint: they are averaged, too",
        "TsingZ0/PFLlib #269, pytorch/pytorch #84053",
        (MEAN, f"{MEAN} if value.is_floating_point() else value.clone()"),
    ),
    average(
        "further_names_ignored",
        "names that only a later checkpoint has are ignored: it is of another model",
        "student code: for name in states[0]",
        (SAME, "{name: state[name].shape for name in first if name in state} != first"),
    ),
    average(
        "shapes_broadcast",
        "other shapes are added all the same, by broadcasting",
        "a sum of tensors in place of a stack",
        (SAME, "state.keys() != first.keys()"),
        (STACKED, "(sum(state[name].double() for state in states) / len(states))"),
    ),
    average(
        "nothing_checked",
        "nothing is compared: missing names and other shapes end in Python's or torch's own errors",
        "student code: the mean alone",
        (CHECKS, ""),
    ),
)
