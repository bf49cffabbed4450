"""What is counted while a model writes: the truth of the predictions of chapters 11 to 13."""

import torch
from torch import Tensor, nn

from course_lib.beam_search import beam_step
from course_lib.decoder import DecoderLayer
from course_lib.decoding import greedy_decode
from course_lib.kv_cache import LayerCache
from course_lib.transformer import TransformerConfig


class _Endless(nn.Module):
    """Write for ever, and count the tokens read on the way."""

    config = TransformerConfig(src_vocab_size=5, tgt_vocab_size=5, d_model=2, num_heads=1)
    read = 0

    def encode(self, src: Tensor) -> Tensor:
        """Remember nothing."""
        return src.unsqueeze(-1).float()

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Count what is read; score token 4 highest, always."""
        self.read += tgt.numel()
        return torch.arange(5.0).repeat(*tgt.shape, 1)


def tokens_read() -> int:
    """Write ten tokens, and count what the decoder reads for them."""
    model = _Endless()
    how = dict(bos_id=1, eos_id=2, max_new_tokens=10, use_cache=False)
    greedy_decode(model, torch.ones(1, 3, dtype=torch.long), **how)
    return model.read


def numbers_kept() -> int:
    """Let one of the six layers read 20 places, with 30 of a source, and count what it keeps."""
    layer = DecoderLayer(d_model=512, num_heads=8, d_ff=1).eval()
    with torch.no_grad():
        cache = LayerCache(max_len=20)
        layer(torch.zeros(1, 20, 512), torch.zeros(1, 30, 512), cache=cache)
    kept = (cache.self_attn.keys, cache.self_attn.values, *(cache.cross_attn.keys_values or ()))
    return 6 * sum(x.numel() for x in kept)


def continuations_of_a_step() -> int:
    """Count the continuations that a step looks at for four hypotheses of 11 tokens."""
    found, _, _ = beam_step(torch.arange(44.0).view(1, 4, 11), torch.zeros(1, 4), pad_id=0)
    return found.numel()
