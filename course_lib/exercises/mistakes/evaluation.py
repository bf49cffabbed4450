"""What goes wrong in chapter 14."""

from course_lib.exercises.mistake_catalogue import known

share = known("evaluation", "exact_match")
accuracy = known("evaluation", "token_accuracy")
link = known("evaluation", "alignment_from_attention")
rate = known("evaluation", "alignment_error_rate")

EQUAL = "sum(a == b for a, b in zip(written, wanted, strict=True))"
SAME_NUMBER = " or len(written) != len(wanted)"
GUESS = "logits.argmax(dim=-1) == targets"
RATIO = "right.sum().item() / real.sum().item()"
REACHED = "(weights >= threshold).nonzero().tolist()"
ERROR = "1 - 2 * shared / links"

MISTAKES = (
    share(
        "small_letters",
        "both texts are put into small letters before they are compared",
        "scorers that ignore case unasked",
        ("a == b", "a.lower() == b.lower()"),
    ),
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
        "student code: text in wanted",
        ("a == b", "a in wanted"),
    ),
    share(
        "sets_compared",
        "the lists are compared as sets: order and repeats are lost",
        "UKGovernmentBEIS/inspect_ai #4618, with the words of a text",
        (EQUAL + " / len(wanted)", "len(set(written) & set(wanted)) / len(set(wanted))"),
    ),
    share(
        "contained",
        "a text is right as soon as the right one is somewhere in it",
        "scorers called contains or includes",
        ("a == b", "b in a"),
    ),
    share(
        "beginning_is_enough",
        "a text is right as soon as the right one begins with it",
        "student code: startswith",
        ("a == b", "b.startswith(a)"),
    ),
    share(
        "count_returned",
        "the count is returned: divide by the number of texts",
        "student code",
        (" / len(wanted)", ""),
    ),
    share(
        "percent",
        "the share comes in percent: in [0, 1] is asked for",
        "metrics in [0, 100] beside others in [0, 1]",
        (" / len(wanted)", " / len(wanted) * 100"),
    ),
    share(
        "rounded",
        "the share is rounded to one place: round what is shown, not what is returned",
        "student code: round(x, 1)",
        (f"return {EQUAL} / len(wanted)", f"return round({EQUAL} / len(wanted), 1)"),
    ),
    share(
        "all_or_nothing",
        "the whole lists are compared at once",
        "student code: float(written == wanted)",
        (EQUAL + " / len(wanted)", "float(list(written) == list(wanted))"),
    ),
    share(
        "wrong_share",
        "the share of *wrong* texts is returned",
        "student code: an error rate",
        ("a == b", "a != b"),
    ),
    share(
        "letters_counted",
        "letters are counted at their places instead of texts",
        "student code: a for loop too many",
        ("a == b", "sum(x == y for x, y in zip(a, b)) / max(len(a), len(b))"),
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
        "student code",
        ("not wanted or ", ""),
    ),
    share(
        "numbers_not_said",
        "the error does not say how many texts there are on the two sides",
        "student code",
        ('f"{len(written)} texts cannot be compared with {len(wanted)}"', '"other lengths"'),
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
        "the right tokens are divided by all places, padding among them",
        "jsbaan/transformer-from-scratch #7",
        (RATIO, "right.sum().item() / targets.numel()"),
    ),
    accuracy(
        "guessed_padding_counted",
        "padding that was guessed is counted among the right tokens",
        "student code: the mask is used once, below the line only",
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
        "student code: targets != 0",
        ("targets != pad_id", "targets != 0"),
    ),
    accuracy(
        "least_likely",
        "the token with the lowest score is taken for the guess",
        "student code: argmin of what are no losses",
        ("argmax(", "argmin("),
    ),
    accuracy(
        "shifted_once_more",
        "the targets are shifted against the logits, and they are shifted already",
        "student code: shifted again, as for a language model's labels",
        (GUESS, "logits.argmax(dim=-1) == targets.roll(-1, dims=1)"),
    ),
    accuracy(
        "sentences_counted",
        "a row counts only if all of its tokens are right: that is another question",
        "modelscope/ms-swift #10049 has both",
        (RATIO, "(right | ~real).all(dim=1).float().mean().item()"),
    ),
    accuracy(
        "probability_of_the_right",
        "the mean probability of the right tokens is returned: count guesses",
        "student code",
        (RATIO, "logits.softmax(-1).gather(-1, targets[..., None])[real].mean().item()"),
    ),
    accuracy(
        "anywhere_in_the_row",
        "a guess is right when its token stands anywhere in the row",
        "OpenNMT/OpenNMT-py #1944 asks which of the two it is",
        (f"({GUESS})", "(logits.argmax(dim=-1)[:, :, None] == targets[:, None]).any(dim=-1)"),
    ),
    accuracy(
        "count_returned",
        "the count of right tokens is returned: divide by the number of real ones",
        "student code",
        (RATIO, "right.sum().item()"),
    ),
    accuracy(
        "percent",
        "the share comes in percent: in [0, 1] is asked for",
        "metrics in [0, 100] beside others in [0, 1]",
        (RATIO, "100 * right.sum().item() / real.sum().item()"),
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
        "student code: > for >=",
        (">=", ">"),
    ),
    link(
        "below_the_threshold",
        "the weak pairs are linked",
        "student code: a comparison the wrong way round",
        (">=", "<"),
    ),
    link(
        "strongest_of_each_target",
        "every target gets the one source with the highest weight, whatever the threshold",
        "OpenNMT/CTranslate2 #563, lilt/alignment-scripts #2: another rule, and a common one",
        (REACHED, "enumerate(weights.argmax(dim=1).tolist())"),
    ),
    link(
        "strongest_of_each_source",
        "every source gets the one target with the highest weight, whatever the threshold",
        "student code: argmax over the other axis",
        (
            "(t, s) for t, s in " + REACHED,
            "(t, s) for s, t in enumerate(weights.argmax(0).tolist())",
        ),
    ),
    link(
        "strongest_above_the_threshold",
        "only the strongest source of each target is linked, if it reaches the threshold",
        "student code",
        (
            REACHED,
            "((weights >= threshold) & (weights == weights.amax(1, True))).nonzero().tolist()",
        ),
    ),
    link(
        "counted_from_one",
        "the places count from 1",
        "neulab/awesome-align #20",
        ("{(t, s) for", "{(t + 1, s + 1) for"),
    ),
    link(
        "tensors_in_the_set",
        "the places are tensors, and no two tensors are the same element of a set: use .tolist()",
        "student code: iterating over nonzero()",
        (".nonzero().tolist()", ".nonzero()"),
    ),
    link(
        "a_list",
        "a list is returned: links are compared with & and need a set",
        "student code",
        ("{(t, s) for t, s in " + REACHED + "}", "[(t, s) for t, s in " + REACHED + "]"),
    ),
    link(
        "relative_to_the_strongest",
        "the threshold is a share of the strongest weight of the map",
        "student code: weights / weights.max()",
        ("weights >= threshold", "weights >= threshold * weights.max()"),
    ),
    link(
        "softmax_again",
        "a softmax is taken of what are probabilities already",
        "student code",
        ("weights >= threshold", "weights.softmax(dim=-1) >= threshold"),
    ),
    link(
        "threshold_one_refused",
        "threshold 1 is refused: a weight can reach it",
        "student code",
        ("threshold <= 1", "threshold < 1"),
    ),
    link(
        "threshold_zero_accepted",
        "threshold 0 passes, and links everything with everything",
        "student code",
        ("0 < threshold", "0 <= threshold"),
    ),
    link(
        "heads_accepted",
        "weights of other than two axes are not refused in words",
        "student code",
        ("weights.dim() != 2 or ", ""),
    ),
    link(
        "threshold_not_checked",
        "any threshold passes",
        "student code",
        (" or not 0 < threshold <= 1", ""),
    ),
    rate(
        "precision_only",
        "only links too many cost: those that are missing do not show",
        "student code: 1 - precision",
        (ERROR, "1 - shared / max(1, sum(map(len, found)))"),
    ),
    rate(
        "recall_only",
        "only missing links cost: linking everything would be perfect",
        "student code: 1 - recall",
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
        "student code: no 2 in the formula",
        (ERROR, "1 - shared / links"),
    ),
    rate(
        "jaccard",
        "the shared links are divided by all different ones: that is Jaccard's measure",
        "student code: intersection over union",
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
        "sentences_pooled",
        "the links of all sentences are put into one set: (0, 0) of one becomes (0, 0) of another",
        "student code: set.union(*links)",
        (
            ERROR,
            "1 - 2 * len(set().union(*found) & set().union(*known)) / "
            "(len(set().union(*found)) + len(set().union(*known)))",
        ),
    ),
    rate(
        "silent_sentences_skipped",
        "sentences without a found link are skipped: nothing found is not free",
        "student code: if not found: continue",
        (
            "links = ",
            "known = [r for m, r in zip(found, known) if m] if len(found) == len(known) "
            "else known\n    found = [m for m in found if m]\n    links = ",
        ),
    ),
    rate(
        "all_links_shared",
        "links in *either* set are counted as shared: | stands for &",
        "student code",
        ("mine & right", "mine | right"),
    ),
    rate(
        "percent",
        "the rate comes in percent: in [0, 1] is asked for",
        "tools that print AER in percent: neulab/awesome-align #20",
        (ERROR, "100 * (1 - 2 * shared / links)"),
    ),
    rate(
        "sentence_or_nothing",
        "a sentence is right only if all its links are: count links",
        "student code",
        (ERROR, "sum(m != r for m, r in zip(found, known)) / len(known)"),
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
        "student code",
        (" or links == 0", ""),
    ),
    rate(
        "no_links_are_perfect",
        "no links at all count as no error: there is nothing to say about them",
        "student code: a guard against 0 / 0",
        (" or links == 0", ""),
        (ERROR, "1 - 2 * shared / links if links else 0.0"),
    ),
)
