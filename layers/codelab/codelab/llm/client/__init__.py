"""Running a Request against a provider: the only part of `llm` that does I/O."""
