"""What goes wrong in Rereader."""

from course_lib.exercises.mistake_catalogue import known

reread = known("decoding", "Rereader")

ENCODE = "self.memory = model.encode(src)"
SCORE = "self.model.decode(tgt, self.memory, self.src)"
KEEP_SRC = "self.src = self.src[rows]"
KEEP_MEMORY = "self.memory = self.memory[rows]"

MISTAKES = (
    reread(
        "encodes_every_time",
        "the source is encoded again with every call: its memory does not change, keep it",
        "student code: model(src, tgt) in a loop",
        (SCORE, "self.model.decode(tgt, self.model.encode(self.src), self.src)"),
    ),
    reread(
        "encodes_the_target",
        "the encoder reads what is written so far in place of the source",
        "student code: model(tgt, tgt)",
        (SCORE, "self.model.decode(tgt, self.model.encode(tgt), tgt)"),
    ),
    reread(
        "source_padding_forgotten",
        "the source's padding is read as if it were words",
        "bentrevett/pytorch-seq2seq #189: another batch size, another answer",
        (SCORE, "self.model.decode(tgt, self.memory, torch.ones_like(self.src))"),
    ),
    reread(
        "nothing_read_back",
        "the model is asked after bos alone in every round: it never reads what it wrote",
        "student code",
        ("decode(tgt,", "decode(tgt[:, :1],"),
    ),
    reread(
        "only_the_newest_token",
        "the model reads the newest token only: without a cache it has forgotten the rest",
        "code for decoders with a cache, such as mlfoundations/open_lm #74",
        ("decode(tgt,", "decode(tgt[:, -1:],"),
    ),
    reread(
        "probabilities_returned",
        "a softmax is taken: logits are asked for, and whoever scores takes the softmax later",
        "student code: softmax inside the model and in the loss",
        (SCORE, f"{SCORE}.softmax(dim=-1)"),
    ),
    reread(
        "keep_does_nothing",
        "reorder does nothing: the rows of the target change places, their sources do not",
        "beam searches that reorder the tokens only",
        (KEEP_SRC, "pass"),
        (KEEP_MEMORY, "pass"),
    ),
    reread(
        "memory_not_kept",
        "reorder reorders the source and leaves the memory as it was",
        "student code",
        (KEEP_MEMORY, "pass"),
    ),
    reread(
        "source_not_kept",
        "reorder reorders the memory and leaves the source, whose padding is hidden, as it was",
        "student code",
        (KEEP_SRC, "pass"),
    ),
    reread(
        "kept_from_the_first",
        "reorder always picks from the rows of the beginning, not from those of now",
        "student code: rows that are counted from the first order on",
        (ENCODE, "self.first = src, model.encode(src)\n        self.memory = self.first[1]"),
        (KEEP_SRC, "self.src = self.first[0][rows]"),
        (KEEP_MEMORY, "self.memory = self.first[1][rows]"),
    ),
    reread(
        "rows_the_other_way_round",
        "rows are read the other way round, as if row i went to place rows[i]",
        "student code: self.src[rows] = self.src",
        (KEEP_SRC, "self.src = self.src[rows.argsort()]"),
        (KEEP_MEMORY, "self.memory = self.memory[rows.argsort()]"),
    ),
    reread(
        "every_row_of_the_first",
        "reorder repeats row rows[0] in place of picking every row",
        "student code: expand, as for one sentence",
        (KEEP_SRC, "self.src = self.src[rows[:1]].expand(len(rows), -1)"),
        (KEEP_MEMORY, "self.memory = self.memory[rows[:1]].expand(len(rows), -1, -1)"),
    ),
    reread(
        "source_changed_in_place",
        "reorder writes into the source that was handed over: it belongs to the caller",
        "student code: src[:] = src[rows]",
        (KEEP_SRC, "kept = self.src[rows]\n        self.src.resize_(kept.shape).copy_(kept)"),
    ),
)
