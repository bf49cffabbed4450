"""Measure decoding: our cache against ``torch.nn.Transformer`` run again on the growing prefix."""

import math
import time
from collections.abc import Callable

import torch
from timing import Row, median_and_range
from torch import Tensor, nn

from course_lib.decoding import greedy_decode
from course_lib.interop import copy_to_torch
from course_lib.trainer.hardware import one_thread
from course_lib.transformer import Transformer, TransformerConfig

SENTENCES = 16
SOURCE = 64
VOCAB = 8_000
LAYERS = 3
BOS = 1
EOS = 2
PAIRS = {32: 7, 64: 7, 128: 5, 256: 3}  # new tokens: pairs of runs
GOALS = {32: 5, 64: 8, 128: 15, 256: 30}
LOGITS = {"all": slice(None), "last": slice(-1, None)}  # the places that torch's side scores
HEAD = "new tokens|its logits|ours, tokens/s|torch|ratio|min|max|goal|pairs".split("|")
SIZES = dict(d_model=256, num_heads=4, d_ff=1024)


def our_model() -> Transformer:
    """Build ours, with random weights; it never likes ``EOS`` best, so that it writes on."""
    layers = dict(num_encoder_layers=LAYERS, num_decoder_layers=LAYERS)
    vocabularies = dict(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**vocabularies, **layers, **SIZES, dropout=0.0))
    with torch.no_grad():
        model.output.weight[EOS] = 0.0  # its score is 0, and another's above
    return model.eval()


def torchs_model(ours: Transformer) -> nn.Transformer:
    """Build torch's, with the same weights; the paper's post-norm has no final norms."""
    sizes = (SIZES["d_model"], SIZES["num_heads"], LAYERS, LAYERS, SIZES["d_ff"])
    theirs = nn.Transformer(*sizes, dropout=0.0, batch_first=True)
    theirs.encoder.norm = theirs.decoder.norm = None
    copy_to_torch(ours, theirs)
    return theirs.eval()


@torch.no_grad()
def write_again(
    ours: Transformer, theirs: nn.Transformer, src: Tensor, length: int, scored: slice
) -> Tensor:
    """Write as a user of torch does: encode once, then decode all that is written, every time.

    ``scored`` says which places get logits: all, as most people write it, or the last, the leanest.
    """
    pad_id = ours.config.pad_id
    scale = math.sqrt(ours.config.d_model)
    memory = theirs.encoder(ours.positions(ours.src_embedding(src) * scale))
    tgt = torch.full((len(src), 1), BOS)
    masks = nn.Transformer.generate_square_subsequent_mask(length)
    for end in range(1, length + 1):
        x = ours.positions(ours.tgt_embedding(tgt) * scale)  # (B, T, d_model)
        said = theirs.decoder(x, memory, masks[:end, :end], tgt_is_causal=True)
        scores = ours.output(said[:, scored])[:, -1]  # (B, V)
        scores[:, pad_id] = -math.inf
        tgt = torch.cat([tgt, scores.argmax(dim=-1, keepdim=True)], dim=1)
    return tgt[:, 1:]


def timed(write: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Write, and return the seconds it took and what was written."""
    start = time.perf_counter()
    ids = write()
    return time.perf_counter() - start, ids


def compare(
    ours: Transformer, theirs: nn.Transformer, src: Tensor, length: int, scored: slice
) -> tuple[float, float]:
    """Write the same sentences by both; return the seconds of each."""
    cached = dict(bos_id=BOS, eos_id=EOS, max_new_tokens=length)
    one, ids = timed(lambda: greedy_decode(ours, src, **cached))
    other, same = timed(lambda: write_again(ours, theirs, src, length, scored))
    agree = (ids == same).float().mean().item() if ids.shape == same.shape else 0.0
    if agree < 0.9:  # rounding may decide a close race
        raise RuntimeError(f"{agree:.0%} of the tokens agree: not the same model")
    return one, other


def row_of(length: int, name: str, seconds: list[tuple[float, float]]) -> Row:
    """Make a row out of the seconds of both, in every pair."""
    rates = [
        median_and_range([SENTENCES * length / spent for spent in side])
        for side in zip(*seconds, strict=True)
    ]
    ratio = median_and_range([other / one for one, other in seconds])
    row = {"table": "decoding", "name": name, "new_tokens": length, "rounds": len(seconds)}
    row |= {"ours": rates[0], "torch": rates[1], "ratio": ratio}  # tokens in a second
    return row | {"goal": GOALS.get(length, 0)}


def line(row: Row) -> str:
    """Write a row of the table."""
    ratio = (f"{row['ratio'][name]:.1f}" for name in ("median", "min", "max"))
    rates = (f"{row[side]['median']:.0f}" for side in ("ours", "torch"))
    found = (row["new_tokens"], row["name"], *rates, *ratio, row["goal"], row["rounds"])
    return "".join(f"{x:>{len(word) + 3}}" for x, word in zip(found, HEAD, strict=True))


def bench_decoding(pairs: dict[int, int] | None = None) -> list[Row]:
    """Print tokens a second of both, interleaved, and their ratio; both encode inside the time.

    Args:
        pairs: For each number of new tokens, how often both are timed; ``PAIRS`` unless given.

    Returns:
        The rows.
    """
    ours = our_model()
    theirs = torchs_model(ours)
    rows = []
    draw = torch.Generator().manual_seed(0)
    src = torch.randint(3, VOCAB, (SENTENCES, SOURCE), generator=draw)
    with one_thread():
        compare(ours, theirs, src, 8, LOGITS["all"])  # to warm up
        print(f"\ndecoding {SENTENCES} sentences: our cache, and torch.nn.Transformer run again")
        print("".join(f"{word:>{len(word) + 3}}" for word in HEAD))
        for length, times in (pairs or PAIRS).items():
            for name, scored in LOGITS.items():
                seconds = [compare(ours, theirs, src, length, scored) for _ in range(times)]
                rows.append(row_of(length, name, seconds))
                print(line(rows[-1]))
    return rows


if __name__ == "__main__":
    bench_decoding()
