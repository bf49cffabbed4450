"""Published models continue texts and have conversations, and read every token once."""

import io
import json
import shutil
import sys

import pytest
import tokenizers
import torch
from hf_fixtures import published as save_published
from test_cli_training import Terminal, interrupt
from tokenizers import AddedToken, decoders, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from course_lib.cli import conversation, model_commands
from course_lib.cli import main as cli
from course_lib.cli.conversation import Conversation, continue_text, render, sampler
from course_lib.interop.chat_template import read_chat_template
from course_lib.interop.text_models import load_writer
from course_lib.modern_decoder import ModernDecoder

MODEL = "smollm2-135m-instruct"
START, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = """\
{% for message in messages %}
  {% if message['content'] %}
<|im_start|>{{ message['role'][0] + message['content'] | trim }}<|im_end|>
  {% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>a{% endif %}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Save a small model that reads bytes, with a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(START), AddedToken(END)])
    save_published("llama", folder, vocab_size=258, max_position_embeddings=80)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"chat_template": TEMPLATE, "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


def script(folder, text):
    """Return a function that samples the tokens of a given text, whatever the model predicts."""
    tokenizer = load_writer(folder)[1]
    ids = iter(tokenizer.encode(text).ids)
    return lambda logits: torch.tensor([next(ids)])


def test_an_answer_ends_at_its_special_token_and_characters_are_complete(folder):
    talk = Conversation(load_writer(folder, chats=True), script(folder, f"é 😀!{END}{START}"))
    assert list(talk.answer("Hi")) == ["é", " ", "😀", "!"]
    question, answer = talk.messages
    assert question == {"role": "user", "content": "Hi"}
    assert answer == {"role": "assistant", "content": "é 😀!"}
    talk.draw = script(folder, "long text")
    talk.tokens = 4
    assert "".join(talk.answer("More")) == "long"


def test_earlier_turns_stay_in_context_and_are_read_once(folder, monkeypatch):
    read = []
    step = conversation.text_engine.registry[ModernDecoder].step

    def counted(engine, ids, **options):
        read.extend(ids[0].tolist())
        return step(engine, ids, **options)

    monkeypatch.setattr("course_lib.modern_decoder.ModernEngine.step", counted)
    talk = Conversation(load_writer(folder, chats=True), script(folder, f"yes{END}no{END}"))
    for question in ("One", "Two"):
        list(talk.answer(question))
    whole = "\n".join(["<|im_start|>uOne<|im_end|>", "<|im_start|>ayes<|im_end|>",
                       "<|im_start|>uTwo<|im_end|>", "<|im_start|>ano"])  # fmt: skip
    assert read == talk.ids == talk.tokenizer.encode(whole).ids


@pytest.mark.parametrize("when", ["while the model computes", "while a part is printed"])
def test_the_context_is_correct_after_an_interrupted_answer(folder, when):
    greedy = sampler(top_k=1)
    talk = Conversation(load_writer(folder, chats=True), greedy, tokens=9)
    list(talk.answer("One"))
    if when == "while a part is printed":
        answer = talk.answer("Two")
        next(answer)
        answer.close()
    else:
        talk.engine.caches[1].append = interrupt  # after the first layer has read the token
        with pytest.raises(KeyboardInterrupt):
            list(talk.answer("Two"))
        del talk.engine.caches[1].append
    assert len(talk.messages) == 4
    found = "".join(talk.answer("Three"))
    fresh = Conversation(load_writer(folder, chats=True), greedy, tokens=9)
    fresh.messages = talk.messages[:4]
    assert found == "".join(fresh.answer("Three")) and talk.ids == fresh.ids


def test_a_question_that_does_not_fit_begins_a_new_conversation(folder):
    talk = Conversation(load_writer(folder, chats=True), script(folder, 200 * "x"))
    asked = talk.tokenizer.encode(render(talk.template, [{"role": "user", "content": "Hi"}])).ids
    assert len(list(talk.answer("Hi"))) == 81 - len(asked) and talk.engine.length == 80
    assert talk.notes == ["cut off: a conversation can have at most 80 tokens"]
    with pytest.raises(ValueError, match="question takes 1\\d\\d tokens.* of 80; ask a shorter"):
        list(talk.answer(100 * "x"))
    assert not talk.notes and len(talk.messages) == 2
    talk.draw = script(folder, f"fine{END}so{END}")
    assert (
        list(talk.answer("Hi")) == [*"fine"]
        and talk.ids == asked + talk.tokenizer.encode("fine").ids
    )
    (said,) = talk.notes
    assert "new conversation" in said and "80 tokens" in said
    assert list(talk.answer("Ho")) == [*"so"] and len(talk.messages) == 4 and not talk.notes


@pytest.mark.parametrize(
    ("text", "notes"),
    [("long text", ["cut off at 4 tokens; --tokens N allows more"]), (f"sho{END}", [])],
)
def test_a_truncated_answer_says_so(folder, monkeypatch, capsys, text, notes):
    monkeypatch.setattr(model_commands, "sampler", lambda **options: script(folder, text))
    monkeypatch.setattr(sys, "stdin", io.StringIO("One\n\n"))
    assert cli.main(["chat", "--weights", str(folder), "--tokens", "4"]) == 0
    out, err = capsys.readouterr()
    assert out == text.removesuffix(END)[:4] + "\n\n"
    assert err == "".join(f"({said})\n" for said in notes)


def change_tokenizer(source, folder, special, eos_token):
    """Copy a model, with or without marked special tokens, and with another end token."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    content = json.loads((folder / "tokenizer.json").read_text())
    for token in content["added_tokens"]:
        token["special"] = special
    (folder / "tokenizer.json").write_text(json.dumps(content))
    about = {"chat_template": TEMPLATE, "eos_token": eos_token}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("special", "eos_token", "out", "said"),
    [
        (False, None, f"yes{END}n", "so an answer ends only after 5 tokens (--tokens)"),
        (True, None, "yes", "ends only at another special token or after 5 tokens (--tokens)"),
        (False, END, "yes", None),
    ],
)
def test_a_chat_says_once_that_a_model_has_no_end_token(
    folder, tmp_path, monkeypatch, capsys, special, eos_token, out, said
):
    change_tokenizer(folder, tmp_path, special, eos_token)
    draw = script(tmp_path, 2 * f"yes{END}n")
    monkeypatch.setattr(model_commands, "sampler", lambda **options: draw)
    monkeypatch.setattr(sys, "stdin", io.StringIO("One\n"))
    assert cli.main(["chat", "--weights", str(tmp_path), "--tokens", "5"]) == 0
    found, err = capsys.readouterr()
    assert found == out + "\n"
    assert err.count("end token") == (said is not None) and (said or "") in err


