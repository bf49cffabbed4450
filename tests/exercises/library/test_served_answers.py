"""An answer that passes the core works in every later cell."""

from copy import deepcopy

import torch
from textbooks import d2l, nanogpt, pytorch_tutorial, uva
from textbooks.annotated import ANSWERS as ANNOTATED
from textbooks.annotated import EncoderDecoder, MultiHeadedAttention, attention, subsequent_mask
from torch import nn
from torch.testing import assert_close

from course_lib.attention import scaled_dot_product_attention
from course_lib.encoder import EncoderLayer
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise, right_answers
from course_lib.exercises.library.served_answers import lacks_attributes, serve
from course_lib.kv_cache import AttentionCache
from course_lib.masks import causal_mask
from course_lib.modern_decoder import SwiGLU
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.transformer import Transformer, TransformerConfig

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
CONFIG = TransformerConfig(
    src_vocab_size=9, tgt_vocab_size=9, d_model=8, num_heads=2, num_encoder_layers=1,
    num_decoder_layers=1, d_ff=16, dropout=0.0, max_len=6,
)  # fmt: skip
IDS = torch.tensor([[1, 2, 3], [4, 5, 0]])


def built(served, given, *args):
    """Build a served answer and the course's module with the same random numbers."""
    pair, states = [], []
    for kind in (served, given):
        torch.manual_seed(0)
        pair.append(kind(*args).eval())
        states.append(torch.get_rng_state())
    assert states[0].equal(states[1]), "later modules also have the course's initial weights"
    return pair


def test_a_served_module_has_the_courses_initial_weights_names_and_attributes():
    sizes = {"MultiHeadAttention": (8, 2), "FeedForward": (8, 16), "LayerNorm": (8,)}
    sizes |= {"EncoderLayer": (8, 2, 16), "Encoder": (2, 8, 2, 16), "DecoderLayer": (8, 2, 16)}
    sizes |= {"AddNorm": (8,), "Transformer": (CONFIG,), "DecoderOnly": (CONFIG,)}
    for book in (ANNOTATED, uva.ANSWERS, d2l.ANSWERS, nanogpt.ANSWERS, pytorch_tutorial.ANSWERS):
        for name in sizes.keys() & book.keys():
            given = find_exercise(name).definition
            mine, course = built(serve(book[name], given), given, *sizes[name])
            assert mine.tie is not None, (name, book[name])
            assert_close(mine.state_dict(), course.state_dict(), rtol=0, atol=0)
            names = [[name for name, _ in each.named_parameters()] for each in (mine, course)]
            assert names[0] == names[1]


def test_a_served_answer_runs_or_reports_that_the_courses_definition_runs(capsys):
    served = serve(MultiHeadedAttention, MultiHeadAttention)
    mine, course = built(served, MultiHeadAttention, 8, 2)
    output, _ = mine(X, X, X)
    assert_close(output, course(X, X, X)[0])
    assert mine.attn.shape == (2, 2, 3, 3) and capsys.readouterr().out == "", "the answer ran"
    again, weights = mine(X, X, X, need_weights=True)
    assert_close((again, weights), course(X, X, X, need_weights=True))
    assert "With need_weights, the course's own MultiHeadAttention runs" in capsys.readouterr().out
    output.sum().backward()
    assert mine.w_q.weight.grad is mine.linears[0].weight.grad is not None
    assert served(8, 3, d_k=2, d_v=2).w_q.out_features == 6
    assert "With d_k, d_v, the course's own MultiHeadAttention" in capsys.readouterr().out
    assert examine("MultiHeadAttention", served.served).passed


def test_a_part_that_a_cell_replaces_in_a_served_module_is_used(capsys):
    layer, _ = built(serve(uva.EncoderBlock, EncoderLayer), EncoderLayer, 8, 2, 16)
    before = layer(X)
    layer.add_norm1.norm = nn.Identity()
    x = X + layer.self_attn(X, X, X)[0]
    assert_close(layer(X), layer.add_norm2(x, layer.feed_forward))
    assert not torch.allclose(layer(X), before) and capsys.readouterr().out == ""
    layer.feed_forward = SwiGLU(8, 16)  # the answer has two linear layers in its place
    assert_close(layer(X), layer.add_norm2(x, layer.feed_forward))
    assert "Yours: one of its parts was replaced" in capsys.readouterr().out


def test_a_method_that_a_subclass_replaces_is_called():
    class Silent(serve(EncoderDecoder, Transformer)):
        def decode(self, tgt, memory, src):
            return torch.zeros(3)

    assert not Silent(CONFIG)(IDS, IDS).any()


