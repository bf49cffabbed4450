"""Exercises for chapter 10: trials and known mistakes."""

from collections.abc import Callable, Mapping

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import Trial, as_trial

FOUR_WORDS = {"s i x": 5, "s i x t e e n": 2, "s e v e n": 4, "s e v e n t e e n": 3}
FOUR_MERGES = ("e n", "e v", "i x", "s ev", "s ix", "sev en", "e en", "t een")
NUMBER_MERGES = ("n t", "e nt", "e n", "s i", "si e", "sie b", "sieb en")
LATE_MERGES = ("e v", "s ev", "t e", "n t", "e nt", "e n")
TEXT = "\n".join(word.replace(" ", "") for word, n in FOUR_WORDS.items() for _ in range(n))
COUNTS = "In each word, count every pair of neighbors, and multiply the result by the word's count."
LEFT_TO_RIGHT = "Go from left to right, and continue after the two tokens that you have merged."
RANKS = "Of all pairs of neighbors in the word, merge the one with the lowest rank first."
Pair = tuple[bytes, bytes]
Tokens = tuple[bytes, ...]


def cut(written: str) -> Tokens:
    """Parse tokens that are separated by spaces."""
    return tuple(token.encode() for token in written.split())


def shown(tokens: Tokens) -> str:
    """Format tokens the way Python does, but without quotes."""
    return "·".join(repr(token)[2:-1].replace(" ", "␣") for token in tokens)


def counted(label: str, words: Mapping[str, int]) -> Trial:
    """Compare how often every pair appears."""

    @as_trial(label, COUNTS, "equality")
    def measure(candidate: Callable[..., Mapping[Pair, int]]) -> dict[str, int]:
        pairs = dict(candidate({cut(word): count for word, count in words.items()}))
        found = {f"count of {shown(pair)}": int(n) for pair, n in sorted(pairs.items()) if n}
        return {"different pairs": len(found)} | found

    return measure


def merged(label: str, *cases: tuple[str, str], says: str = LEFT_TO_RIGHT) -> Trial:
    """Compare the tokens after a merge; each case is a word and a merge."""

    @as_trial(label, says, "equality")
    def measure(candidate: Callable[[Tokens, Pair], Tokens]) -> dict[str, str]:
        return {
            f"{word.replace(' ', '·')} after {pair.replace(' ', ' + ')}": shown(
                candidate(cut(word), cut(pair))
            )
            for word, pair in cases
        }

    return measure


@as_trial("the type of the result", "Return a tuple, because the tokens serve as a dictionary key.")
def as_a_key(candidate: Callable[[Tokens, Pair], Tokens]) -> dict[str, str]:
    return {"type": type(candidate(cut("s i x"), cut("i x"))).__name__}


def learned(label: str, text: str, num_merges: int, says: str, **options: bool) -> Trial:
    """Compare the merges learned from a text."""

    @as_trial(label, says, "equality")
    def measure(candidate: Callable[..., list[Pair]]) -> dict[str, str | int]:
        merges = candidate(text, num_merges, **options)
        kinds = {type(pair).__name__ for pair in merges} or {"tuple"}
        written = ", ".join(f"{shown((left,))} + {shown((right,))}" for left, right in merges)
        return {"merges": written or "none", "type of a merge": " and ".join(sorted(kinds))}

    return measure


def applied(label: str, merges: tuple[str, ...], *words: str) -> Trial:
    """Compare the tokens of words after all merges."""
    ranks = {cut(merge): rank for rank, merge in reversed([*enumerate(merges)])}

    @as_trial(label, RANKS, "equality")
    def measure(candidate: Callable[..., Tokens]) -> dict[str, str]:
        tokens = {word: tuple(bytes([n]) for n in word.encode()) for word in words}
        return {word or "no token": shown(candidate(tokens[word], dict(ranks))) for word in words}

    return measure


