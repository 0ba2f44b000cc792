"""The wire protocol: frames, error codes, the tool catalogue, limits and path rules.

Imports no other codelab package at import time, so clients can use it too.
"""

PROTOCOL_VERSION = "1.0"
