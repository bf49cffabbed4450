"""The Transformer from *Attention Is All You Need*, built chapter by chapter in ``notebooks/``.

Shape letters, in every comment and docstring:

======  ==========================  ==========================  =========================
letter  size                        letter                      size
======  ==========================  ==========================  =========================
B       sentences in the batch      H                           heads (``num_heads``)
S       source tokens               d_model, d_k, d_v, d_ff     as in the paper
T       target tokens               V                           tokens in the vocabulary
L       tokens, source or target    N                           layers in a stack
======  ==========================  ==========================  =========================

Tensors are batch first. A mask is boolean, and ``True`` means *may look*.
"""
