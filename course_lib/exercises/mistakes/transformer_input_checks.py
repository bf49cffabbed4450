"""What goes wrong in chapter 09, in the start, the guards and the hooks."""

from course_lib.exercises.mistake_catalogue import known

start = known("transformer", "initialize")
sizes = known("transformer", "check_sizes")
ids = known("transformer", "check_ids")
batch = known("transformer", "check_same_batch")
hooks = known("transformer", "capture_attention")

DEVIATION = ", std=module.embedding_dim**-0.5"
NORMAL = f"nn.init.normal_(module.weight{DEVIATION})"
GLOROT = "nn.init.xavier_uniform_(module.weight)"
SECOND = (
    "    for module in model.modules():  # afterwards: the output may share an embedding's matrix\n"
)

START = (
    start(
        "embeddings_std_one",
        "embeddings start as N(0, 1), as torch leaves them",
        "mended in pytorch/translate #220",
        (DEVIATION, ""),
    ),
    start(
        "embeddings_variance_as_std",
        "the variance 1 / d_model is given to normal_ as its standard deviation",
        "student code: N(0, 1 / d_model) read as the arguments of normal_",
        ("**-0.5", "**-1"),
    ),
    start(
        "embeddings_std_by_vocabulary",
        "embeddings are scaled by the size of the vocabulary instead of d_model",
        "student code: weight.shape[0] in place of weight.shape[1]",
        ("module.embedding_dim", "module.num_embeddings"),
    ),
    start(
        "embeddings_std_002",
        "embeddings start with the standard deviation 0.02, whatever d_model is",
        "the start of BERT and GPT-2, copied into other models",
        (DEVIATION, ", std=0.02"),
    ),
    start(
        "embeddings_glorot",
        "embeddings start as linear layers do: everything with two axes gets xavier_uniform_",
        "The Annotated Transformer; jadore801120/attention-is-all-you-need-pytorch #175",
        (NORMAL, GLOROT),
    ),
    start(
        "nothing_started",
        "no matrix changes: what is drawn has to be written into the weights, and into those of "
        "all the parts, `model.modules()`, not of `model` alone",
        "student code: `weight = torch.randn(…)` gives a new tensor a name",
        (GLOROT, "pass"),
        (NORMAL, "pass"),
    ),
    start(
        "linears_left",
        "linear layers start as torch leaves them",
        "student code: only the embeddings are thought of",
        (GLOROT, "pass"),
    ),
    start(
        "linears_kaiming",
        "linear layers start with kaiming_uniform_ instead of xavier_uniform_",
        "habits from convolutions with ReLU",
        (GLOROT, "nn.init.kaiming_uniform_(module.weight)"),
    ),
    start(
        "linears_normal",
        "linear layers start normal (xavier_normal_) instead of uniform",
        "the other half of torch.nn.init's pair",
        (GLOROT, "nn.init.xavier_normal_(module.weight)"),
    ),
    start(
        "linears_std_002",
        "linear layers start as N(0, 0.02²), as in GPT-2",
        "the start of BERT and GPT-2, copied into other models",
        (GLOROT, "nn.init.normal_(module.weight, std=0.02)"),
    ),
    start(
        "biases_changed",
        "biases are set to 0; they should stay as they are",
        "minGPT-like code: a line for module.bias",
        (GLOROT, f"{GLOROT}\n            module.bias is None or nn.init.zeros_(module.bias)"),
    ),
    start(
        "shared_matrix_started_again",
        "a matrix that the output shares is started again as a linear layer's",
        "fastai/fastai #2090; Modalities/modalities #456",
        (SECOND, ""),
    ),
    start(
        "top_level_only",
        "only the model's own parts are visited, and not what is inside them",
        "children() in place of modules(), in student code",
        ("model.modules()", "model.children()"),
    ),
    start(
        "sharing_cut",
        "a new nn.Parameter replaces the weight, and nothing shares it any longer",
        "student code: assigning in place of filling",
        (
            NORMAL,
            "drawn = torch.randn_like(module.weight) * module.embedding_dim**-0.5\n"
            "            module.weight = nn.Parameter(drawn)",
        ),
    ),
)

