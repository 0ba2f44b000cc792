"""The session store over DynamoDB. The only package of `sessions` that does I/O."""
