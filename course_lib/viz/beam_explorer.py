"""An explorer for beam search in the small language from chapter 14 (paper, §6.1)."""

from traitlets import Dict, Float, Int, Unicode

from course_lib.viz.explorer_base import Explorer

SKY, ORDINARY = {"falls": 0.9, "end": 0.1}, {"end": 0.9, "again": 0.1}
WEATHER = {  # for each last word, the probabilities of the next word
    "bos": {"it": 0.5, "rain": 0.3, "snow": 0.15, "end": 0.05},
    "it": {"is": 0.5, "rains": 0.3, "end": 0.2},
    "rain": SKY,
    "snow": SKY,
    "is": {"raining": 0.6, "wet": 0.4},
    "rains": {"end": 0.6, "again": 0.4},
    "falls": {"end": 0.7, "again": 0.3},
    "raining": ORDINARY,
    "wet": ORDINARY,
    "again": {"end": 1.0},
}


class BeamExplorer(Explorer):
    """An explorer that shows a beam search step by step and follows one hypothesis."""

    module = "beams"
    title = "Beam search as a tree"
    question = "Which sentence does every beam miss?"
    alt = (
        "A tree of four search steps, each of which keeps two hypotheses. Each step shows the four "
        "best continuations with their total log-probabilities, and whether they are kept, cut or "
        "ended. “rain falls” ended in step 3 with a total of −1.67, whose terms are next to the "
        "tree. It is the best sentence. Greedy decoding writes “it is raining”, with −2.00."
    )
    beam_size = Int(2, min=1, max=4).tag(sync=True, state=True)
    alpha = Float(0.0, min=0).tag(sync=True, state=True)
    step = Int(5, min=1).tag(sync=True, state=True)
    sentence = Unicode("rain falls end").tag(sync=True, state=True)
    language = Dict(default_value=WEATHER).tag(sync=True, state=True)
