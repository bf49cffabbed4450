"""Probes that look inside a running model for reused parts, nan and wrong dropout rates."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.probes.probed_model import Finding, ProbedModel, as_probe
from course_lib.probes.residual_probes import layers_of
from course_lib.support.input_checks import first_line


@as_probe
def parts_used_once(probed: ProbedModel) -> Finding:
    """In one pass, no part with weights runs twice, except for embeddings.

    If the repeated parts contain most of the weights and each has only one name, we assume that
    layers are repeated on purpose, as in the Universal Transformer and ALBERT.
    """
    calls: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for name, module in probed.model.named_modules():
        own = [parameter.numel() for parameter in module.parameters(recurse=False)]
        if own and not isinstance(module, nn.Embedding):
            sizes[name] = sum(own)
            module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    probed.logits(*probed.batch())
    repeated = {name: count for name, count in calls.items() if count > 1}
    if not repeated:
        return True, "each part with weights runs at most once", repeated
    named = Counter(id(m) for _, m in probed.model.named_modules(remove_duplicate=False))
    has_one_name = all(named[id(probed.model.get_submodule(name))] == 1 for name in repeated)
    if has_one_name and sum(sizes[name] for name in repeated) > sum(sizes.values()) / 2:
        return True, "the layers that hold most of the weights are repeated on purpose", repeated
    name, count = next(iter(repeated.items()))
    hint = f"{name} runs {count} times in one pass"
    return False, f"{hint}: this is right only if the part is shared on purpose", repeated


@as_probe
def finite_numbers(probed: ProbedModel) -> Finding:
    """All outputs are finite in the model's own dtype, in bfloat16 and in float16."""
    ids = list(probed.batch())
    if probed.pad_id is not None:
        ids[0][1:, -2:] = probed.pad_id
    culprits: list[str] = []

    def trace(name: str, output: object) -> None:
        """Record a module if its output contains nan or infinity."""
        first = output[0] if isinstance(output, tuple) and output else output
        first = getattr(first, "logits", first)
        if isinstance(first, Tensor) and first.is_floating_point() and not first.isfinite().all():
            culprits.append(name)

    for name, module in probed.model.named_modules():
        module.register_forward_hook(lambda m, i, out, name=name: trace(name or "the model", out))
    not_callable = []
    for dtype in (None, torch.bfloat16, torch.float16):
        type_name = str(dtype or "its own type").removeprefix("torch.")
        probed.model.to(dtype)
        try:
            finite = probed.logits(*ids).isfinite().all()
        except Exception as error:
            if dtype is None:
                raise
            not_callable.append(f"{type_name} ({first_line(error)})")
            continue
        if not finite:
            culprit = culprits[0] if culprits else "the model"
            hint = f"in {type_name}, {culprit} outputs the first nan or infinity"
            return False, f"{hint}: look at its inputs", culprit
    addition = f"; the model cannot run in {' and '.join(not_callable)}" if not_callable else ""
    return True, f"no nan and no infinity{addition}", ""


class _DropoutRates(TorchFunctionMode):
    """Record the rates at which dropout is applied."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def __torch_function__(
        self, func: Callable, types: Iterable, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Call a torch function, and record the rate if it applies dropout."""
        options = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "dropout" and options.get("training", args[2] if len(args) > 2 else True):
            self.rates.append(options.get("p", args[1] if len(args) > 1 else 0.5))
        elif name == "scaled_dot_product_attention":
            self.rates.append(options.get("dropout_p", args[4] if len(args) > 4 else 0.0))
        return func(*args, **options)


@as_probe
def dropout_rate(probed: ProbedModel) -> Finding | None:
    """In training mode, every layer applies dropout at the rate that you pass."""
    if probed.dropout is None:
        return None
    rates_by_layer: dict[str, set[float]] = {}
    with _DropoutRates() as seen:

        def note(name: str) -> None:
            """Store the rates that were recorded while a layer ran."""
            rates_by_layer[name] = set(seen.rates) - {0.0}
            seen.rates.clear()

        for name, layer in layers_of(probed.model).items():
            layer.register_forward_pre_hook(lambda *_: seen.rates.clear())
            layer.register_forward_hook(lambda *_, name=name: note(name))
        probed.model.train()
        probed.logits(*probed.batch())
    requested = {probed.dropout} - {0.0}
    for name, rates in rates_by_layer.items():
        if rates != requested:
            listed = ", ".join(f"{rate:g}" for rate in sorted(rates)) or "0"
            hint = f"{name} applies dropout at rate {listed} instead of {probed.dropout:g}"
            return False, hint, rates_by_layer
    if not rates_by_layer:
        return None
    return True, f"every layer applies dropout at rate {probed.dropout:g}", rates_by_layer
