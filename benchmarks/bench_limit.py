"""Measure how far decoding is from its limit: the time that reading the weights takes.

The other programs are ``generate`` of ``transformers`` and CTranslate2, with the same weights.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from tempfile import TemporaryDirectory

import ctranslate2
import torch
import transformers
from bench_generate import save_and_load
from ctranslate2.converters import TransformersConverter
from timing import Row, Spread, in_turns, median_and_range, require_same_tokens
from torch import Tensor, nn

from course_lib.decoding import greedy_decode
from course_lib.gpt import sample
from course_lib.interop import llama, marian
from course_lib.interop.weights import find_or_warn
from course_lib.modern_decoder import ModernConfig, ModernDecoder

SENTENCES = (1, 16)
PROMPT, SOURCE, NEW = 16, 32, 64  # tokens
ROUNDS = 5
MARIAN_VOCAB = 58_101  # as in the published models; the last token is padding
EOS, PAD = 0, MARIAN_VOCAB - 1
ONE_THREAD = dict(device="cpu", inter_threads=1, intra_threads=1)
SHARE = {"bfloat16": 2, "int8": 4}  # how many times fewer bytes than in float32
Decoder = Callable[[], Tensor]


class TokenNames:
    """The part of a tokenizer that CTranslate2 needs: a name for every id."""

    bos_token, eos_token, unk_token = "1", "0", "2"

    def __init__(self, vocab_size: int, last: str) -> None:
        self.names = [*map(str, range(vocab_size - 1)), last]

    def get_vocab(self) -> dict[str, int]:
        """Return the ids by their names."""
        return {name: number for number, name in enumerate(self.names)}


class Converter(TransformersConverter):
    """Convert a model that was saved without a tokenizer."""

    def __init__(self, folder: str, names: TokenNames) -> None:
        super().__init__(folder)
        self.names = names

    def load_tokenizer(self, *_: object, **__: object) -> TokenNames:
        """Return the names in place of a tokenizer."""
        return self.names


def converted(model: transformers.PreTrainedModel, names: TokenNames, build: Callable) -> dict:
    """Convert a library model, and load it with weights in float32 and in int8."""
    with TemporaryDirectory() as folder, TemporaryDirectory() as target:
        model.save_pretrained(folder)
        Converter(folder, names).convert(target, force=True)
        kinds = ("float32", "int8")
        return {kind: build(target, compute_type=kind, **ONE_THREAD) for kind in kinds}


def ids_of(results: list) -> Tensor:
    """Return the ids (B, NEW) that CTranslate2 wrote; their names are numbers."""
    written = [getattr(r, "hypotheses", None) or r.sequences for r in results]
    return torch.tensor([[int(name) for name in best[0]] for best in written])


def chat_models() -> tuple[ModernDecoder, transformers.PreTrainedModel]:
    """Return SmolLM2-135M, with its published weights if they are installed, in both libraries."""
    path = find_or_warn("smollm2-135m-instruct")
    torch.manual_seed(0)
    ours = llama.from_pretrained(path)[0] if path else ModernDecoder(ModernConfig()).eval()
    c = ours.config
    config = transformers.LlamaConfig(
        vocab_size=c.vocab_size, hidden_size=c.d_model, intermediate_size=c.d_ff,
        num_hidden_layers=c.num_layers, num_attention_heads=c.num_heads,
        num_key_value_heads=c.num_kv_heads, max_position_embeddings=c.max_len,
        rms_norm_eps=c.norm_eps, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_base},
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    library_model = transformers.LlamaForCausalLM(config).eval()
    library_model.load_state_dict(llama.to_state_dict(ours), strict=False)
    return ours, library_model


def translators() -> tuple:
    """Build a Marian model of the published size and ours, with the same random weights."""
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=MARIAN_VOCAB, d_model=512, max_position_embeddings=512, scale_embedding=True,
        activation_function="swish", pad_token_id=PAD, decoder_start_token_id=PAD,
        eos_token_id=EOS, forced_eos_token_id=None, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    model.final_logits_bias[:, [PAD, EOS]] = -1e4
    return save_and_load(model, marian.from_pretrained)


def chat_decoders(sentences: int) -> tuple[dict[str, Decoder], int]:
    """Return each program's greedy decoding, and how many bytes of weights a step reads."""
    ours, library_model = chat_models()
    vocab = ours.config.vocab_size
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(3, vocab - 1, (sentences, PROMPT), generator=draw)
    names = TokenNames(vocab, str(vocab - 1))
    prompts = [[names.names[number] for number in row] for row in ids.tolist()]
    generate = partial(
        library_model.generate, ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW,
        do_sample=False,
    )  # fmt: skip

    def converted_decoder(generator: ctranslate2.Generator) -> Tensor:
        """Decode with CTranslate2."""
        return ids_of(
            generator.generate_batch(
                prompts, max_length=NEW, min_length=NEW, sampling_topk=1, end_token=[],
                include_prompt_in_result=False,
            )
        )  # fmt: skip

    half = deepcopy(ours).bfloat16()
    decoders: dict[str, Decoder] = {
        "ours": lambda: sample(ours, ids, NEW, top_k=1)[:, PROMPT:],
        "ours, bfloat16": lambda: sample(half, ids, NEW, top_k=1)[:, PROMPT:],
        "transformers": lambda: generate()[:, PROMPT:],
    }
    for kind, generator in converted(library_model, names, ctranslate2.Generator).items():
        decoders[f"CTranslate2, {kind}"] = partial(converted_decoder, generator)
    return decoders, size_of(ours)


