"""An explorer for attention with one query and four keys in a plane (paper, §3.2.1).

The keys and values are the same as in the picture at the beginning of chapter 01.
"""

from traitlets import Bool, Float, Int

from course_lib.viz.explorer_base import Explorer


class AttentionExplorer(Explorer):
    """An explorer in which readers drag a query and see its scores, weights and output.

    If two vectors of width d_k have independent components with mean 0 and variance 1, their dot
    product has a standard deviation of √d_k. Our vectors have only two components, so we multiply
    their dot products by √(d_k / 2).
    """

    module = "attention"
    title = "Attention in the plane"
    question = "When is the gradient gone?"
    alt = (
        "Two planes: one shows a query and four keys as arrows, and the other shows four values "
        "and the output. Below them are bars for the scores and the weights, and an axis for the "
        "gradient. The query equals the key of “five”, which gets the largest weight, so the "
        "output is close to the value of “five”. The gradient is far above the mark below which "
        "the softmax is saturated."
    )
    x = Float(2.0).tag(sync=True, state=True)
    y = Float(1.0).tag(sync=True, state=True)
    d_k = Int(2).tag(sync=True, state=True)
    divide = Bool(True).tag(sync=True, state=True)
    temperature = Float(1.0).tag(sync=True, state=True)