def test_a_template_is_filled_in_as_in_the_library(folder, published):
    library = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    roles = ["system", "user", "assistant", "user"]
    messages = [{"role": role, "content": f" {role}\n{{{{x}}}} "} for role in roles]
    template = read_chat_template(published(MODEL))
    for part in (messages, messages[1:]):
        expected = library.apply_chat_template(
            part, chat_template=template.source, tokenize=False, add_generation_prompt=True
        )
        assert render(template, part) == expected


def test_a_text_continues_until_a_special_token_which_is_hidden(folder):
    draw, writer = script(folder, f"é{END}no"), load_writer(folder)
    assert "".join(continue_text(writer, f"{START}Once", 50, draw)) == "Onceé"
    assert "".join(continue_text(writer, "Once", 3, script(folder, "abcde"))) == "Onceabc"
    for prompt, reason in (("", "prompt is empty"), (99 * "x", "99 tokens")):
        with pytest.raises(ValueError, match=reason):
            list(continue_text(writer, prompt, 3, draw))


def test_a_chat_in_the_terminal_continues_after_ctrl_c_and_after_a_long_answer(
    folder, monkeypatch, capsys
):
    drawn = script(folder, f"yes{END}n")
    rest, last = script(folder, 99 * "x"), script(folder, f"fine{END}")
    said = "\n".join(["<uOne>", "<ayes>", "<uTwo>", "<an>", "<uThree>", "<a"])  # one token each
    steps = [*5 * [drawn], interrupt, *(81 - len(said)) * [rest], *5 * [last]]
    draw = lambda logits: steps.pop(0)(logits)  # noqa: E731
    monkeypatch.setattr(model_commands, "sampler", lambda **options: draw)
    monkeypatch.setattr(sys, "stdin", Terminal("One\nTwo\nThree\nFour\n\nFive\n"))
    assert cli.main(["chat", "--weights", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Ask a question.") and "> yes\n> n\n> xxx" in out
    assert err.count("(cut off: ") == err.count("(this answer begins a new conversation") == 1
    assert out.endswith("x\n> fine\n> ")


def test_a_chat_needs_a_model_that_answers(folder, tmp_path, monkeypatch, capsys):
    save_published("llama", tmp_path)
    assert cli.main(["chat", "--weights", str(tmp_path)]) == 2
    assert "no chat template" in capsys.readouterr().err
    monkeypatch.setattr("course_lib.cli.model_commands.find_weights", lambda name: folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO("One\n\nTwo\n"))
    assert cli.main(["chat", "--tokens", "2", "--top-k", "1"]) == 0
    out = capsys.readouterr().out
    greedy = Conversation(load_writer(folder, chats=True), sampler(top_k=1), tokens=2)
    assert out == "\n\n".join("".join(greedy.answer(text)) for text in ("One", "Two")) + "\n"
