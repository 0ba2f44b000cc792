"""A model file of the user's, which llama.cpp's server serves while the local cloud runs."""
