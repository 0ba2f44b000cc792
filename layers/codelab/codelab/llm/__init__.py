"""The Request: `Request(config, schema, context)` gives a `solution` that validates against the schema.

    transport = DirectTransport(base_url=..., api_key=...)
    request = Request(RequestConfig(model="gpt-5-mini"), schema, [{"role": "user", "content": "Hello"}])
    for event in request.stream(transport, deadline=time.monotonic() + 60):
        ...

Import each name from the module that defines it. Only `client` does I/O, uses threads or reads the clock; everything
else is pure. The package stands alone: it imports nothing else of this project.
"""