SIZES = (
    sizes(
        "fractions_pass",
        "a size that is no whole number passes",
        "d_model / 2 in place of d_model // 2, in student code",
        ("type(value) is not int or ", ""),
    ),
    sizes(
        "zero_passes",
        "a size of 0 passes",
        "student code: value < 0",
        ("value < 1", "value < 0"),
    ),
    sizes(
        "one_refused",
        "a size of 1 is refused",
        "student code: value <= 1",
        ("value < 1", "value <= 1"),
    ),
    sizes(
        "last_sizes_forgotten",
        "d_ff and max_len are not looked at",
        "student code: a list of names that is too short",
        ('(*sizes.split(), "d_ff", "max_len")', "sizes.split()"),
    ),
    sizes(
        "dropout_not_checked",
        "any dropout passes",
        "student code: only the sizes are thought of",
        ("if not 0 <= config.dropout <= 1:", "if False:"),
    ),
    sizes(
        "dropout_one_refused",
        "dropout=1.0 is refused; it drops everything, and is allowed",
        "student code: dropout < 1",
        ("<= config.dropout <= 1", "<= config.dropout < 1"),
    ),
    sizes(
        "activation_not_checked",
        "any name of an activation passes",
        "student code: left to a KeyError further down",
        ("if config.activation not in ACTIVATIONS:", "if False:"),
    ),
    sizes(
        "asserts",
        "assert is used: an AssertionError is no ValueError, and `python -O` skips it",
        "common in published code",
        ("raise ValueError(", "raise AssertionError("),
    ),
)

IDS = (
    ids(
        "one_beyond_passes",
        "the id vocab_size passes; the largest is vocab_size - 1",
        "boathit/t2vec #17; kongds/E5-V #7",
        ("high >= vocab_size", "high > vocab_size"),
    ),
    ids(
        "negative_passes",
        "a negative id passes",
        "shoarora/transformers-trainers #12; keras-team/keras-io #602",
        ("low < 0 or ", ""),
    ),
    ids(
        "range_not_checked",
        "the ids themselves are not looked at",
        "student code: shapes only",
        ("if low < 0 or high >= vocab_size:", "if False:"),
    ),
    ids(
        "length_not_checked",
        "a sequence longer than max_len passes",
        "bentrevett/pytorch-seq2seq #89",
        ("if ids.size(1) > max_len:", "if False:"),
    ),
    ids(
        "longest_refused",
        "a sequence of exactly max_len tokens is refused",
        "student code: >= max_len",
        ("ids.size(1) > max_len", "ids.size(1) >= max_len"),
    ),
    ids(
        "batch_as_length",
        "the number of sentences is compared with max_len instead of the number of tokens",
        "len(ids), in student code",
        ("ids.size(1) > max_len", "ids.size(0) > max_len"),
    ),
    ids(
        "floats_pass",
        "ids that are floats pass",
        "student code: left to nn.Embedding",
        ("if dtype not in (torch.int64, torch.int32):", "if False:"),
    ),
    ids(
        "int32_refused",
        "ids of 32 bits are refused",
        "student code: dtype == torch.long",
        ("(torch.int64, torch.int32)", "(torch.int64,)"),
    ),
    ids(
        "shape_not_checked",
        "ids that are no (B, L) pass",
        "student code: a batch taken for granted",
        ("ids.dim() != 2 or ", ""),
    ),
    ids(
        "name_missing",
        "the messages do not say whose ids they are",
        "student code: a fixed word in place of the argument",
        ("{name} ", ""),
    ),
)

