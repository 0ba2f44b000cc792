"""The demonstration model: an OpenAI-compatible server that plays a coding conversation offline.

It needs no network, no key and no weights: it plays the scenarios in `scenarios/`, calls the tools that it is given,
and answers from their results. Any other JSON Schema is answered by a valid instance.
`DEMO_TOKEN_DELAY_MS` (10) and `DEMO_FIRST_TOKEN_DELAY_MS` (0) set its pace.
"""
