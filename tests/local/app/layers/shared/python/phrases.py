"""A module that the project lets all functions share."""

import os

PHRASE = "first"
SHARED = "_HANDLER" not in os.environ
