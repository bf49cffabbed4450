"""What goes wrong in one step."""

from course_lib.exercises.mistake_catalogue import known

step = known("training", "training_step")

SHIFT = "tgt_in = tgt[:, :-1]  # (B, T)\n    tgt_out = tgt[:, 1:]  # (B, T)"
ZERO = "    optimizer.zero_grad()\n"
BACK = "    loss.backward()\n"
MOVE = "    optimizer.step()\n"
LOSS = "logits, tgt_out, pad_id=model.config.pad_id, smoothing=smoothing"

MISTAKES = (
    step(
        "target_not_shifted",
        "the model reads `tgt[:, 1:]`, the very tokens that it has to predict",
        "Kyubyong/transformer #94: a model that copies its input and fails at test time",
        (SHIFT, "tgt_in, tgt_out = tgt[:, 1:], tgt[:, 1:]"),
    ),
    step(
        "labels_not_shifted",
        "the model must predict `tgt[:, :-1]`, the very tokens that it reads",
        "jadore801120/attention-is-all-you-need-pytorch #123 asks where the shift is",
        (SHIFT, "tgt_in, tgt_out = tgt[:, :-1], tgt[:, :-1]"),
    ),
    step(
        "whole_target_on_both_sides",
        "the model reads the whole target and must predict the whole target: nothing is shifted",
        "IpsumDominum/Pytorch-Simple-Transformer #3: a fine loss, and no translation",
        (SHIFT, "tgt_in, tgt_out = tgt, tgt"),
    ),
    step(
        "shifted_the_wrong_way",
        "the shift goes the wrong way: the model reads the later tokens and predicts the earlier",
        "tensorflow/tensor2tensor #1510 asks which of the two is shifted",
        (SHIFT, "tgt_in, tgt_out = tgt[:, 1:], tgt[:, :-1]"),
    ),
    step(
        "reads_the_whole_target",
        "the model reads the whole target, which is one token more than max_len allows",
        "student code: model(src, tgt)[:, :-1]",
        ("logits = model(src, tgt_in)", "logits = model(src, tgt)[:, :-1]"),
    ),
    step(
        "zero_grad_missing",
        "old gradients are not cleared: those of all steps pile up",
        "udacity/deep-learning-v2-pytorch #160, pytorch/pytorch #47175",
        (ZERO, ""),
    ),
    step(
        "zero_grad_after_backward",
        "zero_grad stands between backward and step: the new gradients are cleared, nothing moves",
        "rll/deepul #12 and patrickloeber/pytorchTutorial #19 ask about the order",
        (ZERO, ""),
        (BACK, BACK + ZERO),
    ),
    step(
        "step_missing",
        "optimizer.step() is never called: gradients come, and no weight moves",
        "student code",
        (MOVE, ""),
    ),
    step(
        "backward_missing",
        "loss.backward() is never called: the optimizer has no gradients to go by",
        "student code",
        (BACK, ""),
    ),
    step(
        "step_before_backward",
        "optimizer.step() stands before backward, when the gradients have just been cleared",
        "a question under inyeoplee77/SAGPool #15",
        (MOVE, ""),
        (BACK, MOVE + BACK),
    ),
    step(
        "loss_not_detached",
        "the loss is returned with its graph, which then stays in memory",
        "horovod/horovod #641, BatsResearch/labelmodels #4",
        ("return loss.detach()", "return loss"),
    ),
    step(
        "loss_as_number",
        "the loss is returned as a Python number: a tensor is asked for, detached",
        "loss.item() out of habit; on a GPU it waits for the device in every step",
        ("return loss.detach()", "return loss.item()"),
    ),
    step(
        "loss_after_the_correction",
        "the loss is measured again after the weights have moved",
        "student code",
        (
            "return loss.detach()",
            "return label_smoothed_cross_entropy(\n"
            "        model(src, tgt_in), tgt_out, pad_id=model.config.pad_id, smoothing=smoothing\n"
            "    ).detach()",
        ),
    ),
    step(
        "padding_not_handed_on",
        "the loss is not told what padding is: pad_id is missing",
        "BrianPulfer/PapersReimplementations #17, DaoyuanLi2816/Molecule-Generator #20",
        (LOSS, "logits, tgt_out, smoothing=smoothing"),
    ),
    step(
        "pad_id_always_zero",
        "the loss is told that padding is id 0, whatever model.config.pad_id says",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        ("pad_id=model.config.pad_id", "pad_id=0"),
    ),
    step(
        "smoothing_not_handed_on",
        "smoothing is not handed on: the loss falls back to its own 0.1",
        "student code",
        (LOSS, "logits, tgt_out, pad_id=model.config.pad_id"),
    ),
    step(
        "softmax_before_the_loss",
        "the logits go through a softmax before the loss takes its own",
        "bowang-lab/Transformer-GCN-QA #32, lansinuote/Huggingface_Toturials #6",
        ("logits = model(src, tgt_in)", "logits = model(src, tgt_in).softmax(dim=-1)"),
    ),
    step(
        "gradients_clipped",
        "the gradients are clipped to a norm of 1, which is not asked here",
        "recipes for larger models: clip_grad_norm_(..., 1.0)",
        (BACK, BACK + "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"),
    ),
)
