"""What goes wrong where weight decay is shared out."""

from course_lib.exercises.mistake_catalogue import known

decay = known("gpt", "param_groups")

LEARNS = "[parameter for parameter in model.parameters() if parameter.requires_grad]"
NAMED = "[pair for pair in model.named_parameters() if pair[1].requires_grad]"
FIRST = '{"params": [p for p in learns if p.dim() >= 2], "weight_decay": weight_decay}'
REST = '{"params": [p for p in learns if p.dim() < 2], "weight_decay": 0.0}'


def by(rule: str) -> tuple[tuple[str, str], ...]:
    """Sort by a rule on n, the name, and p, the parameter."""
    return (
        (LEARNS, NAMED),
        (FIRST, FIRST.replace("[p for p in learns if p.dim() >= 2]",
                              f"[p for n, p in learns if {rule}]")),
        (REST, REST.replace("[p for p in learns if p.dim() < 2]",
                            f"[p for n, p in learns if not ({rule})]")),
    )  # fmt: skip


MISTAKES = (
    decay(
        "everything_decays",
        "everything decays: gains belong at 1, and biases need not be small",
        "Lightning-AI/lit-llama #254, dingo-actual/om #12, TransformerLensOrg/TransformerLens #460",
        *by("True"),
    ),
    decay(
        "gains_decay",
        "only biases are spared: the gains of norms decay, and belong at 1",
        "karpathy/minGPT #23, CyberZHG/keras-bert #60",
        *by('not n.endswith("bias")'),
    ),
    decay(
        "embeddings_spared",
        "embedding and positions do not decay: they have two axes, as any other matrix",
        "proposed in karpathy/minGPT #24, as minGPT does",
        *by('p.dim() >= 2 and not n.startswith(("embedding", "positions"))'),
    ),
    decay(
        "sorted_by_name",
        "names decide: a gain may be called otherwise, and a matrix may be called bias",
        "huggingface/transformers #4360: names that did not fit, and norms that decayed",
        *by('"bias" not in n and "norm" not in n'),
    ),
    decay(
        "matrices_spared",
        "matrices stand in the second group and the rest in the first, which decays",
        "facebookresearch/BalancingGroups #6",
        (FIRST, FIRST.replace(">= 2", "< 2")),
        (REST, REST.replace("< 2", ">= 2")),
    ),
    decay(
        "matrices_only_from_three_axes",
        "a matrix is taken for the rest: two axes are enough",
        "student code: dim() > 2",
        ("dim() >= 2", "dim() > 2"),
        ("dim() < 2", "dim() <= 2"),
    ),
    decay(
        "lone_parameters_lost",
        "parameters outside of torch's own layers, such as the positions, stand in no group",
        "karpathy/minGPT #24 has to look for freestanding parameters",
        (
            LEARNS,
            "list({id(p): p for m in model.modules() if isinstance(m, (nn.Linear, nn.Embedding, "
            "nn.LayerNorm)) for p in m.parameters(recurse=False) if p.requires_grad}.values())",
        ),
    ),
    decay(
        "shared_twice",
        "the matrix that embedding and output share stands there twice",
        "zhuhanqing/APOLLO #4; tying breaks an optimizer in karpathy/nanoGPT #21",
        (
            LEARNS,
            "[p for _, p in model.named_parameters(remove_duplicate=False) if p.requires_grad]",
        ),
    ),
    decay(
        "frozen_taken_along",
        "parameters that do not learn stand in the groups, too: ask requires_grad",
        "student code",
        (" if parameter.requires_grad]", "]"),
    ),
    decay(
        "rest_decays",
        "both groups decay: the second group's weight decay is 0",
        "student code: a line copied and not changed",
        ('"weight_decay": 0.0', '"weight_decay": weight_decay'),
    ),
    decay(
        "default_for_the_rest",
        "the second group says nothing of weight decay, and AdamW takes its default, 0.01",
        "torch.optim.AdamW decays by 0.01 unless told, says its documentation",
        (', "weight_decay": 0.0', ""),
    ),
    decay(
        "rest_never_learns",
        "there is one group only: biases and gains get no optimizer, and never learn",
        "student code: what does not decay is left out",
        (f"        {REST},\n", ""),
    ),
    decay(
        "negative_accepted",
        "a weight decay below 0 is accepted: it pushes weights away from 0",
        "student code",
        ("if weight_decay < 0:", "if False:"),
    ),
)
