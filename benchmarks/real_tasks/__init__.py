"""Small tasks with which the project measures itself against a real model."""
