"""Compare the losses from chapter 23 with those from the ``trl`` library.

The course does not depend on trl. Install it in a separate environment, along with the course:

    python -m venv trl-env && trl-env/bin/pip install -c constraints.txt -e . trl transformers
    trl-env/bin/python experiments/assistant_library.py

The course and trl use the same random answers and the same small Llama with random weights.
"""

from tempfile import TemporaryDirectory

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer
from trl.trainer.utils import nanstd

from course_lib.assistant import clipped_policy_loss, dpo_loss, group_advantages, token_log_probs

WORDS, PROMPT, ANSWER, GROUPS, GROUP_SIZE = 20, 3, 5, 4, 6
BETA, CLIP, KL_WEIGHT = 0.3, 0.2, 0.04


def small_llama(folder: str, seed: int) -> LlamaForCausalLM:
    """Build a small model from the ``transformers`` library with large random weights.

    We save and reload the model, because the trainers look for its configuration in a folder.
    """
    sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4)
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=WORDS, initializer_range=0.4, pad_token_id=0, **sizes)
    LlamaForCausalLM(config).save_pretrained(f"{folder}/{seed}")
    return LlamaForCausalLM.from_pretrained(f"{folder}/{seed}").eval()


def tokenizer() -> PreTrainedTokenizerFast:
    """Build a tokenizer, which the trainers require but do not use here."""
    words = {f"w{number}": number for number in range(WORDS)}
    inner = Tokenizer(models.WordLevel(words, unk_token="w1"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="w0", eos_token="w2")


def trainers(folder: str) -> tuple[DPOTrainer, GRPOTrainer]:
    """Build the library's two trainers; each of them changes the model that we pass."""
    common = dict(output_dir=folder, use_cpu=True, report_to=[], bf16=False, disable_tqdm=True)
    pairs = Dataset.from_list([{"prompt": "w3", "chosen": " w4", "rejected": " w5"}] * GROUPS)
    dpo = DPOTrainer(
        small_llama(folder, 0), small_llama(folder, 1), DPOConfig(beta=BETA, **common),
        train_dataset=pairs, processing_class=tokenizer(),
    )  # fmt: skip
    config = GRPOConfig(
        loss_type="grpo", beta=KL_WEIGHT, use_bias_correction_kl=False, epsilon=CLIP,
        num_generations=GROUP_SIZE, per_device_train_batch_size=GROUP_SIZE, **common,
    )  # fmt: skip
    asked = Dataset.from_list([{"prompt": "w3"}] * GROUPS)
    reward = lambda completions, **_: [0.0] * len(completions)  # noqa: E731
    grpo = GRPOTrainer(
        small_llama(folder, 0), reward, config, train_dataset=asked, processing_class=tokenizer()
    )
    return dpo, grpo


def gradients(loss: Tensor, model: nn.Module) -> Tensor:
    """Return all gradients of a loss in one vector."""
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([gradient.flatten() for gradient in found if gradient is not None])


def report(name: str, ours: Tensor, model: nn.Module, theirs: Tensor, same: nn.Module) -> None:
    """Print how much two losses and their gradients differ; both models have the same weights."""
    mine, other = gradients(ours, model), gradients(theirs, same)
    print(
        f"{name}: ours {ours.item():.6f}, trl {theirs.item():.6f}; gradients up to "
        f"{other.abs().max().item():.3f}, which differ by up to {(mine - other).abs().max():.1e}"
    )


def compare(folder: str) -> None:
    """Compare both losses, and the advantages in a group."""
    model, reference, old = (small_llama(folder, seed) for seed in range(3))
    dpo, grpo = trainers(folder)
    draw = torch.Generator().manual_seed(0)
    rows = GROUPS * GROUP_SIZE
    ids = torch.randint(3, WORDS, (rows, PROMPT + ANSWER), generator=draw)
    length = torch.randint(1, ANSWER + 1, (rows, 1), generator=draw)
    counted = torch.arange(ANSWER) < length  # (rows, ANSWER)
    mask = torch.cat([torch.zeros(rows, PROMPT, dtype=torch.bool), counted], dim=1)
    of = lambda each: token_log_probs(each(ids).logits, ids)  # noqa: E731

    answers = [(of(each) * mask[:, 1:]).sum(1).chunk(2) for each in (model, reference)]
    (chosen, rejected), (ref_chosen, ref_rejected) = answers
    ours = dpo_loss(chosen, rejected, ref_chosen.detach(), ref_rejected.detach(), BETA)
    inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids), completion_mask=mask.long())
    dpo.model.eval()
    report("DPO", ours, model, dpo._compute_loss(dpo.model, inputs, False), dpo.model)

    rewards = torch.rand(GROUPS, GROUP_SIZE, generator=draw)
    advantages = group_advantages(rewards).flatten()
    theirs = (rewards - rewards.mean(1, keepdim=True)) / (nanstd(rewards, dim=1)[:, None] + 1e-4)
    print(f"advantages differ by up to {(advantages - theirs.flatten()).abs().max():.1e}")
    old_log_probs, ref_log_probs = of(old).detach(), of(reference).detach()
    ours = clipped_policy_loss(
        of(model), old_log_probs, ref_log_probs, advantages, mask[:, 1:], CLIP, KL_WEIGHT
    )
    inputs = dict(
        prompt_ids=ids[:, :PROMPT], prompt_mask=torch.ones(rows, PROMPT).long(),
        completion_ids=ids[:, PROMPT:], completion_mask=counted.long(), advantages=advantages,
        old_per_token_logps=old_log_probs[:, PROMPT - 1 :],
        ref_per_token_logps=ref_log_probs[:, PROMPT - 1 :],
    )  # fmt: skip
    grpo.model.eval()
    report("GRPO", ours, model, grpo._compute_loss(grpo.model, inputs), grpo.model)


if __name__ == "__main__":
    print(f"trl {trl.__version__}, torch {torch.__version__}")
    with TemporaryDirectory() as folder:
        compare(folder)
