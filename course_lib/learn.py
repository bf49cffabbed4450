"""What notebooks of the first edition import: they are told how to go on."""

NAMES = ("attempt", "check", "export_mine", "predict", "progress", "score_test")


def __getattr__(name: str) -> None:
    """Refuse what those notebooks ask for."""
    if name not in NAMES:
        raise AttributeError(name)
    raise ImportError(
        "this notebook is of the course's first edition; make a new workbook in another folder "
        "(`course workbook DIR`), and paste your answers into its cells"
    )
