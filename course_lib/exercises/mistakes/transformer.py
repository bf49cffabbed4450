"""What goes wrong in chapter 09, in the model; the small exercises stand apart."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes import initialize

model = known("transformer", "Transformer")

SCALE = " * math.sqrt(self.config.d_model)"
SOURCE, TARGET = "self.src_embedding(src)", "self.tgt_embedding(tgt)"
PLACED = "self.positions(vectors)"
PAST = "causal_mask(tgt.size(1), tgt.device)"
TRIANGLE = "torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool)"
SELF = "causal_mask(tgt.size(1), tgt.device) & padding_mask(tgt, self.config.pad_id)"
CROSS = "cross_mask = padding_mask(src, self.config.pad_id)"
ENCODED = "self.encoder(self.positions(vectors), padding_mask(src, self.config.pad_id))"
LOGITS = "return self.output(self.hidden(tgt, memory, src, cache=cache))"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"
OUTPUT = "self.output = nn.Linear(c.d_model, c.tgt_vocab_size, bias=False)"
FORWARD = "return self.decode(tgt, self.encode(src), src)"
START = "\n        initialize(self)\n"

WORDS = (
    model(
        "scale_missing",
        "the vectors are not multiplied by √d_model on either side",
        "asked about again and again: pytorch/examples #854, OpenNMT/OpenNMT-py #1328",
        (SCALE, ""),
    ),
    model(
        "scale_missing_source",
        "the source's vectors are not multiplied by √d_model",
        "student code: one of two places forgotten",
        (SOURCE + SCALE, SOURCE),
    ),
    model(
        "scale_missing_target",
        "the target's vectors are not multiplied by √d_model",
        "student code: one of two places forgotten",
        (TARGET + SCALE, TARGET),
    ),
    model(
        "scale_d_model",
        "the vectors are multiplied by d_model instead of √d_model",
        "student code: the root forgotten",
        ("math.sqrt(self.config.d_model)", "self.config.d_model"),
    ),
    model(
        "scale_divided",
        "the vectors are divided by √d_model instead of multiplied: that is the scores' business",
        "proposed in pytorch/tutorials #2849",
        (SCALE, " / math.sqrt(self.config.d_model)"),
    ),
    model(
        "positions_missing_source",
        "the source gets no positions: the encoder reads a bag of words",
        "student code: one of two places forgotten",
        (f"self.encoder({PLACED}", "self.encoder(vectors"),
    ),
    model(
        "positions_missing_target",
        "the target gets no positions",
        "student code: one of two places forgotten",
        (f"self.decoder({PLACED}", "self.decoder(vectors"),
    ),
    model(
        "positions_missing",
        "positions are built and never added, on either side",
        "Lightning-AI/pytorch-lightning #20099",
        (PLACED, "vectors"),
    ),
    model(
        "positions_twice",
        "the positions are added twice",
        "jiangxiluning/MASTER-TF #10 prepares its inputs in two places",
        (PLACED, f"self.positions({PLACED})"),
    ),
    model(
        "positions_before_scaling",
        "the positions are added before the multiplication by √d_model, and grow with the words",
        "student code: the two lines in the other order",
        (SOURCE + SCALE, f"self.positions({SOURCE}){SCALE}"),
        (TARGET + SCALE, f"self.positions({TARGET}){SCALE}"),
        (PLACED, "vectors"),
    ),
    model(
        "target_through_source_embedding",
        "the target's ids are looked up in the source's embedding",
        "IpsumDominum/Pytorch-Simple-Transformer #1: one embedding for two languages",
        (TARGET, "self.src_embedding(tgt)"),
    ),
    model(
        "vocabularies_exchanged",
        "the two vocabulary sizes are exchanged",
        "student code; andrewpeng02/transformer-translation #3 has one size for both",
        ("c.tgt_vocab_size, c.d_model)", "c.other_size, c.d_model)"),
        ("c.src_vocab_size, c.d_model)", "c.tgt_vocab_size, c.d_model)"),
        ("c.other_size, c.d_model)", "c.src_vocab_size, c.d_model)"),
    ),
)

MASKS = (
    model(
        "causal_missing",
        "the decoder gets no causal mask: every position sees the word it must predict",
        "alex-matton/causal-transformer-decoder #1; huggingface/transformers #48745",
        (SELF, "padding_mask(tgt, self.config.pad_id)"),
    ),
    model(
        "causal_only_in_training",
        "the causal mask is used while training only",
        "facebookresearch/fairmotion #56 moves the mask under `if self.training`",
        (SELF, f"{SELF} if self.training else padding_mask(tgt, self.config.pad_id)"),
    ),
    model(
        "causal_transposed",
        "the causal mask is transposed: every position sees itself and the future",
        "triu in place of tril, in student code",
        (PAST, f"{PAST}.T"),
    ),
    model(
        "causal_one_ahead",
        "the causal mask is off by one: every position sees the next word, its own answer",
        "reported in RVC-Boss/GPT-SoVITS #965",
        (PAST, f"{TRIANGLE}.tril(1)"),
    ),
    model(
        "causal_hides_itself",
        "the causal mask is off by one: no position sees itself, and the first sees nothing",
        "tril(diagonal=-1), in student code",
        (PAST, f"{TRIANGLE}.tril(-1)"),
    ),
    model(
        "causal_inverted",
        "the causal mask is turned round, as torch.nn wants it: True as blocked",
        "hkproj/pytorch-transformer #19",
        (PAST, f"~{PAST}"),
    ),
    model(
        "cross_mask_from_target",
        "the padding of the target is used for the source, in cross-attention",
        "keras-team/keras-io #1046; fchollet/deep-learning-with-python-notebooks #209",
        (CROSS, "cross_mask = padding_mask(tgt, self.config.pad_id)"),
    ),
    model(
        "cross_mask_causal",
        "cross-attention gets a causal mask as well, and hides the end of the source",
        "chapter 08 shows what it costs; asked for in zhouhaoyi/Informer2020 #38",
        (CROSS, "cross_mask = causal_mask(tgt.size(1)) & padding_mask(src, self.config.pad_id)"),
    ),
    model(
        "cross_mask_missing",
        "cross-attention gets no mask: the source's padding is read as if it were words",
        "the early nn.Transformer had no argument for it: pytorch/pytorch #22588",
        (CROSS, "cross_mask = None"),
    ),
    model(
        "encoder_unmasked",
        "the encoder gets no mask: its words read padding",
        "longzw1997/Open-GroundingDino #115; facebookresearch/fairseq #1339 (made, not used)",
        (ENCODED, f"self.encoder({PLACED})"),
    ),
    model(
        "target_padding_missing",
        "the decoder's self-attention gets the causal mask alone, without the target's padding",
        "minqukanq/transformer-pytorch #1; facebookresearch/fairseq #537",
        (SELF, "causal_mask(tgt.size(1), tgt.device)"),
    ),
    model(
        "padding_inverted",
        "the padding masks are turned round: True where there is padding, as torch.nn wants it",
        "expected so in jadore801120/attention-is-all-you-need-pytorch #148",
        ("padding_mask(", "~padding_mask("),
    ),
    model(
        "pad_id_zero",
        "padding is taken to be id 0, whatever config.pad_id says",
        "INK-USC/MHGRN #8; wzhouad/RE_improved_baseline #3",
        ("self.config.pad_id", "0"),
    ),
)

PATHS = (
    model(
        "softmax_inside",
        "a softmax stands at the end of the model, and the loss will take a second one",
        "bowang-lab/Transformer-GCN-QA #32; bkitano/llama-from-scratch #5",
        (LOGITS, f"{LOGITS}.softmax(dim=-1)"),
    ),
    model(
        "log_softmax_inside",
        "a log_softmax stands at the end of the model; it was asked for logits",
        "the Generator of The Annotated Transformer",
        (LOGITS, f"{LOGITS}.log_softmax(dim=-1)"),
    ),
    model(
        "src_and_tgt_exchanged",
        "forward encodes the target and decodes the source",
        "student code: two arguments in the wrong order",
        (FORWARD, "return self.decode(src, self.encode(tgt), tgt)"),
    ),
    model(
        "memory_not_encoded",
        "the source goes to the decoder as vectors and positions, without the encoder",
        "chapter 08 does so for its map, and student code keeps it",
        (ENCODED, PLACED),
    ),
    model(
        "memory_detached",
        "the memory is cut off from the encoder, which cannot learn then",
        "student code: encode under no_grad, written for prediction",
        (FORWARD, "return self.decode(tgt, self.encode(src).detach(), src)"),
    ),
    model(
        "maps_of_self_attention",
        "attention_maps records self-attention under the name cross",
        "lines copied and not changed, in student code",
        ("layer.cross_attn for", "layer.self_attn for"),
    ),
    model(
        "maps_of_last_layer",
        "attention_maps records the last layer of each stack only",
        "student code after blog posts that draw one layer",
        ("for layer in self.encoder.layers]", "for layer in self.encoder.layers[-1:]]"),
        ("for layer in self.decoder.layers]", "for layer in self.decoder.layers[-1:]]"),
    ),
)

PARTS = (
    model(
        "output_not_tied",
        "the output never shares the embedding's matrix; a copy of its numbers is not sharing",
        "meta-llama/llama #138 asks; `.data.copy_` in student code",
        ('c.tie_embeddings != "none"', "False"),
    ),
    model(
        "output_not_tied_to_decoder",
        "tie_embeddings='decoder' ties nothing",
        "student code: one of three choices forgotten",
        ('c.tie_embeddings != "none"', 'c.tie_embeddings == "all"'),
    ),
    model(
        "source_not_tied",
        "tie_embeddings='all' leaves the source an embedding of its own",
        "student code: one of three choices forgotten",
        ('if c.tie_embeddings != "all":', "if True:"),
    ),
    model(
        "tied_always",
        "the output shares the embedding's matrix though tie_embeddings is 'none'",
        "awslabs/sockeye #137",
        ('c.tie_embeddings != "none"', "True"),
    ),
    model(
        "tied_by_new_parameter",
        "the shared matrix is wrapped into a new nn.Parameter: two objects, two gradients",
        "student code, after an error that asks for a Parameter",
        ("= self.tgt_embedding.weight", "= nn.Parameter(self.tgt_embedding.weight)"),
    ),
    model(
        "output_bias",
        "the output adds a bias",
        "nn.Linear's default, in student code",
        (", bias=False", ""),
    ),
    model(
        "initialize_missing",
        "the matrices start as torch leaves them: words eight times too loud, at d_model = 64",
        "mended in pytorch/translate #220",
        (START, "\n"),
    ),
    model(
        "initialize_too_early",
        "initialize runs before the output is built, which starts as torch leaves it",
        "student code: the call above the last part",
        (START, "\n"),
        (OUTPUT, f"initialize(self)\n        {OUTPUT}"),
    ),
    model(
        "dropout_on_words_missing",
        "dropout does not reach the words with their positions",
        "student code: an argument with a default, not given",
        ("c.max_len, c.dropout)", "c.max_len)"),
    ),
    model(
        "dropout_always_on",
        "F.dropout drops in eval mode as well: unless told, it takes training=True",
        "student code: no `training=self.training`",
        (PLACED, f"F.dropout({PLACED}, self.config.dropout)"),
    ),
    model(
        "dropout_in_stacks_missing",
        "dropout does not reach the encoder and the decoder",
        "student code: an argument with a default, not given",
        ("c.d_ff, c.dropout,", "c.d_ff, 0.0,"),
    ),
    model(
        "norm_first_lost",
        "norm_first is not handed on to the stacks",
        "student code: an argument with a default, not given",
        (SIZES, SIZES.replace("c.norm_first", "False")),
    ),
    model(
        "activation_lost",
        "activation is not handed on to the stacks",
        "student code: an argument with a default, not given",
        (SIZES, SIZES.replace(", c.activation", "")),
    ),
    model(
        "options_lost",
        "norm_first and activation are not handed on to the stacks",
        "student code: arguments with a default, not given",
        (SIZES, SIZES.replace(", c.norm_first, c.activation", "")),
    ),
    model(
        "head_widths_lost",
        "d_k and d_v are not handed on to the stacks",
        "student code: arguments with a default, not given",
        (", d_k=c.d_k, d_v=c.d_v", ""),
    ),
    model(
        "depths_equal",
        "both stacks get the encoder's number of layers",
        "student code: one N for two stacks, as in the paper",
        ("c.num_decoder_layers", "c.num_encoder_layers"),
    ),
)

MISTAKES = (*initialize.MISTAKES, *WORDS, *MASKS, *PATHS, *PARTS)
