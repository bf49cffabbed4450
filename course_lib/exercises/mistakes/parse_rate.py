"""What goes wrong in parse_rate."""

from course_lib.exercises.mistake_catalogue import known

rate = known("gpt", "parse_rate")

JUDGED = "bool(ast.parse(source).body)"
CAUGHT = "(SyntaxError, ValueError, RecursionError, MemoryError)"
SUM = "sum(parses(snippet.strip()) for snippet in snippets)"
SHARE = f"{SUM} / len(snippets)"


def judge(answer: str, caught: str = "Exception") -> tuple[tuple[str, str], ...]:
    """Judge each text in another way."""
    return (JUDGED, f"bool({answer})"), (CAUGHT, caught)


MISTAKES = (
    rate(
        "only_syntax_errors_caught",
        "only SyntaxError is caught: ast.parse has other words for texts that are no programs",
        "Smart-AI-Memory/attune-ai #2122; pylint-dev/astroid #2643; python/cpython #157586",
        *judge("ast.parse(source).body", "SyntaxError"),
    ),
    rate(
        "empty_counted",
        "an empty text counts as a program: ast.parse accepts it, and its body is empty",
        "danthedeckie/simpleeval #67 falls over such a body",
        *judge("ast.parse(source)"),
    ),
    rate(
        "comment_counted",
        "a comment alone counts as a program: ast.parse accepts it, and its body is empty",
        "student code: only the empty text is looked for",
        *judge("source and ast.parse(source)"),
    ),
    rate(
        "not_stripped",
        "spaces in front of a text count as indentation: strip it first",
        "lines cut out of functions; Python says: unexpected indent",
        (".strip()", ""),
    ),
    rate(
        "compiled",
        "texts are compiled, which asks for more than a program's grammar: parsing is enough",
        "taken out in Strategic-Automation/dspy-compounding-engineering #140",
        *judge("ast.parse(source).body and compile(source, '<text>', 'exec')"),
    ),
    rate(
        "run",
        "texts are run, and fail on names that nobody defined: never run what a model wrote",
        "taken out in guardrails-ai/guardrails #27 and langflow-ai/langflow #12244",
        *judge("ast.parse(source).body and exec(source, {}) is None"),
    ),
    rate(
        "expressions_only",
        "only expressions are accepted, as by eval: an assignment is a program, too",
        "ast.literal_eval and mode='eval', in student code",
        *judge("ast.parse(source, mode='eval')"),
    ),
    rate(
        "all_or_nothing",
        "all texts are judged together: one that fails spoils the others",
        "student code: a try around the loop",
        (SHARE, "float(all(parses(snippet.strip()) for snippet in snippets))"),
    ),
    rate(
        "counted_and_not_shared",
        "the count comes out: the share is asked for",
        "student code",
        (SHARE, SUM),
    ),
    rate(
        "share_of_the_others",
        "the share of texts that are *no* programs comes out",
        "error rates in place of success rates",
        (SHARE, f"1 - {SHARE}"),
    ),
    rate(
        "percent",
        "the share comes in percent: in [0, 1] is asked for",
        "metrics in [0, 100] beside others in [0, 1]",
        (SHARE, f"100 * {SHARE}"),
    ),
    rate(
        "twice_is_once",
        "texts that stand there twice are counted once",
        "student code: set(snippets)",
        (SHARE, SHARE.replace("snippets", "set(snippets)")),
    ),
    rate(
        "no_text_has_a_rate",
        "without any text the rate is 0: there is none, and a ValueError is due",
        "student code: return 0.0",
        ('raise ValueError("there is no text to parse")', "return 0.0"),
    ),
)
