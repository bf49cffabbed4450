"""What goes wrong in chapter 14."""

from course_lib.exercises.mistake_catalogue import known

accuracy = known("evaluation", "token_accuracy")
link = known("evaluation", "alignment_from_attention")

GUESS = "logits.argmax(dim=-1) == targets"
RATIO = "right.sum().item() / real.sum().item()"
REACHED = "(weights >= threshold).nonzero().tolist()"

MISTAKES = (
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
        "a_list",
        "a list is returned: links are compared with & and need a set",
        "nonzero().tolist() returned as it is",
        ("{(t, s) for t, s in " + REACHED + "}", "[(t, s) for t, s in " + REACHED + "]"),
    ),
)
