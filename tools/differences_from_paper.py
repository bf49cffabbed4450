"""Find every place where the code says that it differs from the paper, and what is known of it."""

import ast
import json
import re
from pathlib import Path
from statistics import fmean

from difference_effects import RECORD as EFFECTS

from course_lib.trainer.results import read_entries, read_record

ROOT = Path(__file__).resolve().parent.parent
DIFFERS = re.compile(r'Differs: (.+?)(?=\n\s*\n|\n\s*Differs:|\n?\s*""")', re.S)
REVERSER = "loss of the digit reverser, three seeds:"  # tools/difference_effects.py
NOT_MEASURED = "not measured"
Row = tuple[str, str, str]  # the reason, the measured effect, the cell or test behind the row
LEDGER: dict[str, list[Row]] = {  # one row for each line, in the order of the lines
    "attention.scaled_dot_product_attention": [
        (
            "a softmax over nothing is nan, and nan spreads to every gradient",
            "a sentence of padding leaves all outputs and gradients finite",
            "tests/test_transformer.py::test_a_sentence_of_padding_leaves_everything_finite",
        )
    ],
    "multi_head.MultiHeadAttention": [
        (
            "weights go to and from `torch.nn` as they are",
            f"{REVERSER} {{ours}}; without the biases {{no biases in attention}}",
            "tests/test_multi_head.py::test_agrees_with_torch",
        ),
        (
            "`torch.nn` and GPT-2 drop weights, and are compared with",
            f"{REVERSER} {{ours}}; with a tenth dropped {{weights dropped}}",
            "tests/test_multi_head.py::test_dropout_drops_some_weights_and_scales_up_the_rest",
        ),
    ],
    "positions.PositionalEncoding": [
        (
            "a table is computed once, and a sentence that is too long is named",
            "none up to `max_len`: the rows are the formula's",
            "tests/test_positions.py::test_encoding_agrees_with_the_formula_of_the_paper",
        )
    ],
    "positions.LearnedPositionalEmbedding": [
        (
            "as GPT-2",
            "loss {learned positions} with this one, {louder positions} with the variance of the "
            "embeddings: less apart than seeds are",
            "notebooks/18_decoder_only.ipynb#c205d4dd",
        )
    ],
    "add_norm.LayerNorm": [
        (
            "without ε a constant vector has no finite gradient",
            "only an ε under the root keeps that gradient finite",
            "notebooks/04_add_norm.ipynb#6feccb20",
        )
    ],
    "add_norm.AddNorm": [
        (
            "one fused kernel; the one written out is for study",
            "none: outputs and gradients agree",
            "tests/test_add_norm.py::test_layer_norm_agrees_with_torch",
        ),
        (
            "GPT-2 and later models are pre-norm",
            "loss {no encoder} post-norm, {norm first} pre-norm (decoder only); in one run of 24 "
            "sub-layers pre-norm learned without a warm-up, post-norm did not",
            "notebooks/04_add_norm.ipynb#096fa126",
        ),
    ],
    "feed_forward.FeedForward": [
        (
            "`torch.nn.Transformer` drops features here, and is compared with",
            f"{REVERSER} {{ours}}; with a tenth dropped {{features dropped}}",
            "tests/test_feed_forward.py::test_dropout_acts_on_the_features_inside",
        )
    ],
    "encoder.Encoder": [
        (
            "in pre-norm nothing else bounds the scale of the residual stream",
            f"{REVERSER} {{pre-norm}} in pre-norm; without the last norms "
            "{pre-norm, no final norm}",
            "notebooks/04_add_norm.ipynb#40333200",
        )
    ],
    "decoder.Decoder": [
        (
            "as in the encoder",
            "as in the encoder, measured together with it",
            "tests/test_decoder.py::test_stack_agrees_with_torch",
        )
    ],
    "transformer.Transformer": [
        (
            "words and positions start at one scale",
            "from N(0, 1), torch's start, copying fails in 400 steps",
            "notebooks/09_transformer.ipynb#ac598676",
        ),
        (
            "the output is the embedding's matrix, which has none",
            f"{REVERSER} {{ours}}; with a bias {{output bias}}",
            "tests/test_transformer.py::test_tied_matrices_are_one_matrix_and_stay_one",
        ),
    ],
    "training.label_smoothed_cross_entropy": [
        (
            "padding is never a right answer",
            "a model that rules padding out is not punished for it",
            "tests/test_training.py::test_a_model_that_rules_padding_out_is_not_punished",
        )
    ],
    "training.warmup_inverse_sqrt": [
        (
            "the formula's first rate that exists",
            "none: from step 1 on the rates are the formula's",
            "tests/test_training.py::test_the_schedules_agree_with_their_formulas_by_hand",
        )
    ],
    "training.warmup_cooldown": [
        (
            "the paper's schedule is for 100,000 steps, ours for 450",
            f"{REVERSER} {{ours}} with the paper's, {{cooldown}} with this one",
            "tests/test_training.py::test_the_schedules_agree_with_their_formulas_by_hand",
        )
    ],
    "beam_search.length_penalty": [
        (
            "as the library `transformers`, whose scores ours equal",
            NOT_MEASURED,
            "tests/test_beam_search.py::test_the_penalty_of_the_paper",
        )
    ],
    "beam_search.beam_search": [
        (
            "the caller knows the longest target",
            "none on a sentence that ends before either limit",
            "tests/test_beam_search.py::test_unfinished_sentences_are_returned_where_none_finished",
        ),
        (
            "it stops as soon as nothing better can come, and no sooner",
            "none wrong: on 500 inputs it finds what a search over plain lists finds",
            "tests/test_beam_search.py::test_500_inputs_get_what_lists_find",
        ),
        (
            "as the library `transformers`, with whose translations a test compares ours",
            "on random chains with two hypotheses it finds the sentence with the best score in "
            "325 of 482 searches, and the rule of the paper's code in 455",
            "notebooks/14_beam_search.ipynb#b9c5165d",
        ),
    ],
    "evaluation.alignment_error_rate": [
        (
            "number words have one right alignment",
            "none where all links are sure: AER is then 1 − F1",
            "tests/test_evaluation.py::"
            "test_it_is_one_minus_the_harmonic_mean_of_precision_and_recall",
        )
    ],
    "evaluation.corpus_scores": [
        (
            "scores of plain text can be compared, with their signature",
            "five sentences, five ways: 44.0 to 72.7",
            "notebooks/15_evaluation.ipynb#5746969b",
        )
    ],
    "batching.batch_by_tokens": [
        (
            "one number bounds the memory of a batch",
            "padding stays below a tenth",
            "tests/test_batching.py::test_padding_is_below_a_tenth_where_random_batches_hold_far_more",
        )
    ],
    "batching.TokenBatches": [
        (
            "as `batch_by_tokens`",
            "as `batch_by_tokens`",
            "tests/test_batching.py::test_no_batch_is_larger_than_asked_and_most_are_nearly_full",
        )
    ],
    "decoder_only.DecoderOnly": [
        (
            "a language model has one text",
            "loss {encoder and decoder} with an encoder, {no encoder} without",
            "notebooks/18_decoder_only.ipynb#c205d4dd",
        )
    ],
    "gpt.CausalSelfAttention": [
        (
            "one matrix multiplication instead of three; dropout as GPT-2",
            "of one matrix none: logits and gradients agree; of dropout as in `MultiHeadAttention`",
            "tests/test_gpt.py::test_logits_loss_and_every_gradient_agree_with_torch",
        )
    ],
    "modern_decoder.RMSNorm": [
        (
            "a vector of zeros divides by no zero",
            "zeros stay zeros",
            "tests/test_modern_decoder.py::test_rms_norm_keeps_zeros_and_refuses_vectors_of_another_width",
        )
    ],
    "interop.gpt2": [
        (
            "our GELU is exact unless a published model asks",
            "none: logits are the library's with each activation",
            "tests/test_gpt2.py::test_the_logits_are_the_library_s",
        )
    ],
    "interop.llama": [
        (
            "ours is the pairing of the article on RoPE",
            "none: after the rows are reordered, logits are the library's",
            "tests/test_llama.py::test_the_logits_are_the_library_s_with_and_without_an_engine",
        )
    ],
    "interop.marian": [
        (
            "as published",
            "none: logits are the library's",
            "tests/test_marian.py::test_the_logits_are_the_library_s_with_padding_on_both_sides",
        )
    ],
}


