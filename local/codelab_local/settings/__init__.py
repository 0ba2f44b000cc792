"""What the user sets: the environment, files of variables, the project."""
