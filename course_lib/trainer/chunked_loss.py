"""The loss of a training step, computed a few rows at a time to avoid large logits (§5.4)."""

from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.support.input_checks import check_ids
from course_lib.transformer import Transformer

ROWS = 512  # 512 rows of 8,000 logits are 16 MB


class ChunkedLoss(nn.Module):
    """The loss of a ``Transformer`` without an output bias, computed a few rows at a time.

    Paper: §5.4, label smoothing. Equals ``label_smoothed_cross_entropy`` with ``pad_id=None`` on
    the real tokens. Padding never reaches the output layer.

    Args:
        model: The ``Transformer``.
        smoothing: Label smoothing, in [0, 1].
        bfloat16: Whether to compute logits in bfloat16, which gives the loss 8 bits of precision.
    """

    def __init__(
        self, model: Transformer, smoothing: float = 0.1, *, bfloat16: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.in_bfloat16 = bfloat16
        self.chunks = nn.LinearCrossEntropyOptions(batch_chunk_size=ROWS, acc_policy="balanced")

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Return the mean loss over all next tokens, in nats per real token; 0 if there are none.

        Shapes: source ids (B, S), and target ids (B, T + 1) from bos to eos, on any device. Ids on
        the CPU are counted there, so that nothing waits for a GPU, and ValueError is raised if an
        id is not in the vocabulary.
        """
        config = self.model.config
        check_ids(tgt, config.tgt_vocab_size, config.max_len + 1, "target")
        matrix = self.model.output.weight  # (V, d_model)
        positions = (tgt[:, 1:] != config.pad_id).flatten().nonzero().squeeze(1)  # (R,)
        src, tgt, positions = (
            x.to(matrix.device, non_blocking=True) for x in (src, tgt, positions)
        )
        hidden = self.model.hidden(tgt[:, :-1], self.model.encode(src), src)  # (B, T, d_model)
        hidden = hidden.flatten(0, 1)[positions]  # (R, d_model)
        right = tgt[:, 1:].flatten()[positions]  # (R,)
        # Smoothing adds the right logit less the mean logit, and means need no logits.
        gap = (hidden * (F.embedding(right, matrix) - matrix.mean(dim=0))).sum(dim=1)  # (R,)
        if len(right) == 0:
            return gap.sum()  # 0, with gradients of 0
        if self.in_bfloat16:
            hidden, matrix = hidden.bfloat16(), matrix.bfloat16()
        # With the mean, torch keeps the gradients of each chunk and computes no logits twice.
        loss = F.linear_cross_entropy(hidden, matrix, right, reduction="mean", options=self.chunks)
        return loss + self.smoothing * gap.mean()
