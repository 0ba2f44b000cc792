"""The judge: a scripted server that plays scenarios to a client, and reports which rules of the protocol it breaks."""
