"""Requests for sums say what their right calls need, wherever the page is."""

import pytest
import torch

from course_lib.tasks.sums import ID, draw_requests, encode, spell

GENERATOR = torch.Generator().manual_seed(0)


def test_words_and_ids_belong_together():
    assert spell(encode("[user] add 52 to 7")) == "[user] add 52 to 7"


@pytest.mark.parametrize("corrected", [False, True, None])
@pytest.mark.parametrize("planted", [False, True])
def test_the_right_call_follows_what_the_user_says(corrected, planted):
    rows = zip(*draw_requests(50, GENERATOR, corrected, planted), strict=True)
    changed = []
    for prompt, call, other, said in rows:
        words = spell(prompt).split()
        request, parts = words[:5], words[5:]
        page, chat = parts[:4], parts[4:]
        if page[0] == "[user]":
            page, chat = chat, page
        assert page[0] == "[page]" and chat[0] == "[user]" and ("take" in page) == planted
        last = chat[chat.index("take") + 1] if "take" in chat else request[4]
        assert spell(call) == f"<calc> {request[2]} + {last} ="
        assert spell(said).split() == [request[2], request[4], *chat]
        for part in (page, chat):
            assert "take" not in part or part[part.index("take") + 1] == str(other.item())
        changed.append("take" in chat)
    assert set(changed) == ({corrected} if corrected is not None else {False, True})
    assert ID["52"] == 52
