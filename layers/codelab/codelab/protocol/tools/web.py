"""Tools that fetch from the web. Not in the seed documents."""

from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import arguments, boolean, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

TOOLS = (
    Tool(
        name="fetch_url",
        kind="fetch",
        title="Fetch {url}",
        description="Fetch a public web page or file as text. Never put secrets or the user's data into the URL.",
        parameters=arguments(
            {
                "url": string(
                    "The address; https or http",
                    minLength=10,
                    maxLength=2_000,
                    pattern=r"^[hH][tT][tT][pP][sS]?://[!-~]+$",
                )
            }
        ),
        extension=True,
        result=ResultForm(
            reply(
                {"status": integer("The HTTP status"), "content": string("The text; HTML without its markup")},
                {
                    "url": string("Where the content came from, if the same host redirected"),
                    "content_type": string("The media type"),
                    "location": string("Another host that the page redirects to: fetch it in a call of its own"),
                    "truncated": boolean("Whether the content was cut"),
                },
            ),
        ),
        approval=True,
        always_approval=True,
        host_of="url",
        errors=(ErrorCode.EXECUTION_FAILED, ErrorCode.PERMISSION_DENIED, ErrorCode.FILE_TOO_LARGE),
        platforms="A GET without cookies or credentials. The IDE connects only to public addresses, whatever a name "
        "resolves to (not to the machine itself, its network or a cloud's metadata service), follows no redirect to "
        "another host, and bounds size and time.",
        examples=(
            Example(
                {"url": "https://docs.python.org/3/library/re.html"},
                {"status": 200, "content": "re — Regular expression operations …", "content_type": "text/html"},
            ),
        ),
    ),
)
