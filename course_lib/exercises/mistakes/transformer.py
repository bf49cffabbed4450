"""What goes wrong in chapter 09."""

from course_lib.exercises.mistake_catalogue import ignored, known

model = known("transformer", "Transformer")


SCALE = " * math.sqrt(self.config.d_model)"
SOURCE, TARGET = "self.src_embedding(src)", "self.tgt_embedding(tgt)"
PLACED = "self.positions(vectors)"
PAST = "causal_mask(tgt.size(1), tgt.device)"
PAST_LINE = f"        past = {PAST}  # (T, T)\n"
OWN = "padding_mask(tgt, self.config.pad_id)"
SELF = f"past & {OWN}"
CROSS = "cross_mask = padding_mask(src, self.config.pad_id)"
ENCODED = "self.encoder(self.positions(vectors), padding_mask(src, self.config.pad_id))"
LOGITS = "return self.output(self.hidden(tgt, memory, src))"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"


WORDS = (
    model(
        "scale_missing",
        "the vectors are not multiplied by √d_model on either side",
        "asked about again and again: pytorch/examples #854, OpenNMT/OpenNMT-py #1328",
        (SCALE, ""),
    ),
    *(
        model(
            f"scale_missing_{side}",
            f"the {side}'s vectors are not multiplied by √d_model, the other side's are",
            "one of two places forgotten",
            (lookup + SCALE, lookup),
        )
        for side, lookup in (("source", SOURCE), ("target", TARGET))
    ),
    model(
        "scale_d_model",
        "the vectors are multiplied by d_model instead of its root, √d_model",
        "the root forgotten",
        ("math.sqrt(self.config.d_model)", "self.config.d_model"),
    ),
    model(
        "positions_missing",
        "positions are built and never added, on either side",
        "Lightning-AI/pytorch-lightning #20099",
        (PLACED, "vectors"),
    ),
    *(
        model(
            f"positions_missing_{side}",
            f"the {side} gets no positions: it is read as a bag of words",
            "one of two places forgotten",
            (f"self.{stack}({PLACED}", f"self.{stack}(vectors"),
        )
        for side, stack in (("source", "encoder"), ("target", "decoder"))
    ),
    model(
        "positions_before_scaling",
        "the positions are added before the multiplication by √d_model, and grow with the words",
        "the two lines in the other order",
        (SOURCE + SCALE, f"self.positions({SOURCE}){SCALE}"),
        (TARGET + SCALE, f"self.positions({TARGET}){SCALE}"),
        (PLACED, "vectors"),
    ),
    *(
        model(
            f"positions_before_scaling_{side}",
            f"the {side}'s positions are added before the multiplication by √d_model",
            "one of two places in the other order",
            (words + SCALE, f"self.positions({words}){SCALE}"),
            (f"self.{stack}({PLACED}", f"self.{stack}(vectors"),
        )
        for side, stack, words in (("source", "encoder", SOURCE), ("target", "decoder", TARGET))
    ),
    model(
        "target_through_source_embedding",
        "the target's ids are looked up in the source's embedding",
        "IpsumDominum/Pytorch-Simple-Transformer #1: one embedding for two languages",
        (TARGET, "self.src_embedding(tgt)"),
    ),
)

MASKS = (
    model(
        "causal_missing",
        "the decoder gets no causal mask: every position sees the word it must predict",
        "alex-matton/causal-transformer-decoder #1; huggingface/transformers #48745",
        (PAST_LINE, ""),
        (SELF, OWN),
    ),
    model(
        "causal_one_ahead",
        "the causal mask is off by one: every position sees the next word, its own answer",
        "reported in RVC-Boss/GPT-SoVITS #965",
        (PAST, "torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).tril(1)"),
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
        (SELF, "past"),
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

PARTS = (
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
        "output_not_tied",
        "the output never shares the embedding's matrix; a copy of its numbers is not sharing",
        "meta-llama/llama #138 asks; `.data.copy_` in place of an assignment",
        ('c.tie_embeddings != "none"', "False"),
    ),
    model("output_bias", "the output adds a bias", "nn.Linear's default", (", bias=False", "")),
    model(
        "initialize_missing",
        "`initialize` is not called: the embeddings start as torch leaves them, √d_model too loud",
        "mended in pytorch/translate #220",
        ("\n        initialize(self)\n", "\n"),
    ),
    model(
        "dropout_always_on",
        "F.dropout drops in eval mode as well: unless told, it takes training=True",
        "pytorch/pytorch #26338: no `training=self.training`",
        (PLACED, f"F.dropout({PLACED}, self.config.dropout)"),
    ),
    *ignored(
        model,
        ("norm_first", (SIZES, SIZES.replace("c.norm_first", "False"))),
        ("activation", (SIZES, SIZES.replace(", c.activation", ""))),
    ),
)

MISTAKES = (*WORDS, *MASKS, *PARTS)
