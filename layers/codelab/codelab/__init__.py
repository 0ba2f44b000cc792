"""The library that all functions share."""

from codelab import garbage

garbage.wait()
