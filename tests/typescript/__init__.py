"""Tests of the TypeScript client: those in clients/typescript/tests, run against the local cloud."""
