"""A model in BERT's layout, loaded from files, agrees with the ``transformers`` library."""

import pytest
import tokenizers
import torch
import transformers
from hf_fixtures import MAX_LEN, PAD, edit_config, edit_weights
from hf_fixtures import published as save
from parity import assert_equal, says
from random_inputs import make_generator

from course_lib.interop import bert
from course_lib.masks import padding_mask


def some_ids(length):
    """Draw three texts; the second ends with two padding tokens."""
    ids = torch.randint(PAD, (3, length), generator=make_generator())
    ids[1, max(1, length - 2) :] = PAD
    return ids


@pytest.mark.parametrize(
    "changes",
    [
        *(dict(num_attention_heads=count) for count in (1, 3, 9)),
        dict(num_hidden_layers=12),  # layer 10 must not come before layer 2
        dict(layer_norm_eps=0.1),
        dict(type_vocab_size=4),
    ],
    ids=str,
)
def test_the_vectors_are_the_library_s_with_padding_and_segments(tmp_path, changes):
    theirs = save("bert", tmp_path, **changes)
    ours = bert.from_pretrained(tmp_path)[0].double()
    for length in (1, 5, MAX_LEN):
        ids = some_ids(length)
        real = ids != PAD
        pairs = torch.arange(length).expand(3, -1) % theirs.config.type_vocab_size
        mask = padding_mask(ids, PAD)
        for segments in (None, pairs):
            how = dict(attention_mask=real.long(), token_type_ids=segments)
            expected = theirs(ids, **how).last_hidden_state
            assert_equal(ours(ids, mask, segments)[real], expected[real])


def test_a_prefix_and_the_names_of_2018_are_read(tmp_path):
    theirs = save("bert", tmp_path)

    def rename(weights):
        for name in list(weights):
            older = name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            weights[f"bert.{older}"] = weights.pop(name)

    edit_weights(tmp_path, rename)
    ours = bert.from_pretrained(tmp_path)[0].double()
    assert_equal(ours(some_ids(5)), theirs(some_ids(5)).last_hidden_state)


@pytest.mark.parametrize(
    "changes",
    [
        dict(hidden_act="gelu_new"), dict(hidden_act="relu"), dict(is_decoder=True),
        dict(add_cross_attention=True), dict(position_embedding_type="relative_key"),
        dict(layer_norm_eps=-1.0), dict(type_vocab_size=0),
        dict(model_type="roberta"),
    ],
    ids=str,
)  # fmt: skip
def test_another_layout_is_rejected_by_field(tmp_path, changes):
    save("bert", tmp_path)
    edit_config(tmp_path, **changes)
    ((name, value),) = changes.items()
    with pytest.raises(ValueError, match=says(f"{name}={value!r}")):
        bert.from_pretrained(tmp_path)


def test_all_minilm_l6_v2_gives_the_librarys_vectors(published):
    folder = published("all-minilm-l6-v2")
    transformers.logging.disable_progress_bar()
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    ours, tokenizer = bert.from_pretrained(folder)
    assert isinstance(tokenizer, tokenizers.Tokenizer)
    tokenizer.enable_padding(pad_id=0)
    texts = ["What hides the future?", "A mask says which query may look at which key."]
    ids = torch.tensor([text.ids for text in tokenizer.encode_batch(texts)])
    real = ids != 0
    with torch.no_grad():
        expected = theirs(ids, attention_mask=real.long()).last_hidden_state
        vectors = ours(ids, padding_mask(ids, 0))
    torch.testing.assert_close(vectors[real], expected[real], rtol=0, atol=1e-5)
