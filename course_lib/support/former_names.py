"""Find modules under the names that workbooks and ``my_lib`` folders written earlier import."""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "course_lib.atomic_write": "course_lib.support.atomic_write",
    "course_lib.attention_capture": "course_lib.support.attention_capture",
    "course_lib.data.user_folders": "course_lib.support.user_folders",
    "course_lib.conversation": "course_lib.interop.chat_template",
    "course_lib.exercises.clinic_cases": "course_lib.exercises.questions.clinic_cases",
    "course_lib.exercises.clinic_measures": "course_lib.exercises.questions.clinic_measures",
    "course_lib.exercises.clinic_models": "course_lib.exercises.questions.clinic_models",
    "course_lib.input_checks": "course_lib.support.input_checks",
    "course_lib.trainer.results": "course_lib.records.results",
}


class FormerNames(MetaPathFinder, Loader):
    """Import a module that has moved, when it is asked for by its former name."""

    def find_spec(self, fullname: str, path: object = None, target: object = None):
        """Return a spec for a former name, or None for any other name."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that both names stand for one object."""
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own spec; it has already been executed."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def keep_former_names() -> None:
    """Let imports find the former names."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.append(FormerNames())
