"""Chat templates are read in all published forms, and can take neither all memory nor all time."""

import json
import time

import pytest
from hf_fixtures import published

from course_lib.interop import chat_template, gpt2
from course_lib.interop.chat_template import (
    ChatTemplate,
    read_chat_template,
    render,
)
from course_lib.interop.text_models import load_writer

SAYS = "the chat template cannot be used: "
ASKED = [{"role": "user", "content": "<é> & 'x'"}]


def filled(source, messages=ASKED):
    return render(ChatTemplate(source, "<s>", "</s>"), messages)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a{% generation %}b{{ eos_token }}{% endgeneration %}c", "ab</s>c"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "<é> & \'x\'"}'),
        ("{{ {'b': 1, 'a': 'é'} | tojson(ensure_ascii=True) }}", '{"b": 1, "a": "\\u00e9"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{% if tools is none and documents is none %}none{% endif %}", "none"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{% for a in 'xy' %}{{ a }}{% break %}{% endfor %}", "x"),
        ("{% if true %}\n  {% endif %}\ny", "y"),
    ],
)
def test_templates_find_what_they_use_in_the_library(source, text):
    assert filled(source) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 10**10 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_can_take_neither_all_memory_nor_all_time(monkeypatch, source):
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    start = time.monotonic()
    with pytest.raises(ValueError, match=SAYS) as caught:
        filled(source)
    assert time.monotonic() - start < 30 and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ raise_exception('no system role') }}", "no system role"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ 'x'.ljust(2 * 10**9) }}", "needs more than 1,073,741,824 bytes"),
    ],
)
def test_a_template_that_rejects_or_reaches_out_says_so(source, reason):
    with pytest.raises(ValueError, match=f"{SAYS}.*{reason}"):
        filled(source)


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def test_several_templates_and_special_tokens_in_a_map_are_read(tmp_path):
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    special = {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}
    settings = {"chat_template": several, "bos_token": None}
    write(tmp_path, tokenizer_config=settings, special_tokens_map=special)
    assert read_chat_template(tmp_path) == ChatTemplate("d", "<s>", "</s>")
    (tmp_path / "chat_template.jinja").write_text("newer")
    assert read_chat_template(tmp_path).source == "newer"
    (tmp_path / "chat_template.jinja").unlink()
    write(tmp_path, tokenizer_config={"chat_template": several[:1]})
    with pytest.raises(ValueError, match="no chat template"):
        read_chat_template(tmp_path)


def test_every_end_token_of_both_configurations_ends_a_text(tmp_path):
    write(tmp_path, config={"eos_token_id": [2, 5]}, generation_config={"eos_token_id": 7})
    assert read_chat_template(tmp_path, required=False).end_ids == {2, 5, 7}
    write(tmp_path, config={"eos_token_id": None}, generation_config={"eos_token_id": True})
    assert read_chat_template(tmp_path, required=False).end_ids == set()


def test_loaders_of_texts_and_chats_turn_every_error_into_a_sentence(tmp_path, monkeypatch):
    published("gpt2", tmp_path)
    monkeypatch.setattr(gpt2, "from_pretrained", lambda path: {}["h.0"])
    with pytest.raises(ValueError, match="published model .KeyError: 'h.0'"):
        load_writer(tmp_path)
    with pytest.raises(ValueError, match="no chat template"):
        load_writer(tmp_path, chats=True)
    write(tmp_path, tokenizer_config={"chat_template": [{"name": ["default"]}]})
    with pytest.raises(ValueError, match="published model .TypeError"):
        load_writer(tmp_path, chats=True)
