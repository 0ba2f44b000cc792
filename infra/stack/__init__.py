"""Commands for a deployed stack: `make deploy`, `token`, `revoke`, `smoke`, `export`, `restore`, `destroy`."""
