"""From a Lambda event to a validated frame and its sender, and back to an error frame."""
