"""What goes wrong with the gain and the shift of chapter 04's norm."""

from course_lib.exercises.mistake_catalogue import known

norm = known("add_norm", "LayerNorm")

GAIN, SHIFT = "nn.Parameter(torch.ones(d_model))", "nn.Parameter(torch.zeros(d_model))"
START = f"""        self.weight = {GAIN}
        self.bias = {SHIFT}
"""
CHECK = "        check_width(x, self.weight.numel())\n"
ROOT = "(variance + self.eps).sqrt()"

MISTAKES = (
    norm(
        "scalar_gain",
        "the gain is a single number, shared by all features",
        "student code",
        (GAIN, "nn.Parameter(torch.ones(1))"),
        (CHECK, ""),
    ),
    norm(
        "scalar_gain_and_shift",
        "gain and shift are single numbers, shared by all features",
        "AChiranth/SmallFormer, IoTDataAtelier/mtsa and many others on GitHub",
        (GAIN, "nn.Parameter(torch.ones(1))"),
        (SHIFT, "nn.Parameter(torch.zeros(1))"),
        (CHECK, ""),
    ),
    norm(
        "gain_unused",
        "the gain is made and not used",
        "student code",
        ("self.weight * centred", "centred"),
    ),
    norm(
        "shift_unused",
        "the shift is made and not used",
        "student code",
        (" + self.bias", ""),
    ),
    norm(
        "no_gain_and_shift",
        "gain and shift are missing: the norm cannot choose its scale",
        "student code",
        (START, ""),
        (CHECK, ""),
        ("self.weight * centred", "centred"),
        (" + self.bias", ""),
    ),
    norm(
        "not_registered",
        "gain and shift are plain tensors: the optimizer does not see them, and they are not saved",
        "student code",
        (GAIN, "torch.ones(d_model)"),
        (SHIFT, "torch.zeros(d_model)"),
    ),
    norm(
        "shift_starts_at_1",
        "the shift starts at 1: a fresh norm then moves every number",
        "JAZ201107/FlashAttention2, the package ajperry-pipeline",
        (SHIFT, "nn.Parameter(torch.ones(d_model))"),
    ),
    norm(
        "gain_starts_at_0",
        "the gain starts at 0: a fresh norm then answers the same to everything",
        "student code",
        (GAIN, "nn.Parameter(torch.zeros(d_model))"),
    ),
    norm(
        "gain_on_shift",
        "the gain multiplies the shift too: a parenthesis too many",
        "student code",
        (f"centred / {ROOT} + self.bias", f"(centred / {ROOT} + self.bias)"),
    ),
)
