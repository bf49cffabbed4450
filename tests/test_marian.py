"""Our Transformer with Marian's weights says what the library ``transformers`` says."""

import json
import random

import pytest
import sentencepiece
import torch
import transformers
from hf_fixtures import EOS, MAX_LEN, PAD, VOCAB, edit_config, edit_weights, published
from parity import assert_equal, says
from random_inputs import make_generator
from safetensors.torch import load_file, save_file

from course_lib import cli
from course_lib.beam_search import beam_search
from course_lib.data import spell
from course_lib.decoding import greedy_decode
from course_lib.interop import download, marian
from course_lib.interop.download import translate_with
from course_lib.probes import probe
from course_lib.transformer import Transformer

SRC = torch.tensor([[1, 2, 3, 9, EOS], [4, 5, EOS, PAD, PAD]])
TGT = torch.tensor([[3, 4, 5, 1], [7, EOS, PAD, PAD]])  # behind the start token


def read_double(folder):
    """Load ours, in float64."""
    model, _ = marian.from_pretrained(folder)
    assert not model.training
    return model.double()


def both_logits(ours, theirs):
    """Let both read the same batch, each behind its start token."""
    started = [torch.cat([torch.full((2, 1), start), TGT], dim=1) for start in (PAD, VOCAB)]
    real = torch.cat([torch.ones(2, 1), TGT != PAD], dim=1)  # the start is no padding
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


def test_the_start_token_is_padding_that_is_read(tmp_path):
    published("marian", tmp_path)
    model = read_double(tmp_path)
    assert (model.config.bos_id, model.config.pad_id, model.config.eos_id) == (VOCAB, PAD, EOS)
    assert torch.equal(model.tgt_embedding.weight[VOCAB], model.tgt_embedding.weight[PAD])


def test_greedy_translations_are_the_library_s(tmp_path):
    lengths = set()
    for seed in range(6):
        theirs = published("marian", tmp_path, seed)
        src = torch.randint(1, PAD, (7, 6), generator=make_generator(seed))
        src[:, -1] = EOS
        src[2, 3:] = torch.tensor([EOS, PAD, PAD])
        expected = theirs.generate(
            src, attention_mask=src != PAD, max_new_tokens=9, num_beams=1, bad_words_ids=[[PAD]]
        )
        found = greedy_decode(
            read_double(tmp_path), src, bos_id=VOCAB, eos_id=EOS, max_new_tokens=9
        )
        assert torch.equal(found, expected[:, 1:])
        lengths |= set((found != PAD).sum(dim=1).tolist())
    assert len(lengths) > 1  # some end, some do not


@pytest.mark.parametrize("use_cache", [True, False])
def test_beams_are_the_library_s(tmp_path, use_cache):
    for seed in range(4):
        theirs = published("marian", tmp_path, seed)
        src = torch.randint(1, PAD, (5, 6), generator=make_generator(seed))
        src[:, -1] = EOS
        src[2, 3:] = torch.tensor([EOS, PAD, PAD])
        how = dict(length_penalty=0.0, early_stopping="never", bad_words_ids=[[PAD]])
        expected = theirs.generate(
            src, attention_mask=src != PAD, max_new_tokens=9, num_beams=4, do_sample=False, **how
        )[:, 1:]
        special = dict(bos_id=VOCAB, eos_id=EOS, max_new_tokens=9)
        found, _ = beam_search(
            read_double(tmp_path), src, **special, beam_size=4, alpha=0.0, use_cache=use_cache
        )
        found = found[:, 0, : expected.size(1)]
        assert torch.equal(found, expected)


# --- files and names


def test_weights_go_to_the_library_and_back(tmp_path):
    theirs = published("marian", tmp_path / "theirs")
    model, tokenizer = marian.from_pretrained(tmp_path / "theirs")
    assert tokenizer is None
    (tmp_path / "ours").mkdir()
    save_file(marian.to_state_dict(model), tmp_path / "ours" / "model.safetensors")
    one, other = (load_file(tmp_path / who / "model.safetensors") for who in ("ours", "theirs"))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    config = (tmp_path / "theirs" / "config.json").read_text()
    (tmp_path / "ours" / "config.json").write_text(config)
    again = transformers.MarianMTModel.from_pretrained(tmp_path / "ours").double().eval()
    ours, expected = both_logits(read_double(tmp_path / "ours"), again)
    assert_equal(ours[..., :VOCAB], expected)
    assert_equal(expected, both_logits(model.double(), theirs)[1])


def test_older_files_with_copies_and_tables_are_read_too(tmp_path):
    published("marian", tmp_path)
    expected = marian.from_pretrained(tmp_path)[0].state_dict()
    weights = load_file(tmp_path / "model.safetensors")
    for name in ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        weights[f"{name}.weight"] = weights["model.shared.weight"]
    weights["model.encoder.embed_positions.weight"] = torch.ones(MAX_LEN, 18)
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    torch.testing.assert_close(marian.from_pretrained(tmp_path)[0].state_dict(), expected)


