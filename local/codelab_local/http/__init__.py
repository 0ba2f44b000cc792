"""HTTP/1.1 as the local cloud speaks it, and whom it speaks to."""
