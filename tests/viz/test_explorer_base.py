"""Every explorer has a state, a still picture, one module and no arguments."""

import json
import pkgutil
import re
from importlib import import_module

import numpy as np
import pytest
from browser_driver import ROOT
from explorer_page import EXPLORERS
from figure_asserts import shown_image
from matplotlib.colors import to_hex
from matplotlib.pyplot import get_cmap
from PIL import Image

from course_lib import viz
from course_lib.viz.explorer_base import FOLDER, Explorer, whole_module

LARGEST = 20_000  # characters of a state, which a chapter stores
every_explorer = pytest.mark.parametrize("kind", EXPLORERS, ids=lambda kind: kind.module)


def test_the_browser_tests_know_every_explorer():
    names = [module.name for module in pkgutil.iter_modules(viz.__path__)]
    modules = [import_module(f"{viz.__name__}.{name}") for name in names]
    kinds = {kind for each in modules for kind in vars(each).values() if isinstance(kind, type)}
    explorers = {kind for kind in kinds if issubclass(kind, Explorer)} - {Explorer}
    assert explorers == set(EXPLORERS), "rename the file to NAME_explorer.py"
    stills = {path.stem for path in FOLDER.glob("stills/*.png")}
    assert stills == {e.module for e in EXPLORERS}, "run: python tools/explorer_page.py"


@pytest.mark.parametrize("name", ["cividis", "RdBu_r"])
def test_explorers_and_drawings_use_the_color_maps_of_the_plots(name):
    colors = " ".join(to_hex(color).strip("#") for color in get_cmap(name)(np.linspace(0, 1, 9)))
    for path in (FOLDER / "shapes.js", ROOT / "figures" / "src" / "colors.py"):
        assert f'{name.upper()} = "{colors}"' in path.read_text(encoding="utf-8")


@every_explorer
def test_an_output_contains_the_widget_a_still_picture_and_the_state_for_the_site(kind):
    explorer = kind()
    data, metadata = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == kind.alt
    assert len(kind.alt.split()) > 15, "describe the picture in at least 16 words"
    image, tag = shown_image(data)
    kept = Image.open(FOLDER / "stills" / f"{kind.module}.png")
    assert image.size == kept.size and tag["alt"] == metadata["image/png"]["alt"] == kind.alt
    assert metadata["explorer"] == {"module": kind.module, "state": explorer.state()}
    assert len(json.dumps(metadata["explorer"])) < LARGEST


@every_explorer
def test_a_notebook_loads_one_module_with_everything_that_it_imports(kind):
    source = whole_module(kind.module)
    assert "import " not in source and source.count("export default") == 1
    names = re.findall(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", source, re.M)
    assert len(names) == len(set(names)), "two modules define the same name"