def translation_decoders(sentences: int) -> tuple[dict[str, Decoder], int]:
    """Return each program's greedy decoding, and how many bytes of weights a step reads."""
    ours, library_model = translators()
    draw = torch.Generator().manual_seed(0)
    src = torch.randint(3, PAD, (sentences, SOURCE), generator=draw)
    names = TokenNames(MARIAN_VOCAB, "<pad>")
    sources = [[names.names[number] for number in row] for row in src.tolist()]
    options = dict(bos_id=MARIAN_VOCAB, eos_id=EOS, max_new_tokens=NEW)
    generate = partial(
        library_model.generate, src, attention_mask=torch.ones_like(src), max_new_tokens=NEW,
        do_sample=False, num_beams=1,
    )  # fmt: skip

    def converted_decoder(translator: ctranslate2.Translator) -> Tensor:
        """Decode with CTranslate2."""
        limits = dict(max_decoding_length=NEW, min_decoding_length=NEW)
        return ids_of(translator.translate_batch(sources, beam_size=1, **limits))

    half = deepcopy(ours).bfloat16()
    decoders: dict[str, Decoder] = {
        "ours": lambda: greedy_decode(ours, src, **options),
        "ours, bfloat16": lambda: greedy_decode(half, src, **options),
        "transformers": lambda: generate()[:, 1:],
    }
    for kind, translator in converted(library_model, names, ctranslate2.Translator).items():
        decoders[f"CTranslate2, {kind}"] = partial(converted_decoder, translator)
    once = [layer.cross_attn for layer in ours.decoder.layers]  # their w_k and w_v run only once
    unread = sum(size_of(attention.w_k) + size_of(attention.w_v) for attention in once)
    return decoders, size_of(ours.decoder) + size_of(ours.output) - unread


def size_of(model: nn.Module) -> int:
    """Return the bytes of a module's parameters."""
    return sum(parameter.nbytes for parameter in model.parameters())


MODELS: dict[str, Callable[[int], tuple[dict[str, Decoder], int]]] = {
    "SmolLM2-135M": chat_decoders,
    "Marian": translation_decoders,
}


def bench_limit() -> Iterator[Row]:
    """Time a step of each program, next to the time in which memory delivers the weights once.

    ``ratio`` says how many times as long a step takes as reading its weights in their own format.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for model, prepare in MODELS.items():
        for sentences in SENTENCES:
            decoders, size = prepare(sentences)
            tokens = {name: decode() for name, decode in decoders.items()}
            for name in ("transformers", "CTranslate2, float32"):
                require_same_tokens(tokens["ours"], tokens[name])
            weights = torch.ones(size // 4)
            actions: list[Callable[[], object]] = [weights.sum, *decoders.values()]
            limit, *measured = in_turns(actions, ROUNDS)
            table = f"{model}, {sentences}"
            yield {"table": table, "name": "limit", "milliseconds": per_step(limit, 1)}
            for (name, written), seconds in zip(tokens.items(), measured, strict=True):
                share = SHARE.get(name.split(", ")[-1], 1)
                times = [share * s / NEW / bound for s, bound in zip(seconds, limit, strict=True)]
                yield {
                    "table": table,
                    "name": name,
                    "milliseconds": per_step(seconds, NEW),
                    "ratio": median_and_range(times),
                    "rounds": ROUNDS,
                    "same": round((written == tokens["ours"]).float().mean().item(), 3),
                }


def per_step(seconds: list[float], steps: int) -> Spread:
    """Return the milliseconds of one step."""
    return median_and_range([1000 * each / steps for each in seconds])