def owner(tree: ast.Module, line: int) -> str:
    """Return the class or function at the top level that a line belongs to; "" outside of all."""
    for node in tree.body:
        named = isinstance(node, ast.ClassDef | ast.FunctionDef)
        if named and node.lineno <= line <= node.end_lineno:
            return node.name
    return ""


def differences() -> dict[str, list[str]]:
    """Return every ``Differs:`` of the package, by the definition that it stands in."""
    found: dict[str, list[str]] = {}
    package = ROOT / "course_lib"
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for match in DIFFERS.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            parts = [*path.relative_to(package).with_suffix("").parts, owner(ast.parse(text), line)]
            name = ".".join(filter(None, parts))
            found.setdefault(name, []).append(" ".join(match[1].replace("``", "`").split()))
    return found


def is_there(evidence: str) -> bool:
    """Whether the test or the cell that a row names exists."""
    name, _, test = evidence.partition("::")
    if test:
        return f"def {test}(" in (ROOT / name).read_text(encoding="utf-8")
    name, _, cell = evidence.partition("#")
    cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
    return cell in [each["id"] for each in cells]


def ledger() -> list[tuple[str, str, str, str, str]]:
    """Return place, difference, reason, measured effect, and what is behind it.

    Raises:
        ValueError: If a ``Differs:`` has no row, a row has no ``Differs:``, or a cell or test is
            not there.
    """
    found = differences()
    for name in found.keys() | LEDGER.keys():
        lines, rows = len(found.get(name, ())), len(LEDGER.get(name, ()))
        if lines != rows:
            raise ValueError(f"{name}: {lines} times `Differs:`, and {rows} rows in LEDGER")
    losses: dict[str, list[float]] = {}
    for entry in [*read_record("ablation"), *read_entries(EFFECTS)]:
        losses.setdefault(entry["name"], []).append(entry["val_loss"])
    means = {name: f"{fmean(values):.3f}" for name, values in losses.items()}
    rows = []
    for name, texts in found.items():
        for text, (reason, effect, evidence) in zip(texts, LEDGER[name], strict=True):
            if not is_there(evidence):
                raise ValueError(f"{name}: there is no {evidence}")
            rows.append((f"`{name}`", text, reason, effect.format(**means), f"`{evidence}`"))
    return rows
