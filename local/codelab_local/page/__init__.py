"""The web page: building it and serving its files."""
