"""The box for a guess in a notebook: a question, an input field, and the explanation."""

import html
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from course_lib.exercises.checking.report import rendered

LONGEST = 500  # characters of an answer
EMPTY = "Please write a guess first. “I don't know” is fine, too."
UNKNOWN = "I don't know"
RERUN = "Run this cell to answer."
WRAPPED = "margin: 0; line-height: 1.5; white-space: normal; overflow-wrap: anywhere"


class GuessBox(widgets.VBox):
    """A box that asks for a guess, and shows the explanation only after an answer.

    The reader types an answer and presses Enter, or clicks the button for a choice.

    Args:
        question: The question to ask.
        choices: Answers to choose from; if there are none, the reader types an answer.
        explain: Returns the explanation; called only after an answer.
        keep: Called with each new answer.
        kept: An earlier answer, which is shown from the start; empty if there is none.
    """

    def __init__(
        self,
        question: str,
        choices: Sequence[str],
        *,
        explain: Callable[[], str],
        keep: Callable[[str], None],
        kept: str,
    ) -> None:
        self.question, self.explain, self.keep = question, explain, keep
        self.asked = f'<p style="{WRAPPED}"><strong>Guess:</strong> {rendered(question)}</p>'
        self.text = self._text_box()
        show = self._button("Show the answer", lambda: self.answer(self.text.value))
        buttons = [self._choice(choice) for choice in (*choices, UNKNOWN)]
        row = buttons if choices else [self.text, show]
        self.entry = widgets.Box(row, layout=widgets.Layout(flex_flow="row wrap"))
        self.message, self.explanation = widgets.HTML(), widgets.HTMLMath()
        self.again = self._button("Guess again", self.ask)
        line = widgets.HTMLMath(self.asked)
        super().__init__([line, self.entry, self.message, self.explanation, self.again])
        self.ask()
        if kept:
            self.show_explanation(kept)

    def ask(self) -> None:
        """Show the input field, and hide the explanation."""
        self.entered, self.text.value = False, ""
        self.message.value = self.explanation.value = ""
        self._swap(self.entry, self.again)
        self.entry.children[0].focus()

    def answer(self, answer: str) -> None:
        """Accept an answer and show the explanation; if the answer is empty, ask for one."""
        answer = " ".join(answer.encode(errors="replace").decode().split())
        if not answer:
            self.message.value = f'<p role="status" style="{WRAPPED}">{EMPTY}</p>'
            return
        answer = answer if len(answer) <= LONGEST else f"{answer[:LONGEST]}…"
        self.keep(answer)
        self.show_explanation(answer)
        self.again.focus()

    def show_explanation(self, answer: str) -> None:
        """Show an answer, and the explanation below it."""
        yours = f"<strong>Your guess:</strong> <bdi>{html.escape(answer)}</bdi>"
        self.message.value = f'<p style="{WRAPPED}">{yours}</p>'
        told = f"<strong>Answer:</strong> {rendered(self.explain())}"
        self.explanation.value = f'<p role="status" style="{WRAPPED}">{told}</p>'
        self._swap(self.again, self.entry)

    def _text_box(self) -> widgets.Text:
        """Return the text field for the reader's answer."""
        box = widgets.Text(
            description="Your guess:",
            placeholder="or: I don't know",
            continuous_update=False,  # Enter sends the whole text, even if the reader types fast
            style={"description_width": "initial"},
            layout=widgets.Layout(width="420px", max_width="100%"),
        )
        box.on_msg(self._press_key)
        box.observe(self._receive, "value")
        return box

    def _button(self, label: str, act: Callable[[], None]) -> widgets.Button:
        """Return a button that is as wide as its label and calls a function when it is clicked."""
        layout = widgets.Layout(width="auto", align_self="flex-start")
        button = widgets.Button(description=label, layout=layout)
        button.on_click(lambda _: act())
        return button

    def _choice(self, choice: str) -> widgets.Button:
        """Return the button for a choice."""
        return self._button(choice, lambda: self.answer(choice))

    def _press_key(self, widget: Any, content: dict[str, Any], buffers: Any) -> None:
        """Accept the typed text when the reader presses Enter."""
        if content.get("event") == "submit":
            self.entered = True
            self.answer(self.text.value)

    def _receive(self, change: Any) -> None:
        """Accept the text that was typed before Enter; the browser sends it after the key press."""
        if self.entered and change["new"]:
            self.answer(change["new"])

    def _swap(self, shown: widgets.DOMWidget, hidden: widgets.DOMWidget) -> None:
        """Show one part, and hide the other."""
        shown.layout.display, hidden.layout.display = "flex", "none"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Add the question as HTML and as text, for pages without a kernel."""
        live = super()._repr_mimebundle_(**kwargs)
        page = f'<div class="guess">{self.asked}<p><em>{RERUN}</em></p></div>'
        return live | {"text/html": page, "text/plain": f"Guess: {self.question}"}
