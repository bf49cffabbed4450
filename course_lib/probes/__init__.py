"""Probes test properties that every correct next-token model has, and need no reference model.

A probe feeds ids of its own choice to a model and looks at the logits. Probes find leaks, padding
that is not ignored, and layers that never learn. They run on copies, so your model never changes.
"""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from torch import Tensor, nn

from course_lib.probes.internal_probes import (
    dropout_rate,
    finite_numbers,
    parts_used_once,
)
from course_lib.probes.output_probes import (
    batch_invariance,
    causality,
    context,
    determinism,
    free_running,
    influence,
    order_sensitivity,
    padding_invariance,
    returns_logits,
    training_and_eval_mode,
)
from course_lib.probes.probe_result import ProbeResult
from course_lib.probes.probed_model import PROBES, ProbedModel, prepare_model
from course_lib.probes.residual_probes import final_norm, residual_paths
from course_lib.probes.score_probes import attention_scores
from course_lib.probes.training_probes import (
    gradient_reach,
    initial_loss,
    loss_per_token,
    loss_targets,
    overfit_one_batch,
    parameters_registered,
)

__all__ = [
    "PROBES", "ProbeResult", "ProbedModel", "attention_scores", "batch_invariance",
    "causality", "context", "determinism", "dropout_rate", "final_norm", "finite_numbers",
    "free_running", "gradient_reach", "influence", "initial_loss", "loss_per_token", "loss_targets",
    "order_sensitivity", "overfit_one_batch", "padding_invariance", "parameters_registered",
    "parts_used_once", "prepare_model", "probe", "probe_made", "residual_paths", "returns_logits",
    "training_and_eval_mode",
]  # fmt: skip


def probe(
    model: nn.Module,
    *,
    vocab_size: int,
    pad_id: int | None = None,
    forward: Callable[..., object] | None = None,
    loss: Callable[..., Tensor] | None = None,
    generate: Callable[..., Tensor] | None = None,
    bos_id: int | None = None,
    dropout: float | None = None,
    attention_scale: float | None = None,
    fresh: bool = True,
) -> list[ProbeResult]:
    """Test the properties that every correct model has.

    Args:
        model: Called as ``model(ids)`` if one argument is enough, or else as ``model(src, tgt)``.
            It returns logits ``(B, T, V)``, a tuple that starts with them, or an object with
            ``.logits``.
        vocab_size: Number of tokens; the probes draw ids below it.
        pad_id: Id of the padding token, if the model has one.
        forward: ``forward(model, ids)`` or ``forward(model, src, tgt)``, if your model is called
            differently.
        loss: Your own loss function, ``loss(model, ids)`` or ``loss(model, src, tgt)``, for whole
            sequences ``(B, T + 1)``. It replaces cross-entropy when probes train the model.
        generate: Your own greedy decoding: ``generate(model, src)`` returns ids without ``bos_id``,
            and ``generate(model, ids)`` returns the given ids and the new ones.
        bos_id: Id of the token that starts every target; required with ``generate`` and a source.
        dropout: The dropout rate that every layer should have.
        attention_scale: The factor by which the model multiplies the attention scores, if it is
            neither 1/√d_k nor given in ``model.config``.
        fresh: Pass ``False`` for a trained model, because its first loss tells us nothing.

    Returns:
        One result for each probe that applies. The model's weights, mode and gradients do not
        change, and neither does the random state.

    Raises:
        ValueError: If ``prepare_model`` rejects the model.
    """
    probed = prepare_model(
        model,
        vocab_size=vocab_size,
        pad_id=pad_id,
        forward=forward,
        loss=loss,
        generate=generate,
        bos_id=bos_id,
        dropout=dropout,
        attention_scale=attention_scale,
    )
    wanted = [run for run in PROBES if fresh or run is not initial_loss]
    return [result for run in wanted if (result := run(probed)) is not None]


def probe_made(factory: str, **options: Any) -> list[ProbeResult]:
    """Probe the model that a function returns; the function is given as ``"module:function"``.

    Args:
        factory: For example ``"package.module:function"``. We call the function without arguments,
            and it returns a model or a dict of arguments for ``probe``.
        **options: Arguments for ``probe``. Unless they are ``None``, they override the dict's.

    Raises:
        ValueError: If the function does not return something that can be probed.
    """
    try:
        made = resolve_name(factory)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"{factory} failed to build a model: {error}") from error
    arguments = made if isinstance(made, dict) else {"model": made}
    if not isinstance(arguments.get("model"), nn.Module):
        raise ValueError(f"{factory} returns neither a model nor a dict that contains one")
    arguments = arguments | {name: value for name, value in options.items() if value is not None}
    if "vocab_size" not in arguments:
        raise ValueError("the probes need the size of the vocabulary; pass --vocab-size")
    return probe(**arguments)
