"""The base class of all explorers, which are interactive drawings that the browser computes.

Each explorer is an ES module in this folder. A notebook runs it as an anywidget widget, and the
site runs it without a kernel. Both start from the same state.
"""

import re
from pathlib import Path
from typing import Any, ClassVar

import anywidget
from PIL import Image
from traitlets import List, Unicode, default

from course_lib.viz.plots import SHARPNESS, picture_output

FOLDER = Path(__file__).parent
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.M)


def whole_module(name: str) -> str:
    """Return an ES module together with its imports, because a notebook loads only one module."""
    sources: dict[str, str] = {}

    def add(module: str) -> None:
        """Add a module after the modules that it imports."""
        source = (FOLDER / f"{module}.js").read_text(encoding="utf-8")
        for imported in IMPORT.findall(source):
            add(imported)
        sources.setdefault(module, IMPORT.sub("", source))

    add(name)
    return "\n".join(sources.values())


class Explorer(anywidget.AnyWidget):
    """A widget that shows an explorer, or a still picture if there is no kernel or no JavaScript.

    The traits that a subclass tags with ``state`` make up the state that the module draws.

    Attributes:
        module: The name of the ES module, and of the still picture.
        title: The title above the controls.
        question: The question next to the title, which the reader answers by playing.
        alt: A description of the first picture. It must be the same on every machine, because
            strict nbval compares it.
        names: The names of the traits that make up the state.
    """

    module: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    alt: ClassVar[str]
    heading = List(Unicode()).tag(sync=True)
    names = List(Unicode()).tag(sync=True)
    _css = FOLDER / "explorer.css"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "module" in vars(cls):  # not in the class that anywidget derives for each object
            cls._esm = whole_module(cls.module)
        super().__init_subclass__(**kwargs)

    @default("names")
    def _names(self) -> list[str]:
        """Return the names of the traits that make up the state."""
        return sorted(self.trait_names(state=True))

    @default("heading")
    def _heading(self) -> list[str]:
        """Return the title and the question, which the frame shows."""
        return [self.title, self.question]

    def state(self) -> dict[str, Any]:
        """Return the values that the module draws, and its heading."""
        return {name: getattr(self, name) for name in [*self.names, "heading"]}

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Add the still picture, its alt text, and what the site needs to run the module."""
        live = super()._repr_mimebundle_(**kwargs)[0]  # type: ignore[index]
        image = Image.open(FOLDER / "stills" / f"{self.module}.png")
        size = image.width // SHARPNESS, image.height // SHARPNESS
        still, metadata = picture_output(image, self.alt, *size)
        explorer = {"module": self.module, "state": self.state()}
        return live | still, metadata | {"explorer": explorer}
