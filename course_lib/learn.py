"""What notebooks of the first edition import: they are told how to go on."""


def __getattr__(name: str) -> None:
    """Refuse whatever is asked for."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        "this notebook is of the course's first edition; make a new workbook in another folder "
        "(`course workbook DIR`), and paste your answers into its cells"
    )