EXERCISES = (
    Exercise(
        "count_pairs",
        10,
        core={
            "pairs": (
                counted("the chapter's four words", FOUR_WORDS),
                counted("longer tokens", {"sev en t e en": 3, "en t en": 2}),
            ),
            "repeated tokens": (counted("a·a·a", {"a a a": 1, "b a a b a a": 2}),),
            "single tokens": (counted("words of one token", {"six": 5, "": 1}),),
        },
        hints=(
            "Go through the words. In each word, go through the pairs of neighbors, and add the "
            "count of the *word* to the count of the pair.",
            "`zip(tokens, tokens[1:])` or `pairwise(tokens)` yields the pairs of neighbors, and a "
            "`Counter` starts each count at 0: `pairs[pair] += count`.",
        ),
    ),
    Exercise(
        "merge_pair",
        10,
        core={
            "merge": (
                merged("one pair in a word", ("s i x t e e n", "e n"), ("s ix", "s ix")),
                merged("several pairs, or none", ("b a n a n a", "a n"), ("s i x", "x i")),
                as_a_key,
            ),
            "repeated tokens": (merged("a·a·a", ("a a a", "a a"), ("a a a a a", "a a")),),
            "token borders": (
                merged(
                    "tokens that end or begin like those in the pair",
                    *(("th e s", "the s"), ("the s e", "e s"), ("x s ev", "s e"), ("a bc", "ab c")),
                    says="Compare whole tokens instead of searching the joined text.",
                ),
            ),
            "short words": (merged("at most one token", ("a", "a a"), ("", "a a")),),
        },
        hints=(
            "Keep track of your position. If the next two tokens are the pair, append both as one "
            "token and move forward by two positions; if not, append one token and move by one.",
            "`tokens[position : position + 2] == pair` also works at the last token, because a "
            "slice may reach past the end. Return `tuple(merged)`.",
        ),
    ),
    Exercise(
        "train_bpe",
        20,
        core={
            "most frequent": (
                learned(
                    "counts that differ",
                    *("ten\n" * 5 + "ben\n" * 3, 3, "Merge the most frequent pair."),
                ),
                learned(
                    "repeated letters and capitals",
                    *(
                        "aaa aaa\n" + "BC\n" * 3,
                        3,
                        "Count with `count_pairs`, and leave the text unchanged.",
                    ),
                ),
            ),
            "ties": (
                learned(
                    "the chapter's four words",
                    *(TEXT, 8),
                    "Among equally frequent pairs, choose the one whose left token has the "
                    "smallest id; if several do, compare their right tokens.",
                ),
            ),
            "spaces": (
                learned(
                    "a text with spaces",
                    *("ab ab ab ac", 2),
                    "Merge only within a word. A space belongs to the word after it.",
                ),
            ),
            "no pair left": (
                learned("few pairs", "ab", 5, "Stop when no pair is left."),
                learned("an empty text", "", 5, "Stop when no pair is left."),
            ),
            "bytes": (
                learned("Chinese text", "七七八", 2, "Begin with bytes instead of characters."),
            ),
        },
        hints=(
            "`Counter(byte_words(text, pre_tokenize))` counts the words. Then repeat: count the "
            "pairs, choose the best one, append it to the merges, and merge it in every word.",
            "Give each token an id: first the tokens in `BYTES`, then each new token. The best "
            "pair is `min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))`.",
        ),
        extras={
            "without words": (
                learned(
                    "pre_tokenize=False",
                    *("ab ab ab ac", 2, "Pass `pre_tokenize` on to `byte_words`."),
                    pre_tokenize=False,
                ),
            ),
        },
    ),
    Exercise(
        "apply_merges",
        10,
        core={
            "merges": (applied("the merges of the chapter", FOUR_MERGES, "sixteenth", "eleven"),),
            "order": (
                applied("overlapping merges", NUMBER_MERGES, "siebent", "bent"),
                applied("a frequent pair whose merge comes later", ("t e", "e n"), "tenen", "ten"),
                applied("a longer token whose merge comes later", LATE_MERGES, "sevent", "event"),
                applied("a longer token whose merge comes last", ("a b", "c d", "ab c"), "abcd"),
            ),
            "nothing fits": (applied("no merge that fits", FOUR_MERGES, "ab", "a", ""),),
        },
        hints=(
            "List the pairs of neighbors that are in `ranks`. If there are none, you are done. "
            "Otherwise merge the one with the lowest rank, and look again.",
            "`min(fitting, key=lambda pair: ranks[pair])` is the pair to merge with `merge_pair`.",
        ),
    ),
)