BATCH = (
    batch(
        "target_not_compared",
        "a target of another batch passes",
        "student code: memory and source only",
        (" or tgt.size(0) != src.size(0)", ""),
    ),
    batch(
        "source_length_not_compared",
        "a memory and a source of different lengths pass",
        "student code: batch sizes only",
        ("memory.shape[:2] != src.shape", "memory.size(0) != src.size(0)"),
    ),
    batch(
        "memory_not_compared",
        "the memory is not looked at",
        "student code: the two tensors of ids only",
        ("memory.shape[:2] != src.shape or ", ""),
    ),
    batch(
        "lengths_must_be_equal",
        "a target and a source of different lengths are refused; T and S are free",
        "student code: tgt.shape != src.shape",
        ("tgt.size(0) != src.size(0)", "tgt.shape != src.shape"),
    ),
)

STACKED = "torch.stack(weights)"
HOOKS = (
    hooks(
        "need_weights_missing",
        "the layers are not asked for weights: they return None in their place",
        "pytorch/pytorch #88810: need_weights is False inside torch's layers",
        ('kwargs | {"need_weights": True}', "kwargs"),
    ),
    hooks(
        "hooks_left",
        "the hooks are never removed: each later pass keeps weights, and runs slowly",
        "hooks that keep tensors alive: meta-pytorch/opacus #176",
        ("stack.callback(ask.remove)", "pass"),
        ("stack.callback(keep.remove)", "pass"),
    ),
    hooks(
        "asking_hook_left",
        "the hook before forward is not removed: the layers go on making weights",
        "student code: one of two handles forgotten",
        ("stack.callback(ask.remove)", "pass"),
    ),
    hooks(
        "keeping_hook_left",
        "the hook after forward is not removed: it goes on keeping",
        "student code: one of two handles forgotten",
        ("stack.callback(keep.remove)", "pass"),
    ),
    hooks(
        "hooks_left_after_error",
        "the hooks are removed at the end, which is never reached when run raises",
        "student code: remove() without try … finally",
        ("    with ExitStack() as stack:", "    handles = []\n    if True:"),
        ("stack.callback(ask.remove)", "handles.append(ask)"),
        ("stack.callback(keep.remove)", "handles.append(keep)"),
        ("        run()\n", "        run()\n        [handle.remove() for handle in handles]\n"),
    ),
    hooks(
        "late_binding",
        "every hook looks up `place` when it is called: by then it is the last place of the loop",
        "asked about late-binding closures everywhere: carljm/django-transaction-hooks #17",
        ("output, place=place: kept", "output: kept"),
    ),
    hooks(
        "last_layer_only",
        "only the weights of the last layer are returned, without the axis N",
        "student code: the dict's entry overwritten by every layer",
        (STACKED, "weights[-1]"),
    ),
    hooks(
        "joined_along_batch",
        "the layers are joined along the batch (cat) instead of stacked on an axis of their own",
        "torch.cat in place of torch.stack, in student code",
        (STACKED, "torch.cat(weights)"),
    ),
    hooks(
        "not_stacked",
        "a list of each layer's weights is returned instead of one tensor",
        "student code: the last line forgotten",
        (STACKED, "weights"),
    ),
    hooks(
        "heads_averaged",
        "the weights are averaged over the heads",
        "the default of nn.MultiheadAttention, average_attn_weights=True",
        (STACKED, f"{STACKED}.mean(dim=2)"),
    ),
    hooks(
        "outputs_kept",
        "the hook keeps the first thing an attention returns, its output",
        "student code: output[0] in place of output[1]",
        ("append(output[1])", "append(output[0])"),
    ),
    hooks(
        "run_twice",
        "run is called twice, and every layer's weights are kept twice",
        "student code: a first run “to see whether it works”",
        ("        run()\n", "        run()\n        run()\n"),
    ),
    hooks(
        "run_too_early",
        "run is called before the hooks are there",
        "student code",
        ("    with ExitStack()", "    run()\n    with ExitStack()"),
        ("        run()\n    return", "        pass\n    return"),
    ),
)

MISTAKES = (*START, *SIZES, *IDS, *BATCH, *HOOKS)
