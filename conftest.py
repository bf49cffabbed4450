"""Settings of nbval: the outputs that it does not compare, and the cells that it skips."""

import pytest


def pytest_collectstart(collector):
    """Skip the comparison of figures, because their pixels are not part of the contract."""
    if getattr(collector, "path", None) and collector.path.suffix == ".ipynb":
        collector.skip_compare += (
            "text/html",
            "image/svg+xml",
            "application/javascript",
            "stderr",
        )


def pytest_collection_modifyitems(items):
    """Skip the cells that need published weights if the weights are missing."""
    metadata = ((item, getattr(getattr(item, "cell", None), "metadata", {})) for item in items)
    tagged = [item for item, about in metadata if "needs-weights" in about.get("tags", [])]
    if tagged:
        from course_lib.interop.weights import missing_weights  # loads torch

        names = " and ".join(missing_weights())
        reason = f"the cell needs the weights of {names}, which `make weights` installs"
        for item in tagged if names else ():
            item.add_marker(pytest.mark.skip(reason=reason))
