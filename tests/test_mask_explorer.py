"""The mask explorer uses a trained layer, and agrees with the answers in chapter 06."""

import numpy as np
import pytest
import torch
from figure_asserts import answer_of_chapter
from mask_layer import PAIRS, record, train

from course_lib.data.number_words import spell
from course_lib.viz.mask_explorer import CROSS, MAX_WORDS, MaskExplorer


@pytest.fixture
def one_thread():
    """Restore the settings that training changes for the whole process."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)
    torch.set_default_dtype(torch.float32)


def test_the_saved_layer_is_the_trained_layer(one_thread):
    model, accuracy = train()
    assert accuracy > 0.99
    trained, kept = record(model), MaskExplorer().layer
    assert list(trained) == list(kept) and list(trained["embedding"]) == list(kept["embedding"])
    embeddings = [list(layer["embedding"].values()) for layer in (trained, kept)]
    np.testing.assert_allclose(*embeddings, rtol=0, atol=1)  # the last digit may be rounded away
    for name in list(kept)[1:]:
        for projection in ("w_q", "w_k"):
            np.testing.assert_allclose(trained[name][projection], kept[name][projection], atol=1)


def test_training_uses_the_words_of_all_numbers():
    for number, (english, german) in enumerate(PAIRS, start=1):
        assert " ".join(english) == spell(number, "en").replace("-", " ")
        assert "".join(german) == spell(number, "de")


def leak_of_one_cell(t: int, s: int) -> float:
    """Open one more cell than chapter 06, and return the leak in its row."""
    cells = torch.ones(MAX_WORDS, MAX_WORDS).int()
    cells[:4] = cells[:4].tril()  # the rows of the real words
    cells[t, s] = 1
    rows = ["".join(map(str, row)) for row in cells.tolist()]
    return MaskExplorer(mask="your own", cells=rows).numbers()["leaked"][t]


def test_the_questions_of_chapter_06_have_the_printed_answers():
    answer, words = answer_of_chapter(MaskExplorer), MaskExplorer().target.split()
    leaks = {(t, s): leak_of_one_cell(t, s) for s in range(6) for t in range(min(s, 4))}
    (second, (other, _)), (most, (t, s)) = sorted((leak, cell) for cell, leak in leaks.items())[-2:]
    assert f'"{words[t]}" leaks the most. If it may look at "{words[s]}"' in answer
    assert f"gets {most:.2f} of its weight" in answer
    assert f'"{words[other]}" comes second: it gives {second:.2f}' in answer
    cross = MaskExplorer(attention=CROSS, mask="padding")
    row = words.index("hundert")
    assert f'gives {cross.numbers()["weights"][row][2]:.2f} of its weight to "five"' in answer
    cross.mask = "nothing blocked"
    assert f'"[pad]" gets {cross.numbers()["weights"][row][3]:.2f} instead' in answer


def test_a_row_without_visible_keys_has_weights_of_zero():
    weights = MaskExplorer(mask="your own", cells=["000000"] * MAX_WORDS).numbers()["weights"]
    assert not np.any(weights)
