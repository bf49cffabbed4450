"""What strict nbval leaves out of the comparison."""


def pytest_collectstart(collector):
    """Figures are shown as HTML; their pixels are not part of the contract."""
    if getattr(collector, "path", None) and collector.path.suffix == ".ipynb":
        collector.skip_compare += (
            "text/html",
            "image/svg+xml",
            "application/javascript",
            "stderr",
        )