# known mistakes


LOOP = (
    "for tokens, count in words.items():\n"
    "        for pair in pairwise(tokens):\n"
    "            pairs[pair] += count"
)
ACROSS = (
    "text = [token for word, n in words.items() for _ in range(n) for token in word]\n"
    "    pairs.update(pairwise(text))"
)
GAP = "            position += 2\n"
BEST = "min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))"
LOWEST = "min(fitting, key=lambda pair: ranks[pair])"
LONGEST = (
    "made = {left + right for left, right in ranks}\n"
    "    text, found = b''.join(tokens), []\n"
    "    while text:\n"
    "        size = max((len(t) for t in made if text.startswith(t)), default=1)\n"
    "        found, text = [*found, text[:size]], text[size:]\n"
    "    return tuple(found)\n"
    "    while True:"
)
FITTING = "fitting = [pair for pair in pairwise(tokens) if pair in ranks]"
WHILE = f"""while True:
        {FITTING}
        if not fitting:
            return tokens
        tokens = merge_pair(tokens, {LOWEST})"""
BY_RANK = "sorted(ranks, key=lambda pair: ranks[pair])"
IN_ORDER = f"""for pair in {BY_RANK}:
        tokens = merge_pair(tokens, pair)
    return tokens"""

MISTAKES = {
    "count_pairs": {
        "word_counts_ignored: each distinct word counts only once, no matter how often it appears "
        "in the text": ("+= count", "+= 1"),
        "once_per_word: a pair counts only once in a word that contains it several times": (
            "pairwise(tokens)",
            "set(pairwise(tokens))",
        ),
        "across_words: the last token of a word and the first token of the next word count as "
        "neighbors": (LOOP, ACROSS),
        "last_word_only: a pair gets the count of the last word that contains it, because the "
        "counts are not added up": ("+= count", "= count"),
        "order_ignored: *e*, *n* and *n*, *e* count as the same pair": (
            "pairs[pair]",
            "pairs[tuple(sorted(pair))]",
        ),
        "overlaps_left_out: the pair *a*, *a* counts only once in *a·a·a*, as it does in "
        "SentencePiece, but here and in the `tokenizers` library it counts twice [karpathy/minbpe "
        "#72, google/sentencepiece #318]": (
            "for pair in pairwise(tokens):\n",
            "used = -1\n        for n, pair in enumerate(pairwise(tokens)):\n"
            "            if pair[0] == pair[1] and used == n - 1 and n:\n"
            "                used = -1\n                continue\n"
            "            used = n if pair[0] == pair[1] else -1\n",
        ),
        "last_pair_missing: the last pair of each word is not counted": (
            "pairwise(tokens)",
            "pairwise(tokens[:-1])",
        ),
        "token_with_itself: each token is paired with itself instead of with its right neighbor": (
            "pairwise(tokens)",
            "zip(tokens, tokens)",
        ),
    },
    "merge_pair": {
        "first_only: only the first occurrence of the pair in the word is merged": (
            GAP,
            f"{GAP}            merged += tokens[position:]\n            break\n",
        ),
        "right_token_kept: the loop moves forward by only one position after a merge, so the "
        "second token of the pair is also kept": ("position += 2", "position += 1"),
        "run_swallowed: overlapping pairs are all merged into one token, so *a·a·a* becomes *aa* "
        "and a letter is lost [karpathy/minbpe #38]": (
            GAP,
            f"{GAP}            while tokens[position - 1 : position + 1] == pair:\n"
            "                position += 1\n",
        ),
        "right_to_left: the word is read from right to left, so *a·a·a* becomes *a·aa*": (
            ("merged = []", "merged, tokens, pair = [], tokens[::-1], pair[::-1]"),
            ("pair[0] + pair[1]", "pair[1] + pair[0]"),
            ("return tuple(merged)", "return tuple(merged[::-1])"),
        ),
        "last_token_lost: the loop ends one position early, so the last token is lost": (
            "while position < len(tokens):",
            "while position < len(tokens) - 1:",
        ),
        "text_replaced: the tokens are joined with spaces and the pair is replaced as text, so the "
        "merge *e + s* turns *the·s* into *thes*": (
            "merged = []",
            'joined = b" ".join(tokens).replace(b" ".join(pair), b"".join(pair))\n'
            "    return tuple(joined.split())",
        ),
        "order_ignored: the pair is also merged where its tokens come in the opposite order": (
            "== pair",
            "in (pair, pair[::-1])",
        ),
        "list_returned: a list is returned, but the tokens of a word serve as a dictionary key": (
            "return tuple(merged)",
            "return merged",
        ),
    },
    "train_bpe": {
        "ties_first_seen: the pair that was counted first wins a tie, so the order of the text "
        "matters [karpathy/minbpe #90]": (BEST, "max(pairs, key=lambda pair: pairs[pair])"),
        "ties_largest: the pair with the largest ids wins a tie": (
            BEST,
            "max(pairs, key=lambda pair: (pairs[pair], ids[pair[0]], ids[pair[1]]))",
        ),
        "ties_by_alphabet: the alphabetically first pair wins a tie, even though all new tokens "
        "have "
        "larger ids than the bytes": (BEST, "min(pairs, key=lambda pair: (-pairs[pair], pair))"),
        "across_spaces: the text is not split into words, so merges cross spaces "
        "[rasbt/LLMs-from-scratch "
        "#975]": ("byte_words(text, pre_tokenize)", "byte_words(text, False)"),
        "empty_pair_list: the loop continues even when no pairs are left, so `min` gets an empty "
        "list and raises an error [karpathy/minbpe "
        "#114, rasbt/LLMs-from-scratch #1004]": ("        if not pairs:\n            break\n", ""),
        "stops_at_pairs_seen_once: the loop stops when no pair appears twice, as it does in "
        "subword-nmt, but here and in the `tokenizers` library it continues [rsennrich/subword-nmt "
        "#33]": ("if not pairs:", "if not pairs or max(pairs.values()) == 1:"),
        "ids_by_value: the id of a byte is its value, but in `BYTES` the space comes after the "
        "letters": ("enumerate(BYTES)", "enumerate(sorted(BYTES))"),
        "rarest_pair: the rarest pair is merged instead of the most frequent one": (
            "-pairs[pair], ids",
            "pairs[pair], ids",
        ),
        "word_counts_ignored: each distinct word counts only once, no matter how often it appears "
        "in the text": (
            "Counter(byte_words(text, pre_tokenize))",
            "Counter(set(byte_words(text, pre_tokenize)))",
        ),
        "counts_not_updated: the pairs are counted only once, before the first merge": (
            "for _ in range(num_merges):\n        pairs = count_pairs(words)\n",
            "pairs = count_pairs(words)\n    for _ in range(num_merges):\n",
        ),
        "vocabulary_size: `num_merges` is treated as the size of the vocabulary, which also "
        "contains the 256 bytes": ("range(num_merges)", "range(num_merges - 256)"),
        **ignored(("pre_tokenize", ("byte_words(text, pre_tokenize)", "byte_words(text)"))),
    },
    "apply_merges": {
        "by_frequency: the pair that is most frequent in this word is merged first, instead of the "
        "one that was learned first": (LOWEST, "max(fitting, key=fitting.count)"),
        "left_to_right: the leftmost pair that can be merged is merged first, whatever its rank "
        "[rasbt/LLMs-from-scratch #558]": (LOWEST, "fitting[0]"),
        "last_learned_first: the pair with the highest rank is merged first": (
            LOWEST,
            LOWEST.replace("min", "max"),
        ),
        "longest_token: the word is split greedily into the longest tokens in the vocabulary": (
            "while True:",
            LONGEST,
        ),
        "as_listed: every merge is tried once, in the order in which the dictionary lists them, so "
        "their ranks are not used": (WHILE, IN_ORDER.replace(BY_RANK, "ranks")),
        "one_merge: the word is returned after a single merge": (
            "tokens = merge_pair(",
            "return merge_pair(",
        ),
        "empty_pair_list: `min` gets an empty list when no more merges can be applied": (
            "        if not fitting:\n            return tokens\n",
            "",
        ),
        "unknown_pair: the code looks up the rank of a pair that is not a merge": (
            " if pair in ranks]",
            "]",
        ),
    },
}
