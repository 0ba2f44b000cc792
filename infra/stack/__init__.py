"""The deployed stack, for the person who deploys it: `make deploy`, `make token`, `make smoke`, `make destroy`."""
