"""Compare our decoding to ``generate`` in the ``transformers`` library, with the same weights."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from timing import SAME_TOKENS, Row, compared, in_turns, require_same_tokens
from torch import Tensor

from course_lib.beam_search import beam_search
from course_lib.decoding import greedy_decode
from course_lib.gpt import sample
from course_lib.interop import gpt2, marian

Decoders = tuple[Callable[[], Tensor], Callable[[], Tensor]]  # ours, and the library's
SENTENCES = 16
SOURCE = 64
PROMPT = 16
VOCAB = 8_000
PAD, EOS = 1, 2
D_MODEL, NUM_HEADS, LAYERS = 256, 4, 3
BEAMS = 4
TOP_K = 50
ROUNDS = {64: 9, 128: 7, 256: 5}  # by the number of new tokens


def save_and_load(model: transformers.PreTrainedModel, load: Callable) -> tuple:
    """Save a library model in the published format, and load it as ours; return both models."""
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load(Path(folder))[0], model.eval()


def translators() -> tuple:
    """Build a Marian model and ours with the same random weights; neither predicts eos."""
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=D_MODEL, max_position_embeddings=512, scale_embedding=True,
        activation_function="swish", pad_token_id=PAD, decoder_start_token_id=PAD,
        eos_token_id=EOS, forced_eos_token_id=None, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=NUM_HEADS, decoder_attention_heads=NUM_HEADS,
        encoder_ffn_dim=4 * D_MODEL, decoder_ffn_dim=4 * D_MODEL,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    model.final_logits_bias[:, [PAD, EOS]] = -1e4
    return save_and_load(model, marian.from_pretrained)


def language_models() -> tuple:
    """Build a GPT-2 model and ours with the same random weights."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=512, n_embd=D_MODEL, n_layer=2 * LAYERS, n_head=NUM_HEADS,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return save_and_load(transformers.GPT2LMHeadModel(config), gpt2.from_pretrained)


def translate(length: int, beams: int) -> Decoders:
    """Translate random sources into ``length`` tokens, by greedy decoding or beam search."""
    ours, library_model = translators()
    src = torch.randint(3, VOCAB, (SENTENCES, SOURCE), generator=torch.Generator().manual_seed(0))
    options = dict(bos_id=VOCAB, eos_id=EOS, max_new_tokens=length)
    generate = partial(
        library_model.generate, src, attention_mask=torch.ones_like(src), max_new_tokens=length,
        length_penalty=0.0, num_beams=beams, do_sample=False,
        early_stopping="never" if beams > 1 else False,
    )  # fmt: skip

    def decode() -> Tensor:
        """Decode with our model."""
        if beams == 1:
            return greedy_decode(ours, src, **options)
        return beam_search(ours, src, beam_size=beams, alpha=0.0, **options)[0][:, 0]

    return decode, lambda: generate()[:, 1:]


def continue_prompt(length: int, top_k: int | None, greedy: bool = False) -> Decoders:
    """Continue random prompts by ``length`` tokens; ``greedy`` requires ``top_k=1``."""
    ours, library_model = language_models()
    ids = torch.randint(VOCAB, (SENTENCES, PROMPT), generator=torch.Generator().manual_seed(0))
    decode = partial(
        sample, ours, ids, length, top_k=top_k, generator=torch.Generator().manual_seed(0)
    )
    sampling = {} if greedy else {"top_k": top_k or 0}
    generate = partial(
        library_model.generate, ids, attention_mask=torch.ones_like(ids), max_new_tokens=length,
        do_sample=not greedy, **sampling,
    )  # fmt: skip
    return decode, generate


TASKS: dict[str, Callable[[int], Decoders]] = {  # by the name of the row
    "greedy": partial(translate, beams=1),
    f"beam {BEAMS}": partial(translate, beams=BEAMS),
    "GPT, greedy": partial(continue_prompt, top_k=1, greedy=True),
    "sampling": partial(continue_prompt, top_k=None),
    f"sampling, top-k {TOP_K}": partial(continue_prompt, top_k=TOP_K),
}


def bench_generate() -> Iterator[Row]:
    """Measure the speed of our decoding relative to the library's."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name, prepare in TASKS.items():
        for length, rounds in ROUNDS.items():
            decoders = prepare(length)
            tokens = [decode() for decode in decoders]
            # If tokens are sampled, only the prompts have to be the same.
            drawn = PROMPT / (2 * tokens[0].size(1))
            require_same_tokens(*tokens, same=drawn if "sampling" in name else SAME_TOKENS)
            row = compared("transformers.generate", name, *in_turns(decoders, rounds))
            yield row | {"new_tokens": length}
