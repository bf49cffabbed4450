"""What goes wrong in writing."""

from course_lib.exercises.mistake_catalogue import known

frame = known("decoding", "generation_mode")

LIMIT = "model.config.max_len if max_new_tokens is None else max_new_tokens"
BACK = "    finally:\n        model.train(was_training)\n"
INSIDE = "        with torch.no_grad():\n            yield limit\n"

MISTAKES = (
    frame(
        "eval_missing",
        "model.eval() is missing: dropout drops while the model writes",
        "d2l-ai/d2l-en #1528, wenjtop/transformer #3, karpathy/nanoGPT #749",
        ("    model.eval()\n", ""),
    ),
    frame(
        "left_in_eval_mode",
        "the model is left in eval mode: a training that goes on then learns without dropout",
        "shubhamagarwal92/mmd #14, tk-rusch/coRNN #1",
        ("model.train(was_training)", "pass"),
    ),
    frame(
        "left_in_training_mode",
        "the model is always left in training mode, also where it came in eval mode",
        "IBM/pytorch-seq2seq #38",
        ("model.train(was_training)", "model.train()"),
    ),
    frame(
        "not_after_an_error",
        "there is no `finally`: after an error the model stays in eval mode",
        "student code: model.train() as the last line",
        ("    try:\n", "    if True:\n"),
        (BACK, "    model.train(was_training)\n"),
    ),
    frame(
        "error_swallowed",
        "an error that is raised inside is swallowed, and nobody hears of it",
        "student code: except Exception: pass",
        (BACK, "    except Exception:\n        pass\n" + BACK),
    ),
    frame(
        "gradients_kept",
        "the graph of every round is kept: torch.no_grad() is missing",
        "allenai/OLMo #164, RaphaelOlivier/robust_speech #6",
        ("with torch.no_grad():", "if True:"),
    ),
    frame(
        "gradients_stay_off",
        "gradients are turned off and not on again: nothing learns afterwards",
        "torch.set_grad_enabled(False) in a notebook",
        (INSIDE, "        torch.set_grad_enabled(False)\n        yield limit\n"),
    ),
    frame(
        "nothing_handed_out",
        "yield stands there without the limit, and None is handed out",
        "student code",
        ("yield limit", "yield"),
    ),
    frame(
        "max_len_always",
        "the limit is always max_len, whatever max_new_tokens says",
        "student code",
        ("yield limit", "yield model.config.max_len"),
    ),
    frame(
        "none_handed_on",
        "without max_new_tokens the limit is None: the model's max_len is due then",
        "student code",
        ("yield limit", "yield max_new_tokens"),
    ),
    frame(
        "zero_taken_for_none",
        "max_new_tokens=0 is taken for none given: `or` looks at truth, and 0 is false",
        "truth of an id: huggingface/transformers #47286",
        (LIMIT, "max_new_tokens or model.config.max_len"),
    ),
    frame(
        "limit_not_checked",
        "a limit below 1 or beyond max_len passes",
        "student code",
        ("if limit not in range(1, model.config.max_len + 1):", "if False:"),
    ),
    frame(
        "max_len_refused",
        "max_len itself is refused: range stops one before its end",
        "student code: range(1, max_len)",
        ("range(1, model.config.max_len + 1)", "range(1, model.config.max_len)"),
    ),
    frame(
        "special_ids_not_checked",
        "special ids that are one and the same pass",
        "pad_token = eos_token, as many tokenizers have it",
        (
            "    check_special_ids(bos_id, eos_id, model.config.pad_id, "
            "model.config.tgt_vocab_size)\n",
            "",
        ),
    ),
)
