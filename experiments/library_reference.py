"""Compare SmolLM2-135M-Instruct in the course's classes and in the ``transformers`` library.

For each of ten prompts, the record shows the library's tokens, whether ours agree, and how much the
logits differ.
"""

from functools import cache

import torch
import transformers
from tokenizers import Tokenizer

from course_lib.interop import llama
from course_lib.interop.weights import find_weights
from course_lib.modern_decoder import ModernDecoder, ModernEngine
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of

NEW_TOKENS = 64
PROMPTS = (
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a haiku about the sea.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nAnswer in one word.<|im_end|>\n<|im_start|>user\nIs ice cold?<|im_end|>\n"
    "<|im_start|>assistant\n",
    "Once upon a time",
    "The three laws of motion are",
    "def mean(numbers):\n    ",
    "import torch\n\nclass",
    "1, 2, 3, 4, 5,",
    "Das Wetter ist heute",
    "  \n\nQ: Why is the sky blue?\nA:",
)


@cache
def ours() -> tuple[ModernDecoder, Tokenizer]:
    """Load the model and the tokenizer into the course's classes."""
    return llama.from_pretrained(find_weights("smollm2-135m-instruct"))


@cache
def theirs() -> transformers.PreTrainedModel:
    """Load the same weights with the library, in float32."""
    path = find_weights("smollm2-135m-instruct")
    how = dict(gguf_file=path.name, dtype=torch.float32)
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, **how).eval()


@torch.no_grad()
def compare(prompt: str, new_tokens: int = NEW_TOKENS) -> Entry:
    """Continue a prompt with both models; compare all logits, with and without our engine."""
    model, tokenizer = ours()
    prompt_ids = torch.tensor([tokenizer.encode(prompt).ids])  # (1, T)
    every = torch.ones_like(prompt_ids)  # otherwise, the library masks <|im_end|> as padding
    how = dict(max_new_tokens=new_tokens, do_sample=False, eos_token_id=None)
    written = theirs().generate(prompt_ids, attention_mask=every, **how)
    engine = ModernEngine(model, written.size(1))
    ids, logits = prompt_ids, [engine.step(prompt_ids, all_positions=True)]
    while ids.size(1) < written.size(1):
        ids = torch.cat([ids, logits[-1][:, -1:].argmax(-1)], dim=1)
        logits.append(engine.step(ids[:, -1:], all_positions=True))
    with_engine = torch.cat(logits, dim=1)  # (1, T + new_tokens, V)
    without = model(written)[0]
    expected = theirs()(written).logits
    difference = (without - expected).abs()
    new = written[:, prompt_ids.size(1) :]  # (1, new_tokens)
    without_engine = without[:, prompt_ids.size(1) - 1 : -1].argmax(-1)
    return {
        "prompt": prompt,
        "tokens": new[0].tolist(),
        "same_tokens": ids.equal(written) and without_engine.equal(new),
        "difference_on_prompt": difference[:, : prompt_ids.size(1)].max().item(),
        "difference": difference.max().item(),
        "engine_difference": (with_engine - without).abs().max().item(),
    }


def record(run: Entry) -> Entry:
    """Compare both models on a prompt, and record the text that they write."""
    entry = compare(run["prompt"])
    entry["text"] = ours()[1].decode(entry["tokens"], skip_special_tokens=False)
    return entry | {"library": f"transformers {transformers.__version__}"}


RUNS: list[Entry] = [{"prompt": prompt} for prompt in PROMPTS]

if __name__ == "__main__":
    main(__doc__, record_of("library_reference"), RUNS, record)
