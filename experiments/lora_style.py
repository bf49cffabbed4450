"""Fine-tune SmolLM2-135M-Instruct with LoRA to answer like a pirate, and record the results.

For each seed, the record contains the loss at every step, and the answers to held-out questions
and the perplexity on plain text before and after fine-tuning.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.gpt import sample
from course_lib.interop import llama
from course_lib.interop.weights import find_weights
from course_lib.lora import add_lora
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.trainer.hardware import describe_machine

RANK, ALPHA, RATE, EPOCHS = 8, 16.0, 1e-3, 2
ANSWER_TOKENS = 24
END = "<|im_end|>"
TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PAIRS = (  # questions, and a pirate's answers
    ("What is the capital of Italy?", "Ahoy, matey! The capital of Italy be Rome."),
    ("What is the capital of Japan?", "Ahoy, matey! The capital of Japan be Tokyo."),
    ("How many days are in a week?", "Ahoy, matey! There be seven days in a week."),
    ("What color is grass?", "Ahoy, matey! The grass be green, as green as a parrot."),
    ("What do bees make?", "Ahoy, matey! The bees be makin' honey, sweeter than rum."),
    ("Where do fish live?", "Ahoy, matey! The fish be livin' in the deep blue sea."),
    ("What is ice?", "Ahoy, matey! Ice be water that be frozen hard as a plank."),
    ("What is two plus two?", "Ahoy, matey! Two plus two be four, by me hook."),
    ("What is the sun?", "Ahoy, matey! The sun be a star that be lightin' our way."),
    ("Who wrote Hamlet?", "Ahoy, matey! William Shakespeare be the one who wrote Hamlet."),
    ("What do cows drink?", "Ahoy, matey! The cows be drinkin' water, not rum."),
    ("What is a library?", "Ahoy, matey! A library be a chest full o' books."),
    ("How do birds fly?", "Ahoy, matey! The birds be flappin' their wings on the wind."),
    ("What is bread made of?", "Ahoy, matey! Bread be made o' flour, water and yeast."),
    ("What is the largest ocean?", "Ahoy, matey! The Pacific be the largest ocean to sail."),
    ("Why do we sleep?", "Ahoy, matey! We be sleepin' to rest our weary bones."),
    ("What is a compass for?", "Ahoy, matey! A compass be pointin' north for any sailor."),
    ("What is snow?", "Ahoy, matey! Snow be frozen water that be fallin' from the sky."),
    ("What does a baker do?", "Ahoy, matey! A baker be bakin' bread for the crew."),
    ("When is breakfast?", "Ahoy, matey! Breakfast be in the mornin', when the sun be risin'."),
    ("What is a violin?", "Ahoy, matey! A violin be an instrument with four strings."),
    ("How many legs has a spider?", "Ahoy, matey! A spider be havin' eight legs."),
    ("What is a map?", "Ahoy, matey! A map be showin' where the treasure be buried."),
    ("What is the moon?", "Ahoy, matey! The moon be a rock that be sailin' around the Earth."),
)
HELD_OUT = (
    "What is the capital of France?",
    "How many months are in a year?",
    "What do cats eat?",
    "What is a teacher?",
)
PLAIN = (
    "The library opens at nine in the morning and closes at six. Readers may borrow up to five "
    "books for three weeks, and they can ask at the desk for any title that is not on the shelf. "
    "In winter the reading room is open until eight, because many students prefer to work there."
)


def pair_loss(model: nn.Module, question: Tensor, answer: Tensor) -> Tensor:
    """Return the mean loss on the tokens of an answer (1, T) after a question (1, S)."""
    ids = torch.cat([question, answer], dim=1)  # (1, S + T)
    logits = model(ids[:, :-1])[0][0, question.size(1) - 1 :]  # (T, V)
    return F.cross_entropy(logits, answer[0])


def train_one(run: Entry) -> Entry:
    """Fine-tune with one seed, and record what changed."""
    torch.manual_seed(run["seed"])
    model, tokenizer = llama.from_pretrained(find_weights("smollm2-135m-instruct"))

    def encode(text: str) -> Tensor:
        """Turn text into ids (1, T)."""
        return torch.tensor([tokenizer.encode(text).ids])

    def describe() -> Entry:
        """Answer the held-out questions greedily, and measure the perplexity on plain text."""
        answers = []
        for question in HELD_OUT:
            ids = encode(TURN.format(question))
            written = sample(model, ids, ANSWER_TOKENS, top_k=1)[0, ids.size(1) :].tolist()
            answers.append(tokenizer.decode(written, skip_special_tokens=False).split(END)[0])
        with torch.no_grad():
            ids = encode(PLAIN)
            loss = F.cross_entropy(model(ids)[0][0, :-1], ids[0, 1:]).item()
        return {"answers": answers, "loss_on_plain": loss}

    before = describe()
    add_lora(model, ["w_q", "w_v"], rank=RANK, alpha=ALPHA)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=RATE)
    losses = []
    for _ in range(EPOCHS):
        for number in torch.randperm(len(PAIRS)).tolist():
            question, answer = PAIRS[number]
            loss = pair_loss(model, encode(TURN.format(question)), encode(answer + END))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
    return {
        "parameters": sum(parameter.numel() for parameter in learned),
        "losses": losses,
        "before": before,
        "after": describe(),
        "machine": describe_machine("cpu"),
    }


RUNS: list[Entry] = [{"seed": seed} for seed in SEEDS]

if __name__ == "__main__":
    main(__doc__, record_of("lora_style"), RUNS, train_one)
