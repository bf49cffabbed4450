"""Install JupyterLab's settings in an editable install, too. The rest is in pyproject.toml."""

from setuptools import Distribution, setup


class DistributionWithData(Distribution):
    """Answer the question that setuptools asks before an editable install copies data files."""

    has_data = Distribution.has_data_files


setup(distclass=DistributionWithData)
