"""What a provider or a gateway says of an error is told to clients without the operator's secrets."""

from codelab.llm.failures import masked

from tests.cases import cases


@cases(
    ("words", "told"),
    [
        ("Incorrect API key provided: sk-abc123def456. See /keys", "Incorrect API key provided: … See /keys"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: …"),
        ("got x-api-key: hunter2secret", "got x-api-key: …"),
        ('{"apikey": "hunter2secret"}', '{"apikey": "…"}'),
        ("POST https://user:pa55w0rd@proxy.local/v1 failed", "POST https://…proxy.local/v1 failed"),
        ("GET https://proxy.local/v1?api_key=abc123&b=1", "GET https://proxy.local/v1?api_key=…&b=1"),
        ("token gho_abcdEFGH1234", "token …"),
        ("slack xoxb-12345-abc", "slack …"),
        ("The maximum is 8192 tokens: 9000 were given", "The maximum is 8192 tokens: 9000 were given"),
        ("Unexpected token: <end>", "Unexpected token: <end>"),
    ],
)
def test_words_are_told_without_secrets(words: str, told: str) -> None:
    assert masked(words) == told
