"""What goes wrong in chapter 09, in the start, the guards and the hooks."""

from course_lib.exercises.mistake_catalogue import known

start = known("transformer", "initialize")

DEVIATION = ", std=module.embedding_dim**-0.5"
NORMAL = f"nn.init.normal_(module.weight{DEVIATION})"
GLOROT = "nn.init.xavier_uniform_(module.weight)"
SECOND = (
    "    for module in model.modules():  # afterwards: the output may share an embedding's matrix\n"
)

MISTAKES = (
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
