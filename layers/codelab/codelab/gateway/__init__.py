"""From a Lambda event to a validated frame, and back to an error frame; who is speaking."""
