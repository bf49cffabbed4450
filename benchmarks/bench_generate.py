"""Measure decoding against ``generate`` of the library ``transformers``, on the same weights."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from timing import HEAD as TIMES
from timing import Row, cells, compared, in_turns
from torch import Tensor

from course_lib.beam_search import beam_search
from course_lib.decoding import greedy_decode
from course_lib.gpt import sample
from course_lib.interop import gpt2, marian
from course_lib.trainer.hardware import one_thread

Writer = Callable[[], Tensor]
SENTENCES = 16
SOURCE = 64
PROMPT = 16
VOCAB = 8_000
PAD, EOS = 1, 2
WIDTH, HEADS, LAYERS = 256, 4, 3
BEAMS = 4
TOP_K = 50
LENGTHS = {64: 9, 128: 7, 256: 5}  # new tokens: pairs of runs
GOALS = {
    "greedy": 1.15,
    "beam 4": 1.2,
    "GPT, greedy": 1.15,
    "sampling": 1.3,
    "sampling, top-k 50": 1.3,
}
HEAD = f"{'':34}{TIMES} {'goal':>6} {'pairs':>6}"


def saved(model: transformers.PreTrainedModel, load: Callable) -> tuple:
    """Save a model of the library as published ones are, load it as ours; return both."""
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load(Path(folder))[0], model.eval()


def translators() -> tuple:
    """Build a Marian model and ours with random weights; no sentence ends before the limit."""
    torch.manual_seed(0)
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 4 * WIDTH))
    }
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=WIDTH, max_position_embeddings=512, scale_embedding=True,
        activation_function="swish", pad_token_id=PAD, decoder_start_token_id=PAD,
        eos_token_id=EOS, forced_eos_token_id=None, **sides,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    model.final_logits_bias[:, [PAD, EOS]] = -1e4
    return saved(model, marian.from_pretrained)


def generators() -> tuple:
    """Build a GPT-2 model and ours with random weights."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=512, n_embd=WIDTH, n_layer=2 * LAYERS, n_head=HEADS,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return saved(transformers.GPT2LMHeadModel(config), gpt2.from_pretrained)


def translate(length: int, beams: int) -> tuple[Writer, Writer]:
    """Return what writes so many tokens by our greedy or beam search, and by the library's."""
    ours, theirs = translators()
    src = torch.randint(3, VOCAB, (SENTENCES, SOURCE), generator=torch.Generator().manual_seed(0))
    options = dict(bos_id=ours.config.bos_id, eos_id=EOS, max_new_tokens=length)
    search = dict(num_beams=beams, do_sample=False, early_stopping="never" if beams > 1 else False)

    def write() -> Tensor:
        """Write by ours."""
        if beams == 1:
            return greedy_decode(ours, src, **options)
        return beam_search(ours, src, beam_size=beams, alpha=0.0, **options)[0][:, 0]

    def generate() -> Tensor:
        """Write by the library."""
        ids = theirs.generate(
            src, attention_mask=torch.ones_like(src), max_new_tokens=length, length_penalty=0.0,
            **search,
        )  # fmt: skip
        return ids[:, 1:]

    return write, generate


def go_on(length: int, top_k: int | None, greedy: bool = False) -> tuple[Writer, Writer]:
    """Return what draws so many tokens by our ``sample``, and by the library; greedy: top-k 1."""
    ours, theirs = generators()
    ids = torch.randint(VOCAB, (SENTENCES, PROMPT), generator=torch.Generator().manual_seed(0))
    draw = torch.Generator().manual_seed(0)
    search = dict(do_sample=not greedy, **({} if greedy else {"top_k": top_k or 0}))

    def generate() -> Tensor:
        """Write by the library."""
        return theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, **search
        )

    return lambda: sample(ours, ids, length, top_k=top_k, generator=draw), generate


TASKS = {  # the name of a row, and what makes the two writers
    "greedy": lambda length: translate(length, 1),
    f"beam {BEAMS}": lambda length: translate(length, BEAMS),
    "GPT, greedy": lambda length: go_on(length, 1, greedy=True),
    "sampling": lambda length: go_on(length, None),
    f"sampling, top-k {TOP_K}": lambda length: go_on(length, TOP_K),
}


def check_same(name: str, one: Tensor, other: Tensor) -> None:
    """Compare what both wrote: the tokens, or, where they are drawn, how many there are.

    Raises:
        RuntimeError: If they differ in more than rounding, which may decide a close race.
    """
    agree = (one == other).float().mean().item() if one.shape == other.shape else 0.0
    if agree < (0.9 if "sampling" not in name else PROMPT / (2 * one.size(1))):
        raise RuntimeError(f"{name}: {agree:.0%} of the tokens agree: not the same model")


def bench_generate() -> list[Row]:
    """Print seconds of both, interleaved, and how many times as fast ours is; return the rows."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rows = []
    print(f"\n{SENTENCES} rows, ours against transformers.generate\n{HEAD}")
    with one_thread(), torch.no_grad():
        for name, make in TASKS.items():
            for length, pairs in LENGTHS.items():
                writers = make(length)
                check_same(name, *(write() for write in writers))  # and warms up
                ours, theirs = zip(*in_turns(writers, pairs), strict=True)
                row = compared("transformers.generate", name, ours, theirs, new_tokens=length)
                row |= {"goal": GOALS.get(name, 0)}
                rows.append(row)
                label = f"{name}, {length} tokens"
                print(f"{label:34}{cells(row)} {row['goal']:6.2f} {pairs:6}", flush=True)
    return rows


if __name__ == "__main__":
    bench_generate()
