"""What is spoken on the wire: frames, error codes, the tool catalogue, limits and path rules.

Imports nothing else of ours, so that clients may use it too.
"""

PROTOCOL_VERSION = "1.0"
