"""Carry weights between ``GPT`` and the layout that GPT-2 is published in.

Differs: GPT-2 was trained with an approximation of GELU by tanh, named ``gelu_new``.
"""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor, nn

from course_lib.gpt import GPT, GPTConfig
from course_lib.interop.pretrained import (
    drop_copies,
    load_by_name,
    read_config,
    read_tokenizer,
    read_weights,
    state_by_name,
)

NAMES = {  # ours: theirs
    "embedding": "wte",
    "positions": "wpe",
    "layers.*.add_norm1.norm": "h.*.ln_1",
    "layers.*.self_attn.w_qkv": "h.*.attn.c_attn",
    "layers.*.self_attn.w_o": "h.*.attn.c_proj",
    "layers.*.add_norm2.norm": "h.*.ln_2",
    "layers.*.feed_forward.linear1": "h.*.mlp.c_fc",
    "layers.*.feed_forward.linear2": "h.*.mlp.c_proj",
    "norm": "ln_f",
}
ACTIVATIONS = {
    "gelu_new": lambda: nn.GELU("tanh"),
    "gelu_pytorch_tanh": lambda: nn.GELU("tanh"),
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}
SUPPORTED = {  # field: (what it means if absent, what is covered)
    "activation_function": ("gelu_new", ACTIVATIONS),
    "layer_norm_epsilon": (1e-5, [1e-5]),
    "scale_attn_weights": (True, [True]),
    "scale_attn_by_inverse_layer_idx": (False, [False]),
    "add_cross_attention": (False, [False]),
    "tie_word_embeddings": (True, [True]),
}


def from_pretrained(folder: Path | str) -> tuple[GPT, Tokenizer | None]:
    """Load GPT-2, or a model in its layout.

    Args:
        folder: It holds ``config.json``, ``model.safetensors`` or ``pytorch_model.bin``, and
            perhaps ``tokenizer.json``.

    Returns:
        A ``GPT`` without dropout, in eval mode, and the tokenizer, or ``None``.

    Raises:
        ValueError: If a field of the configuration is not covered, or a weight does not fit.
    """
    config = read_config(folder, ["gpt2"], SUPPORTED)
    widened = config.get("n_inner") or 4 * config["n_embd"]
    if widened != 4 * config["n_embd"]:
        raise ValueError(f"config.json says n_inner={widened}; this loader covers 4 * n_embd")
    model = GPT(
        GPTConfig(
            vocab_size=config["vocab_size"],
            max_len=config["n_positions"],
            num_layers=config["n_layer"],
            num_heads=config["n_head"],
            d_model=config["n_embd"],
            dropout=0.0,
        )
    )
    for layer in model.layers:
        name = config.get("activation_function", "gelu_new")
        layer.feed_forward.activation = ACTIVATIONS[name]()
    load_state_dict(model, read_weights(folder))
    return model.eval(), read_tokenizer(folder)


def load_state_dict(model: GPT, weights: Mapping[str, Tensor]) -> None:
    """Give a model the weights of GPT-2.

    Args:
        model: Changed in place. Its activation must be the one that the weights were trained
            with.
        weights: By published name, with or without ``transformer.`` in front. Masks are left
            out, and ``lm_head.weight``, which must equal ``wte.weight``.

    Raises:
        ValueError: If a weight is missing, unknown or of another shape, or the two differ.
    """
    given = {name.removeprefix("transformer."): value for name, value in weights.items()}
    masks = r"h\.\d+\.attn\.(bias|masked_bias)"
    given = drop_copies(given, {"lm_head.weight": "wte.weight"}, masks)
    load_by_name(model, given, NAMES, _transposed)


def to_state_dict(model: GPT) -> dict[str, Tensor]:
    """Return copies of a model's weights under GPT-2's names, with ``transformer.`` in front."""
    state = state_by_name(model, NAMES, _transposed)
    return {f"transformer.{name}": value for name, value in state.items()}


def _transposed(name: str, value: Tensor) -> Tensor:
    """Transpose the matrices of linear layers: GPT-2's ``Conv1D`` keeps (in, out)."""
    is_linear = "c_" in name and name.endswith(".weight")
    return value.t() if is_linear else value