def test_copies_conversions_and_the_meta_device_keep_an_answer_tied():
    attend, _ = built(serve(MultiHeadedAttention, MultiHeadAttention), MultiHeadAttention, 8, 2)
    attend(X, X, X)  # it stores its weights with their graph
    attend.tie.answer.register_buffer("own", torch.ones(2))
    copied = deepcopy(attend).double()
    assert copied.own.dtype == torch.float64
    nn.init.zeros_(copied.w_v.weight)
    nn.init.zeros_(copied.w_v.bias)
    assert_close(copied(X.double(), X.double(), X.double())[0][0, 0], copied.w_o.bias)
    assert attend(X, X, X)[0].std() > 0.01
    for answer in (pytorch_tutorial.EncodingOfSequences, d2l.EncodingOfP):
        places, course = built(serve(answer, PositionalEncoding), PositionalEncoding, 8, 6)
        assert places.double()(X.double()).equal(course.double()(X.double())), "exactly equal"
        assert not list(places.buffers())[1:], "the answer's own table is not registered"
    with torch.device("meta"):
        assert serve(EncoderDecoder, Transformer)(CONFIG)(IDS.to("meta"), IDS.to("meta")).is_meta


def test_tied_weights_are_read_whichever_name_comes_first():
    course = Transformer(CONFIG).eval()
    mine = serve(EncoderDecoder, Transformer)(CONFIG).eval()
    mine.load_state_dict(course.state_dict())
    assert_close(mine(IDS, IDS), course(IDS, IDS))
    assert [name for name, _ in mine.named_parameters()][0] == "tgt_embedding.weight"


def test_a_served_function_applies_dropout_if_the_answer_cannot(capsys):
    attend = serve(attention, scaled_dot_product_attention)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    assert_close(attend(X, X, X, mask), scaled_dot_product_attention(X, X, X, mask))
    torch.manual_seed(0)
    dropped = attend(X, X, X, mask, 0.5)
    torch.manual_seed(0)
    assert_close(dropped, scaled_dot_product_attention(X, X, X, mask, 0.5))
    assert capsys.readouterr().out.count("dropout_p") == 1


def test_a_device_is_an_option_only_if_it_is_not_the_usual_one(capsys):
    mine = serve(subsequent_mask, causal_mask)
    assert mine(3, torch.device("cpu")).equal(causal_mask(3)) and capsys.readouterr().out == ""
    assert mine(3, "meta").is_meta and "With device, the course's own" in capsys.readouterr().out


class Ignores(MultiHeadedAttention):
    """A layer that ignores its argument ``d_k`` and fails without a batch axis."""

    def __init__(self, d_model, num_heads, d_k=None, d_v=None, dropout=0.0):
        super().__init__(num_heads, d_model, dropout)

    def forward(self, query, key, value, mask=None):
        _, _, _ = query.shape
        return super().forward(query, key, value, mask)


def test_an_option_that_an_answer_ignores_runs_the_courses_definition(capsys):
    report = examine("MultiHeadAttention", Ignores)
    assert report.passed and "d_k, d_v" in report.missed
    served = serve(Ignores, MultiHeadAttention, ["d_k, d_v"])
    assert served(8, 2).tie and capsys.readouterr().out == ""
    assert served(8, 2, d_k=3).w_q.out_features == 6
    assert "With d_k, the course's own" in capsys.readouterr().out
    block = serve(nanogpt.Block, EncoderLayer, examine("EncoderLayer", nanogpt.Block).missed)
    layer = block(8, 2, 16, activation_dropout=1.0)  # its config has a field that it ignores
    x = layer.add_norm1(X, lambda y: layer.self_attn(y, y, y)[0])
    assert_close(
        layer(X), layer.add_norm2(x, lambda y: layer.feed_forward.linear2.bias.expand_as(y))
    )


def test_if_an_answer_fails_beyond_its_core_the_courses_definition_runs(capsys):
    mine = serve(Ignores, MultiHeadAttention)(8, 2)
    assert_close(mine(X[0], X[0], X[0])[0], mine(X, X, X)[0][0])
    assert "Here, the course's own MultiHeadAttention runs. Yours: not" in capsys.readouterr().out
    blocked = torch.zeros(3, 3, dtype=torch.bool)
    attend = serve(attention, scaled_dot_product_attention, ["fully masked row"])
    assert not attend(X, X, X, blocked)[0].any()
    assert "With a fully masked row, the course's own scaled" in capsys.readouterr().out
    root = serve(lambda x: x.sqrt(), torch.abs)
    assert root(-X.abs()).equal(X.abs()) and "Yours: nan" in capsys.readouterr().out


def test_a_class_that_is_not_a_module_takes_the_courses_arguments():
    served = serve(pytorch_tutorial.KVCache, AttentionCache, ["room"])
    assert served.served is pytorch_tutorial.KVCache and served(max_len=4).length == 0


def test_a_complete_answer_is_served_even_if_it_lacks_an_attribute():
    course = MultiHeadAttention
    (by_einsum,) = right_answers("MultiHeadAttention")
    assert not lacks_attributes(course, course) and lacks_attributes(by_einsum, course)
    assert not lacks_attributes(subsequent_mask, causal_mask), "a function does not have attributes"
    assert serve(by_einsum, course)(8, 2).num_heads == 2
