"""Tests of the TypeScript client: those in clients/typescript/tests, run against the local cloud."""

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "clients/typescript"
#: The version that vitest and Vite need; the client itself needs 20.
NODE = "20.19"
