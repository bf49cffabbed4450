"""Compare decoding with our KV cache to ``torch.nn.Transformer`` without a cache."""

import math
from collections.abc import Iterator
from functools import partial

import torch
from bench_training import BOS, EOS, PAD, VOCAB, TorchModel, our_model
from timing import Row, compared, in_turns, require_same_tokens
from torch import Tensor, nn

from course_lib.decoding import greedy_decode
from course_lib.transformer import Transformer

SIZE = "small"
SENTENCES = 16
SOURCE = 64
ROUNDS = {32: 7, 64: 7, 128: 5, 256: 3}  # by the number of new tokens
LOGITS = {"all": slice(None), "last": slice(-1, None)}  # the positions whose logits torch computes


def endless_model() -> Transformer:
    """Build our model with random weights; it never predicts eos, so all lengths are equal."""
    model = our_model(SIZE, dropout=0.0)
    with torch.no_grad():
        model.output.weight[EOS] = 0.0  # so its logit is 0, and some other logit is larger
    return model.eval()


@torch.no_grad()
def decode_without_cache(model: TorchModel, src: Tensor, length: int, scored: slice) -> Tensor:
    """Decode as torch's users do: encode once, and recompute the whole prefix for each token.

    Most people compute the logits of every position; ``scored`` can select only the last one.
    """
    memory = model.transformer.encoder(model.embed(src))
    tgt = torch.full((len(src), 1), BOS)
    causal = nn.Transformer.generate_square_subsequent_mask(length)
    for end in range(1, length + 1):
        prefix = model.embed(tgt)  # (B, T, d_model)
        vectors = model.transformer.decoder(prefix, memory, causal[:end, :end], tgt_is_causal=True)
        logits = model.output(vectors[:, scored])[:, -1]  # (B, V)
        logits[:, PAD] = -math.inf
        tgt = torch.cat([tgt, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return tgt[:, 1:]


def bench_decoding() -> Iterator[Row]:
    """Measure the speed of our decoding relative to torch's; the times include encoding."""
    ours = endless_model()
    torch_model = TorchModel(ours).eval()
    src = torch.randint(3, VOCAB, (SENTENCES, SOURCE), generator=torch.Generator().manual_seed(0))
    for length, rounds in ROUNDS.items():
        cached = partial(greedy_decode, ours, src, bos_id=BOS, eos_id=EOS, max_new_tokens=length)
        for name, scored in LOGITS.items():
            uncached = partial(decode_without_cache, torch_model, src, length, scored)
            require_same_tokens(cached(), uncached())
            our_seconds, torch_seconds = in_turns([cached, uncached], rounds)
            row = compared("decoding", name, our_seconds, torch_seconds)
            yield row | {"new_tokens": length}
