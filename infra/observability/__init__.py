"""Alarms, a dashboard and saved queries: generates infra/observability.yaml, which `make docs` writes.

A nested stack, which template.yaml deploys if `AlarmEmail` is given. docs/operations.md has a section for each kind of
alarm.
"""