# --- the tokenizer


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Train two small SentencePiece models, and save them as a published folder has them."""
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


def test_texts_become_the_library_s_ids_and_back(spoken):
    folder, numbers = spoken
    ours = marian.MarianTokenizer(folder)
    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    texts = [spell(number, "de") for number in numbers[:200]]
    texts += ["", " zwei  drei ", "Ω zwölf", ">>eng<< zwei", ">>xyz<< zwei", "zwei >> drei << vier"]
    for text in texts:
        assert ours.encode(text) == theirs(text).input_ids
    for number in numbers[:200]:
        ids = theirs(text_target=spell(number, "en")).input_ids
        ids = [ours.bos_id, *ids, ours.pad_id, 7]  # behind the end nothing counts
        assert ours.decode(ids) == spell(number, "en")
    assert (ours.pad_id, ours.eos_id, ours.bos_id) == (theirs.pad_token_id, 0, len(theirs))


def test_a_file_that_is_no_sentencepiece_model_is_named(tmp_path):
    (tmp_path / "source.spm").write_text("half of something")
    with pytest.raises(ValueError, match=f"{tmp_path / 'source.spm'} is no SentencePiece model"):
        marian.MarianTokenizer(tmp_path)


def test_a_vocabulary_that_is_not_there_is_named(spoken, tmp_path):
    (tmp_path / "source.spm").write_bytes((spoken[0] / "source.spm").read_bytes())
    with pytest.raises(ValueError, match="vocab.json holds no vocabulary"):
        marian.MarianTokenizer(tmp_path)


def test_the_start_token_that_is_never_written_alarms_no_probe(tmp_path):
    published("marian", tmp_path)
    model, _ = marian.from_pretrained(tmp_path)
    results = probe(model, vocab_size=VOCAB, pad_id=PAD, fresh=False)
    alarms = {result.name for result in results if not result.passed}
    assert len(results) > 10 and alarms <= {"overfit one batch"}  # its random gains learn slowly


def test_a_folder_with_both_translates(spoken, capsys):
    folder, numbers = spoken
    size = len(json.loads((folder / "vocab.json").read_text()))
    published(
        "marian", folder, vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        max_position_embeddings=50,
    )  # fmt: skip
    edit_weights(folder, lambda weights: weights["final_logits_bias"][:, EOS].fill_(-9.0))
    model, tokenizer = marian.from_pretrained(folder)
    assert tokenizer.bos_id == model.config.bos_id and tokenizer.pad_id == model.config.pad_id
    src = torch.tensor([tokenizer.encode(spell(numbers[0], "de"))])
    special = dict(bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
    ids, _ = beam_search(model, src, **special, max_new_tokens=50)
    expected = tokenizer.decode(ids[0, 0])
    assert len(expected) > 20  # this model seldom ends
    assert cli.main(["translate", "--weights", str(folder), spell(numbers[0], "de")]) == 0
    assert capsys.readouterr().out == expected + "\n"


def test_a_class_of_ones_own_translates_more_sentences_than_fit_into_a_batch(spoken, monkeypatch):
    class Mine(Transformer):
        """A learner's."""

        built = 0

        def __init__(self, config):
            super().__init__(config)
            Mine.built += 1

    folder, numbers = spoken
    size = len(json.loads((folder / "vocab.json").read_text()))
    published(
        "marian", folder, vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        max_position_embeddings=50,
    )  # fmt: skip
    texts = [spell(number, "de") for number in numbers[:3]]
    alone = [translate_with(folder, [text])[0] for text in texts]
    monkeypatch.setattr(download, "AT_ONCE", 2)
    assert translate_with(folder, texts, model_class=Mine) == alone
    assert Mine.built == 1


# --- what is refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", "bart"),
        ("scale_embedding", False),
        ("scale_embedding", ...),  # absent it means False
        ("share_encoder_decoder_embeddings", False),
        ("tie_word_embeddings", False),
        ("normalize_before", True),
        ("normalize_embedding", True),
        ("add_final_layer_norm", True),
        ("static_position_embeddings", False),
        ("activation_function", "tanh"),
        ("decoder_start_token_id", EOS),
        ("decoder_vocab_size", VOCAB + 1),
        ("decoder_attention_heads", 2),
        ("decoder_ffn_dim", 8),
    ],
)
def test_a_configuration_that_is_not_covered_is_named(tmp_path, field, value):
    published("marian", tmp_path)
    edit_config(tmp_path, **{field: value})
    shown = False if value is ... else value
    with pytest.raises(ValueError, match=says(f"{field}={shown!r}", "covers")):
        marian.from_pretrained(tmp_path)


def test_an_output_that_is_not_the_embedding_is_refused(tmp_path):
    published("marian", tmp_path)
    edit_weights(tmp_path, lambda w: w.update({"lm_head.weight": torch.ones(VOCAB, 18)}))
    with pytest.raises(ValueError, match=says("lm_head.weight differs from model.shared.weight")):
        marian.from_pretrained(tmp_path)
