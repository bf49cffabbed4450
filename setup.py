"""Install JupyterLab's settings even in an editable install; pyproject.toml has everything else."""

from setuptools import Distribution, setup


class DistributionWithData(Distribution):
    """A distribution that makes setuptools copy the data files in an editable install."""

    has_data = Distribution.has_data_files


setup(distclass=DistributionWithData)
