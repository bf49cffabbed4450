"""Small random models of the ``transformers`` library, saved in the published format."""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

PAD, EOS = 10, 0
VOCAB, MAX_LEN, LAYERS = 11, 12, 2
MARIAN = dict(
    vocab_size=VOCAB, max_position_embeddings=MAX_LEN, encoder_layers=LAYERS,
    decoder_layers=LAYERS + 1, encoder_ffn_dim=7, decoder_ffn_dim=7, encoder_attention_heads=3,
    decoder_attention_heads=3, d_model=18, pad_token_id=PAD, decoder_start_token_id=PAD,
    eos_token_id=EOS, forced_eos_token_id=None, scale_embedding=True, activation_function="swish",
    init_std=1.0,
)  # fmt: skip
GPT2 = dict(
    vocab_size=VOCAB, n_positions=MAX_LEN, n_layer=LAYERS, n_head=3, n_embd=18,
    initializer_range=1.0, bos_token_id=EOS, eos_token_id=EOS,
)  # fmt: skip
LLAMA = dict(
    vocab_size=VOCAB, max_position_embeddings=MAX_LEN, num_hidden_layers=LAYERS,
    num_attention_heads=6, num_key_value_heads=2, hidden_size=24, intermediate_size=7,
    initializer_range=1.0, rms_norm_eps=1e-2, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
BERT = dict(
    vocab_size=VOCAB, max_position_embeddings=MAX_LEN, num_hidden_layers=LAYERS,
    num_attention_heads=3, hidden_size=18, intermediate_size=7, type_vocab_size=2,
    initializer_range=1.0, pad_token_id=PAD,
)  # fmt: skip
KINDS = {
    "marian": (transformers.MarianConfig, transformers.MarianMTModel, MARIAN),
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel, GPT2),
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, LLAMA),
    "bert": (transformers.BertConfig, transformers.BertModel, BERT),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM, LLAMA),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, LLAMA),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, LLAMA),
}


def published(kind: str, folder: Path, seed: int = 0, **changes):
    """Save a library model in a folder; return it in float64, in eval mode.

    Biases and gains are also random, so that a test notices if two of them are confused.
    """
    config_class, model_class, sizes = KINDS[kind]
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = model_class(config_class(**(sizes | changes)))
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.data.normal_(std=0.3).add_(float(name.endswith("weight")))
        if kind == "marian":
            model.model.shared.weight.data[PAD].normal_()  # the library initializes it to 0
            model.final_logits_bias.normal_(std=0.2)[:, EOS] += 1.0  # sentences end
        model.get_input_embeddings().weight.data *= 0.2  # or a tied model repeats its input
    model.save_pretrained(folder)
    return model.double().eval()


def edit_config(folder: Path, **changes) -> None:
    """Change fields of a saved configuration; the value ``...`` removes a field."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    kept = {field: value for field, value in config.items() if value is not ...}
    path.write_text(json.dumps(kept))


def edit_weights(folder: Path, change) -> None:
    """Read a saved model's weights, change the dictionary, and save it."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
