"""Convert weights between ``GPT`` and the published layout of GPT-2.

Differs: GPT-2 was trained with the tanh approximation of GELU, named ``gelu_new``.
"""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor, nn

from course_lib.feed_forward import FeedForward
from course_lib.gpt import GPT, GPTConfig
from course_lib.interop.config_fields import MOST_LAYERS
from course_lib.interop.pretrained import Layout, read_config, read_tokenizer, read_weights

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
    "output": "lm_head",
}
MASKS = r"h\.\d+\.attn\.(bias|masked_bias)"
GELU = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}  # nn.GELU's argument
FIXED = {  # for each field, the only supported value, which is also the default
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def from_pretrained(folder: Path | str) -> tuple[GPT, Tokenizer | None]:
    """Load GPT-2, or a model in its layout, from a folder in the published format.

    Returns a model in eval mode, without dropout, and its tokenizer (None if the folder has none).
    Raises ValueError if a configuration field is not supported, or a weight does not fit.
    """
    fields = read_config(folder, ["gpt2"], FIXED)
    d_model = fields.size("n_embd")
    fields.choice("n_inner", [4 * d_model], default=4 * d_model)
    approximation = GELU[fields.choice("activation_function", GELU, default="gelu_new")]
    config = GPTConfig(
        vocab_size=fields.size("vocab_size"),
        max_len=fields.size("n_positions"),
        num_layers=fields.size("n_layer", most=MOST_LAYERS),
        num_heads=fields.size("n_head"),
        d_model=d_model,
        dropout=0.0,
    )
    model = LAYOUT.build(read_weights(folder), config, GPT)
    for module in model.modules():
        if isinstance(module, FeedForward):
            module.activation = nn.GELU(approximation)
    return model, read_tokenizer(folder)


def load_state_dict(model: GPT, weights: Mapping[str, Tensor]) -> None:
    """Copy published weights into a model with the same activation function."""
    LAYOUT.load(model, weights, model.config)


def to_state_dict(model: GPT) -> dict[str, Tensor]:
    """Return copies of a model's weights under GPT-2's names, with the prefix ``transformer.``."""
    return LAYOUT.state(model, model.config)


def _transposed(name: str, value: Tensor, config: GPTConfig) -> Tensor:
    """Transpose the linear layers' matrices; GPT-2's ``Conv1D`` stores them as (in, out)."""
    is_linear = "c_" in name and name.endswith(".weight")
    return value.t() if is_linear else value


LAYOUT = Layout(NAMES, _transposed, _transposed, prefix="transformer.", unread=MASKS)
