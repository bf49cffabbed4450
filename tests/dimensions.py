"""The sizes of the tests' models, all different, so that a swap of two axes is noticed."""

B, H, T, S, D_K, D_V = 2, 3, 4, 5, 6, 7
D_MODEL, D_FF = H * D_K, 11
SRC_VOCAB, TGT_VOCAB, MAX_LEN, PAD = 13, 10, 9, 3  # PAD is not 0, so code cannot assume it
MASK_KINDS = ["none", "causal", "padding", "both", "per head", "blocked row"]
TORCH_MASK_KINDS = MASK_KINDS[:-1]  # nn.MultiheadAttention returns nan for a blocked row
