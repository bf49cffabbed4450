"""Our Transformer with Marian's weights agrees with the ``transformers`` library."""

import json
import random
import shutil

import pytest
import sentencepiece
import torch
import transformers
from hf_fixtures import EOS, PAD, VOCAB, edit_weights, published
from parity import assert_equal
from random_inputs import make_generator

from course_lib.beam_search import beam_search
from course_lib.cli import main as cli
from course_lib.data import spell
from course_lib.decoding import greedy_decode
from course_lib.interop import marian

SRC = torch.tensor([[1, 2, 3, 9, EOS], [4, 5, EOS, PAD, PAD]])
TGT = torch.tensor([[3, 4, 5, 1], [7, EOS, PAD, PAD]])  # after the start token


def read_double(folder):
    """Load our model in float64."""
    return marian.from_pretrained(folder)[0].double()


def both_logits(ours, theirs):
    """Compute both models' logits on the same batch, each after its start token."""
    started = [torch.cat([torch.full((2, 1), start), TGT], dim=1) for start in (PAD, VOCAB)]
    real = torch.cat([torch.ones(2, 1), TGT != PAD], dim=1)  # the start token is not padding
    their_logits = theirs(
        input_ids=SRC,
        attention_mask=SRC != PAD,
        decoder_input_ids=started[0],
        decoder_attention_mask=real,
    ).logits
    return ours(SRC, started[1]), their_logits


# --- the same logits and translations


@pytest.mark.parametrize("activation", ["swish", "silu", "gelu", "relu"])
def test_the_logits_are_the_library_s_with_padding_on_both_sides(tmp_path, activation):
    theirs = published("marian", tmp_path, activation_function=activation)
    ours, expected = both_logits(read_double(tmp_path), theirs)
    assert_equal(ours[..., :VOCAB], expected)
    assert ours[..., VOCAB].isneginf().all()  # the start token is never chosen


def test_greedy_and_beam_search_give_the_librarys_translations(tmp_path):
    lengths, special = set(), dict(bos_id=VOCAB, eos_id=EOS, max_new_tokens=9)
    beams = dict(num_beams=4, length_penalty=0.0, early_stopping="never")
    for seed in range(6):
        theirs = published("marian", tmp_path, seed)
        ours = read_double(tmp_path)
        src = torch.randint(1, PAD, (7, 6), generator=make_generator(seed))
        src[:, -1] = EOS
        src[2, 3:] = torch.tensor([EOS, PAD, PAD])
        greedy, best = (
            theirs.generate(
                src, attention_mask=src != PAD, max_new_tokens=9, do_sample=False,
                bad_words_ids=[[PAD]], **options,
            )[:, 1:]
            for options in (dict(num_beams=1), beams)
        )  # fmt: skip
        written = greedy_decode(ours, src, **special)
        assert torch.equal(written, greedy)
        lengths |= set((written != PAD).sum(dim=1).tolist())
        beams_written, _ = beam_search(ours, src, **special, beam_size=4, alpha=0.0)
        assert torch.equal(beams_written[:, 0, : best.size(1)], best)
    assert len(lengths) > 1  # some end, some do not


# --- the tokenizer


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Train two small SentencePiece models, and save them in the published format."""
    folder = tmp_path_factory.mktemp("spoken")
    numbers = random.Random(0).sample(range(100_000), 800)
    tokens = {}
    for side, language in (("source", "de"), ("target", "en")):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([spell(number, language) for number in numbers]),
            model_prefix=str(folder / side),
            vocab_size=60,
            minloglevel=2,
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        tokens |= dict.fromkeys(model.id_to_piece(i) for i in range(3, len(model)))
    vocab = ["</s>", "<unk>", *tokens, ">>eng<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocab)}))
    return folder, numbers


def test_texts_become_the_librarys_ids_and_are_decoded_again(spoken):
    folder, numbers = spoken
    ours = marian.MarianTokenizer(folder)
    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    texts = [spell(number, "de") for number in numbers[:200]]
    texts += ["", " zwei  drei ", "Ω zwölf", ">>eng<< zwei", ">>xyz<< zwei", "zwei >> drei << vier"]
    for text in texts:
        assert ours.encode(text) == theirs(text).input_ids
    for number in numbers[:200]:
        ids = theirs(text_target=spell(number, "en")).input_ids
        ids = [ours.bos_id, *ids, ours.pad_id, 7]  # tokens after the end do not count
        assert ours.decode(ids) == spell(number, "en")
    assert (ours.pad_id, ours.eos_id, ours.bos_id) == (theirs.pad_token_id, 0, len(theirs))


@pytest.mark.parametrize("wrong", [1, -1, 2.5, 3])
def test_ids_that_do_not_count_the_tokens_are_refused(spoken, tmp_path, wrong):
    shutil.copy(spoken[0] / "source.spm", tmp_path)
    vocab = json.dumps({"</s>": 0, "<unk>": 1, "<pad>": wrong})
    (tmp_path / "vocab.json").write_text(vocab)
    with pytest.raises(ValueError, match="each once"):
        marian.MarianTokenizer(tmp_path)


def test_a_folder_with_a_model_and_a_tokenizer_translates(spoken, capsys):
    folder, (number, *_) = spoken
    text, size = spell(number, "de"), len(json.loads((folder / "vocab.json").read_text()))
    published(
        "marian", folder, vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        max_position_embeddings=50,
    )  # fmt: skip
    edit_weights(folder, lambda weights: weights["final_logits_bias"][:, EOS].fill_(-9.0))
    model, tokenizer = marian.from_pretrained(folder)
    assert tokenizer.bos_id == model.config.tgt_vocab_size - 1
    special = dict(bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
    src = torch.tensor([tokenizer.encode(text)])
    limit = min(model.config.max_len, 2 * src.size(1) + 10)
    ids, _ = beam_search(model, src, **special, max_new_tokens=limit)
    expected = tokenizer.decode(ids[0, 0])
    assert len(expected) > 20  # this model seldom ends
    assert cli.main(["translate", "--weights", str(folder), text]) == 0
    assert capsys.readouterr().out == expected + "\n"
