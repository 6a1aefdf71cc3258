"""The version of the project, from CMakeLists.txt."""

__version__ = "0.1.0"
