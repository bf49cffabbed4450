"""What is asked of chapter 21: table 1's three counts; then an attention's, then a model's."""

from collections.abc import Callable, Mapping
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, refuses, value_trial
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trials.attention_flops import EXERCISES as ATTENTION
from course_lib.exercises.trials.flops_reference import counted, written
from course_lib.exercises.trials.forward_flops import EXERCISES as MODEL

NAMES = SELF, RECURRENT, CONVOLUTION = "self-attention", "recurrent", "convolution"
SIZES = {  # length, d_model, kernel_size; what each layer multiplies
    "a text of 7, 5 wide": ((7, 5, 2), (7 * 7 * 5, 7 * 25, 2 * 7 * 25)),
    "a text of 6, 10 wide": ((6, 10, 5), (36 * 10, 6 * 100, 5 * 6 * 100)),
    "a kernel that sees one": ((4, 3, 1), (16 * 3, 4 * 9, 4 * 9)),
    "a kernel longer than the text": ((2, 3, 9), (4 * 3, 2 * 9, 9 * 2 * 9)),
    "one position": ((1, 6, 3), (6, 36, 3 * 36)),
    "vectors of one number": ((6, 1, 3), (36, 6, 3 * 6)),
    "a text as long as the vectors are wide": ((8, 8, 3), (512, 512, 3 * 512)),
    "a long text": ((70_000, 512, 7), (2_508_800_000_000, 18_350_080_000, 128_450_560_000)),
}
BELOW = {
    "a text of 0": (0, 4, 3),
    "vectors of width 0": (4, 0, 3),
    "a kernel that sees nothing": (4, 4, 0),
    "a length of -2": (-2, 4, 3),
    "a width and a kernel of -1": (4, -1, -1),
}


def asked(candidate: Callable, length: int, d_model: int, kernel_size: int) -> dict[str, Any]:
    """Ask for the three counts.

    Raises:
        TypeError: If no dict comes out.
    """
    answer = candidate(length, d_model, kernel_size=kernel_size)
    if not isinstance(answer, Mapping):
        raise TypeError(f"a dict of three counts should come out, and not {describe(answer)}")
    return {name: counted(count) for name, count in answer.items()}


def names(candidate: Callable) -> dict[str, str]:
    """Name what comes out."""
    answer = candidate(7, 5)
    named = isinstance(answer, Mapping)
    return {"the names": ", ".join(map(str, answer)) if named else describe(answer)}


def told(candidate: Callable) -> dict[str, str]:
    """Ask for all sizes."""
    return {
        f"{kind} with {label}": written(count)
        for label, (sizes, _) in SIZES.items()
        for kind, count in asked(candidate, *sizes).items()
    }


def default(candidate: Callable) -> dict[str, str]:
    """Ask without a kernel size."""
    return {name: written(counted(count)) for name, count in candidate(7, 5).items()}


def growth(label: str, sizes: tuple[int, int, int], grown: tuple[int, ...], says: str) -> Trial:
    """Double one of the sizes (5, 7, 2), and compare how much more the three layers take."""

    def act(candidate: Callable) -> dict[str, float]:
        """Divide what comes out after by what came out before."""
        before, after = asked(candidate, 5, 7, 2), asked(candidate, *sizes)
        return {
            f"{name} takes times as much": after[name] / before[name] if before[name] else 0.0
            for name in before
        }

    wanted = zip(NAMES, grown, strict=True)
    return value_trial(
        label, act, {f"{name} takes times as much": float(n) for name, n in wanted}, says=says
    )


EXERCISES = (
    Exercise(
        "layer_operations",
        "flops",
        8,
        (
            value_trial(
                "a text of 7, 5 wide",
                names,
                {"the names": ", ".join(NAMES)},
                stage="shape",
                says="A dict with these three names, in the table's order.",
            ),
            growth(
                "a text twice as long",
                (10, 7, 2),
                (4, 2, 2),
                "Every position hears every other in self-attention: twice as long is four times "
                "as much. The two others go along the text once.",
            ),
            growth(
                "vectors twice as wide",
                (5, 14, 2),
                (2, 4, 4),
                "A dot product of two positions takes d_model multiplications; a matrix of a "
                "recurrent layer or of a convolution has d_model² numbers.",
            ),
            growth(
                "a kernel twice as wide",
                (5, 7, 4),
                (1, 1, 2),
                "A convolution has a matrix for each of the neighbours it sees; the two others "
                "have no kernel.",
            ),
            value_trial(
                "several sizes",
                told,
                {
                    f"{kind} with {label}": written(count)
                    for label, (_, counts) in SIZES.items()
                    for kind, count in zip(NAMES, counts, strict=True)
                },
                stage="equality",
                says="Table 1: n² · d, n · d² and k · n · d².",
            ),
            value_trial(
                "no kernel size given",
                default,
                {SELF: "245", RECURRENT: "175", CONVOLUTION: "525"},
                stage="equality",
                says="Unless another is given, the kernel sees 3.",
            ),
            value_trial(
                "sizes below 1",
                lambda candidate: {
                    name: refuses(asked, candidate, *sizes) for name, sizes in BELOW.items()
                },
                dict.fromkeys(BELOW, "a ValueError"),
                says="All three count from 1; below it, a ValueError is due.",
            ),
        ),
        (
            "Look at table 1's first column, and let n be `length`, d `d_model` and k "
            "`kernel_size`. Of n positions, how many pairs are there?",
            "A pair takes d multiplications, a matrix d². How many of each does a layer use?",
            '`{"self-attention": length**2 * d_model, …}`; a guard comes first: `min(…) < 1`.',
        ),
    ),
    *ATTENTION,
    *MODEL,
)
