"""Convert weights between ``GPT`` and the published layout of GPT-2.

Differs: GPT-2 was trained with an approximation of GELU by tanh, named ``gelu_new``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor, nn

from course_lib.feed_forward import FeedForward
from course_lib.gpt import GPT, GPTConfig
from course_lib.interop.config_fields import ConfigFields, Supported, read_config
from course_lib.interop.pretrained import Layout, build_and_load, read_tokenizer, read_weights

NAMES = {  # ours: published
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
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu_new": lambda: nn.GELU("tanh"),
    "gelu_pytorch_tanh": lambda: nn.GELU("tanh"),
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}
SUPPORTED: Supported = {  # field: (what it means if absent, what is covered)
    "layer_norm_epsilon": (1e-5, [1e-5]),
    "scale_attn_weights": (True, [True]),
    "scale_attn_by_inverse_layer_idx": (False, [False]),
    "add_cross_attention": (False, [False]),
    "tie_word_embeddings": (True, [True]),
}


def from_pretrained(folder: Path | str) -> tuple[GPT, Tokenizer | None]:
    """Load GPT-2, or a model in its layout, from a folder as it is published.

    Returns a model without dropout, in eval mode, and the tokenizer, or None without one.
    Raises ValueError if a field of the configuration is not covered, or a weight does not fit.
    """
    fields = read_config(folder, ["gpt2"], SUPPORTED)
    activation = ACTIVATIONS[fields.choice("activation_function", "gelu_new", ACTIVATIONS)]
    build = partial(_build, _to_config(fields), activation)
    return build_and_load(read_weights(folder), build, load_state_dict), read_tokenizer(folder)


def _to_config(fields: ConfigFields) -> GPTConfig:
    """Translate the configuration."""
    d_model = fields.integer("n_embd")
    d_ff = 4 * d_model
    fields.integer("n_inner", default=d_ff, least=d_ff, most=d_ff)
    return GPTConfig(
        vocab_size=fields.integer("vocab_size"),
        max_len=fields.integer("n_positions"),
        num_layers=fields.integer("n_layer", most=fields.MOST_LAYERS),
        num_heads=fields.integer("n_head", divides=d_model),
        d_model=d_model,
        dropout=0.0,
    )


def _build(config: GPTConfig, activation: Callable[[], nn.Module]) -> GPT:
    """Build a model with another activation function."""
    model = GPT(config)
    for module in model.modules():
        if isinstance(module, FeedForward):
            module.activation = activation()
    return model


def load_state_dict(model: GPT, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, as ``Layout.load`` does.

    The model needs the activation that they learned with. Names may begin with ``transformer.``.
    """
    shorter = {name.removeprefix("transformer."): value for name, value in weights.items()}
    if len(shorter) < len(weights):
        raise ValueError("a weight occurs twice: with and without `transformer.` in front")
    LAYOUT.load(model, shorter)


def to_state_dict(model: GPT) -> dict[str, Tensor]:
    """Return copies of a model's weights under GPT-2's names, with ``transformer.`` in front."""
    return {f"transformer.{name}": value for name, value in LAYOUT.state(model).items()}


def _transposed(name: str, value: Tensor) -> Tensor:
    """Transpose the matrices of linear layers: GPT-2's ``Conv1D`` keeps (in, out)."""
    is_linear = "c_" in name and name.endswith(".weight")
    return value.t() if is_linear else value


LAYOUT = Layout(
    NAMES,
    _transposed,
    _transposed,
    copies={"lm_head.weight": "wte.weight"},
    unread=r"h\.\d+\.attn\.(bias|masked_bias)",
)
