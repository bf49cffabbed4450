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
from random_inputs import make_generator, normal

from course_lib.beam_search import beam_search
from course_lib.cli import main as cli
from course_lib.data import spell
from course_lib.decoding import greedy_decode
from course_lib.interop import marian
from course_lib.probes import probe, training_probes
from course_lib.tasks.multi30k import RealTranslator
from course_lib.transformer import Transformer

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


@torch.no_grad()
def test_beam_search_is_the_librarys_token_for_token_on_60_random_models(tmp_path):
    theirs, special = published("marian", tmp_path), dict(bos_id=VOCAB, eos_id=EOS)
    ours, compared, ended = read_double(tmp_path), 0, 0
    parameters = list(ours.parameters())
    before = [parameter.clone() for parameter in parameters]
    for seed in range(60):
        generator = make_generator(seed)
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(old + 0.3 * normal(generator, *old.shape))
        ours.tgt_embedding.weight[VOCAB] = ours.tgt_embedding.weight[PAD]  # the start token
        theirs.load_state_dict(marian.to_state_dict(ours), strict=False)
        K, src = 2 + seed % 4, torch.randint(1, PAD, (3, 5), generator=generator)
        best = theirs.generate(
            src, attention_mask=torch.ones_like(src), max_new_tokens=7, do_sample=False,
            bad_words_ids=[[PAD]], num_beams=K, length_penalty=0.0, early_stopping="never",
        )[:, 1:]  # fmt: skip
        ids, _ = beam_search(ours, src, **special, beam_size=K, alpha=0.0, max_new_tokens=7)
        for row, expected in zip(ids[:, 0].tolist(), best.tolist(), strict=True):
            found, right = ([token for token in x if token != PAD] for x in (row, expected))
            # At the limit, the library can prefer an unfinished sentence to a finished one.
            if EOS in right or EOS not in found:
                assert found == right, seed
                compared, ended = compared + 1, ended + (EOS in found)
    assert compared > 160 and 30 < ended < 150  # of 180 sentences


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


def test_an_id_outside_the_vocabulary_has_no_text(spoken):
    tokenizer = marian.MarianTokenizer(spoken[0])
    with pytest.raises(ValueError, match=rf"ids \[-1, {tokenizer.bos_id + 1}\] are not"):
        tokenizer.decode([2, -1, tokenizer.bos_id + 1])


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


def numbered(*tokens):
    """Write a vocabulary with the ids 0, 1, 2 …"""
    return json.dumps({token: number for number, token in enumerate(tokens)})


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("source.spm", "half of something", "source.spm is not a SentencePiece model"),
        ("source.spm", None, "source.spm is not a SentencePiece model"),
        ("vocab.json", "[1]", "vocab.json must contain a JSON object"),
        ("vocab.json", numbered("</s>", "zwei", "<pad>"), "lacks <pad>, </s> or <unk>"),
        *(
            ("vocab.json", json.dumps({"</s>": 0, "<unk>": 1, "<pad>": wrong}), "each once")
            for wrong in (1, -1, 2.5, 2.0, 3, True, "2", None)
        ),
        ("vocab.json", numbered("</s>", "<unk>", "<pad>"), r"\(10, 11\) in .*\(2, 3\)"),
    ],
)
def test_a_damaged_tokenizer_file_is_named(spoken, tmp_path, file, content, message):
    published("marian", tmp_path)
    shutil.copy(spoken[0] / "source.spm", tmp_path)
    shutil.copy(spoken[0] / "vocab.json", tmp_path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        marian.MarianTokenizer(tmp_path)
        marian.from_pretrained(tmp_path)


def test_a_start_token_that_is_never_written_raises_no_alarm(tmp_path, monkeypatch):
    monkeypatch.setattr(training_probes, "STEPS", 1)  # a model with random gains learns slowly
    published("marian", tmp_path)
    model, _ = marian.from_pretrained(tmp_path)
    results = probe(model, vocab_size=VOCAB, pad_id=PAD, fresh=False)
    alarms = {result.name for result in results if not result.passed}
    assert len(results) > 10 and alarms == {"overfit one batch"}


@pytest.fixture(scope="module")
def whole(spoken):
    """Save a model next to the tokenizer, and return the folder and a few German texts."""
    folder, numbers = spoken
    size = len(json.loads((folder / "vocab.json").read_text()))
    published(
        "marian", folder, vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        max_position_embeddings=50,
    )  # fmt: skip
    edit_weights(folder, lambda weights: weights["final_logits_bias"][:, EOS].fill_(-9.0))
    return folder, [spell(number, "de") for number in numbers[:3]]


def test_a_folder_with_a_model_and_a_tokenizer_translates(whole, capsys):
    folder, (text, *_) = whole
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


def test_a_learners_class_translates_more_sentences_than_fit_into_a_batch(whole):
    built = []

    class Mine(Transformer):
        """A learner's class."""

        def __init__(self, config):
            super().__init__(config)
            built.append(self)

    folder, texts = whole
    ours = RealTranslator.from_published(folder)
    alone = [ours.translate([text], beam_size=2)[0] for text in texts]
    mine = RealTranslator.from_published(folder, Mine)
    assert mine.translate(texts, tokens=40, beam_size=2) == alone
    assert len(built) == 1
