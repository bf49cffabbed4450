"""What goes wrong in chapter 21's count of a whole model."""

from course_lib.exercises.mistake_catalogue import known

model = known("flops", "forward_flops")

FEATURES = "2 * 2 * config.d_model * config.d_ff"
CROSS = "attention(tgt_len, src_len)"
OUTPUT = "2 * tgt_len * config.d_model * config.tgt_vocab_size"
TOTAL = "config.num_encoder_layers * encoder + config.num_decoder_layers * decoder + output"
TABLES = "2 * config.d_model * (src_len * config.src_vocab_size + tgt_len * config.tgt_vocab_size)"

MISTAKES = (
    model(
        "output_forgotten",
        "the output layer is forgotten: it multiplies T vectors by the whole vocabulary",
        "pytorch/torchtitan #274",
        (" + output", ""),
    ),
    model(
        "embeddings_counted",
        "looking up an embedding is counted as a product",
        "huggingface/trl #6708, tenstorrent/tt-metal #50114, ByteDance-Seed/VeOmni #703",
        (TOTAL, f"{TOTAL} + {TABLES}"),
    ),
    model(
        "free_where_shared",
        "the output layer costs nothing where its matrix is shared: it multiplies all the same",
        "huggingface/trl #6731",
        ("+ output", '+ output * (config.tie_embeddings == "none")'),
    ),
    model(
        "source_vocabulary",
        "the output layer is taken to score the source's vocabulary",
        "student code: one vocab_size for both",
        ("config.tgt_vocab_size", "config.src_vocab_size"),
    ),
    model(
        "last_place_only",
        "the output layer is counted at one place: all T are scored",
        "how a model that writes is counted: vllm-project/vllm #33045",
        (OUTPUT, OUTPUT.replace("tgt_len * ", "")),
    ),
    model(
        "encoder_layers_in_both",
        "the decoder is taken to have as many layers as the encoder",
        "conversions: microsoft/onnxruntime #17072, huggingface/transformers #16934",
        ("config.num_decoder_layers", "config.num_encoder_layers"),
    ),
    model(
        "one_layer_each",
        "one layer is counted on either side: the configuration says how many there are",
        "student code",
        (TOTAL, "encoder + decoder + output"),
    ),
    model(
        "cross_attention_forgotten",
        "the decoder's attention to the source is forgotten",
        "formulas of decoder-only models",
        (f"{CROSS} + ", ""),
    ),
    model(
        "cross_attention_as_self",
        "the decoder's second attention is counted over the target again: keys are the source's",
        "student code: two attentions of (T, T)",
        (CROSS, "attention(tgt_len, tgt_len)"),
    ),
    model(
        "cross_attention_over_source",
        "the decoder's second attention is counted with S that ask: the target's T ask",
        "student code: attention(S, S), from the encoder's line",
        (CROSS, "attention(src_len, src_len)"),
    ),
    model(
        "lengths_swapped",
        "the two lengths have changed places: the encoder reads the source",
        "student code: (tgt_len, src_len), the order of attention's arguments",
        ("width = dict(", "src_len, tgt_len = tgt_len, src_len\n    width = dict("),
    ),
    model(
        "one_matrix_of_two",
        "one of the feed-forward's two matrices is forgotten",
        "student code: d_model · d_ff once; of three, one in allenai/open-instruct #1096",
        (FEATURES, "2 * config.d_model * config.d_ff"),
    ),
    model(
        "three_matrices",
        "the feed-forward is counted with three matrices: that is chapter 19's, with a gate",
        "right for layers with a gate: bigscience-workshop/Megatron-DeepSpeed #283",
        (FEATURES, "2 * 3 * config.d_model * config.d_ff"),
    ),
    model(
        "four_times_as_wide",
        "the feed-forward is taken to widen by 4: `d_ff` says how wide it is",
        "formulas that take a factor of 4 for granted, as in NVIDIA/Megatron-LM #995",
        ("config.d_ff", "4 * config.d_model"),
    ),
    model(
        "feed_forward_in_one",
        "the decoder's feed-forward is counted at the source's positions",
        "student code: src_len in both lines",
        ("tgt_len * feed_forward", "src_len * feed_forward"),
    ),
    model(
        "own_widths_ignored",
        "`d_k` and `d_v` of the configuration are not handed on",
        "NVIDIA-NeMo/Automodel #3091",
        ("d_k=config.d_k, d_v=config.d_v", "d_k=None, d_v=None"),
    ),
    model(
        "multiplications_only",
        "half of it comes out: a multiplication and its addition are two operations",
        "open-mmlab/mmpose #1190, alibaba/lightweight-neural-architecture-search #7",
        (f"return {TOTAL}", f"return ({TOTAL}) // 2"),
    ),
    model(
        "way_back_counted",
        "three times as much comes out: that is forward and backward together",
        "6 · parameters in place of 2; EleutherAI/cookbook #2 asks for the way forward alone",
        (f"return {TOTAL}", f"return 3 * ({TOTAL})"),
    ),
)
