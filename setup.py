"""Let an editable install carry JupyterLab's settings, as a wheel does; pyproject.toml has the rest."""

from setuptools import Distribution, setup


class DistributionWithData(Distribution):
    """Answer the question that setuptools asks before an editable install copies data files."""

    has_data = Distribution.has_data_files


setup(distclass=DistributionWithData)
