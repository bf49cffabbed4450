"""What goes wrong in chapter 14."""

from course_lib.exercises.mistake_catalogue import known

share = known("evaluation", "exact_match")
accuracy = known("evaluation", "token_accuracy")
link = known("evaluation", "alignment_from_attention")
rate = known("evaluation", "alignment_error_rate")

SAME_NUMBER = " or len(written) != len(wanted)"
GUESS = "logits.argmax(dim=-1) == targets"
RATIO = "right.sum().item() / real.sum().item()"
REACHED = "(weights >= threshold).nonzero().tolist()"
ERROR = "1 - 2 * shared / links"

MISTAKES = (
    share(
        "spaces_stripped",
        "spaces at the ends are cut off before the texts are compared",
        "scorers that call strip() first",
        ("a == b", "a.strip() == b.strip()"),
    ),
    share(
        "small_and_stripped",
        "both texts are stripped and put into small letters before they are compared",
        "OpenAgentHQ/openagent-eval #225",
        ("a == b", "a.strip().lower() == b.strip().lower()"),
    ),
    share(
        "found_anywhere",
        "a text counts as right when it is right for *some* source, not for its own",
        "text in wanted",
        ("a == b", "a in wanted"),
    ),
    share(
        "contained",
        "a text is right as soon as the right one is somewhere in it",
        "scorers called contains or includes",
        ("a == b", "b in a"),
    ),
    share(
        "count_returned",
        "the count is returned: divide by the number of texts",
        "the last line forgotten",
        (" / len(wanted)", ""),
    ),
    share(
        "percent",
        "the share comes in percent: in [0, 1] is asked for",
        "metrics in [0, 100] beside others in [0, 1]",
        (" / len(wanted)", " / len(wanted) * 100"),
    ),
    share(
        "cut_to_the_shorter",
        "zip stops at the end of the shorter list: sentences that were not translated are forgiven",
        "zip without strict=True",
        (SAME_NUMBER, ""),
        ("strict=True", "strict=False"),
    ),
    share(
        "empty_divides_by_zero",
        "no texts lead to a ZeroDivisionError instead of a ValueError with words",
        "the empty list not thought of",
        ("not wanted or ", ""),
    ),
    accuracy(
        "padding_counted",
        "padding is counted, among the right tokens and among all",
        "keras-team/keras #10350, cs230-stanford/cs230-code-examples #13",
        (f"({GUESS}) & real", GUESS),
        (RATIO, "right.float().mean().item()"),
    ),
    accuracy(
        "padding_in_the_denominator",
        "the right tokens are divided by all positions, padding among them",
        "jsbaan/transformer-from-scratch #7",
        (RATIO, "right.sum().item() / targets.numel()"),
    ),
    accuracy(
        "guessed_padding_counted",
        "padding that was guessed is counted among the right tokens",
        "the mask is used once, below the line only",
        (f"({GUESS}) & real", GUESS),
    ),
    accuracy(
        "mean_of_sentences",
        "every sentence has a share of its own, and the shares are averaged: count tokens first",
        "tracel-ai/burn #5577, udacity/deep-learning-v2-pytorch #74",
        (RATIO, "(right.sum(dim=1) / real.sum(dim=1)).nanmean().item()"),
    ),
    accuracy(
        "pad_id_always_zero",
        "padding is taken for id 0, whatever pad_id says",
        "targets != 0",
        ("targets != pad_id", "targets != 0"),
    ),
    accuracy(
        "shifted_once_more",
        "the targets are shifted against the logits, and they are shifted already",
        "shifted again, as for a language model's labels",
        (GUESS, "logits.argmax(dim=-1) == targets.roll(-1, dims=1)"),
    ),
    accuracy(
        "shapes_not_checked",
        "targets of another shape pass: one row of targets is compared with every row of logits",
        "broadcasting in a comparison",
        ("logits.shape[:-1] != targets.shape or ", ""),
    ),
    accuracy(
        "padding_only_accepted",
        "targets of padding only are not refused: 0 is divided by 0",
        "tracel-ai/burn #5577",
        (" or not real.any()", ""),
    ),
    link(
        "source_first",
        "the pairs are (source, target): a map has targets down, so (target, source) is asked for",
        "Moses format, source first: marian-nmt/marian-dev #145",
        ("{(t, s) for t, s", "{(s, t) for t, s"),
    ),
    link(
        "above_the_threshold_only",
        "a weight equal to the threshold makes no link: it reaches it",
        "> for >=",
        (">=", ">"),
    ),
    link(
        "strongest_of_each_target",
        "every target gets the one source with the highest weight, whatever the threshold",
        "OpenNMT/CTranslate2 #563, lilt/alignment-scripts #2: another rule, and a common one",
        (REACHED, "enumerate(weights.argmax(dim=1).tolist())"),
    ),
    link(
        "counted_from_one",
        "the positions count from 1",
        "neulab/awesome-align #20",
        ("{(t, s) for", "{(t + 1, s + 1) for"),
    ),
    link(
        "tensors_in_the_set",
        "the positions are tensors, and no two tensors are one element of a set: use .tolist()",
        "iterating over nonzero()",
        (".nonzero().tolist()", ".nonzero()"),
    ),
    link(
        "a_list",
        "a list is returned: links are compared with & and need a set",
        "nonzero().tolist() returned as it is",
        ("{(t, s) for t, s in " + REACHED + "}", "[(t, s) for t, s in " + REACHED + "]"),
    ),
    link(
        "threshold_not_checked",
        "any threshold passes",
        "what the docstring says under Raises left out",
        (" or not 0 < threshold <= 1", ""),
    ),
    rate(
        "precision_only",
        "only links too many cost: those that are missing do not show",
        "1 - precision",
        (ERROR, "1 - shared / max(1, sum(map(len, found)))"),
    ),
    rate(
        "recall_only",
        "only missing links cost: linking everything would be perfect",
        "1 - recall",
        (ERROR, "1 - shared / max(1, sum(map(len, known)))"),
    ),
    rate(
        "agreement",
        "the agreement is returned, not the error: take it from 1",
        "mozilla/TTS #484 asks whether high or low is better",
        (ERROR, "2 * shared / links"),
    ),
    rate(
        "two_forgotten",
        "shared links are counted once, and they are in both numbers below the line",
        "no 2 in the formula",
        (ERROR, "1 - shared / links"),
    ),
    rate(
        "jaccard",
        "the shared links are divided by all different ones: that is Jaccard's measure",
        "intersection over union",
        (ERROR, "1 - shared / (links - shared)"),
    ),
    rate(
        "mean_of_sentences",
        "every sentence has a rate of its own, and the rates are averaged: add the counts first",
        "SeanNaren/deepspeech.pytorch #265, PaddlePaddle/PaddleSpeech #50",
        (
            ERROR,
            "sum(1 - 2 * len(m & r) / max(1, len(m) + len(r)) for m, r in zip(found, known)) "
            "/ len(known)",
        ),
    ),
    rate(
        "cut_to_the_shorter",
        "zip stops at the end of the shorter list: the sentences behind it are not compared",
        "zip without strict=True",
        ("len(found) != len(known) or ", ""),
        ("strict=True", "strict=False"),
    ),
    rate(
        "no_links_divide_by_zero",
        "no links at all lead to a ZeroDivisionError instead of a ValueError with words",
        "the empty set not thought of",
        (" or links == 0", ""),
    ),
)
