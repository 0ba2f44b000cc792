"""Images and texts that come with a message, or with a result: checked, stored by reference, and shown to the model.

A message's attachments are one content: inline in its item if it is small, else an object in S3. A result's images are
taken out of what the model reads of it as text. A model that takes no images is told that there was one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codelab.llm.fence import fenced
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.images import image_problem
from codelab.protocol.incoming import Attachment
from codelab.protocol.outgoing import AttachmentInfo
from codelab.sessions.items import Attached, Content, Reference, refer
from codelab.turns import models
from codelab.turns.draft import Draft
from codelab.turns.text import head_and_tail

#: Images of one result that the model sees.
_RESULT_IMAGES = 4
#: Where images are in a result, and what stands there for the model.
IMAGES = "images"


def check(draft: Draft, attachments: Sequence[Attachment]) -> None:
    """Raise ProtocolError INVALID_ARGUMENTS for an image that the session's model does not take."""
    name = models.model_of(draft.register, draft.settings)
    if models.capabilities(name, draft.settings).images or all(
        attachment.type != "image" for attachment in attachments
    ):
        return
    image_models = [model.name for model in models.selectable_models(draft.settings) if model.images]
    cure = f"; choose one that does with session_config: {', '.join(image_models)}" if image_models else ""
    raise ProtocolError(
        ErrorCode.INVALID_ARGUMENTS, f"The model {name} takes no images{cure}", details={"field": "attachments"}
    )


def store(draft: Draft, attachments: Sequence[Mapping[str, Any]]) -> Attached | None:
    """The attachments as an item keeps them; None if there are none."""
    if not attachments:
        return None
    content: Content = {"attachments": list(attachments)}
    return Attached(refer(content, draft.objects) or content, tuple(map(_summary, attachments)))


def _summary(attachment: Mapping[str, Any]) -> dict[str, Any]:
    """An attachment without its content."""
    is_image = attachment["type"] == "image"
    size = len(attachment["data"]) * 3 // 4 if is_image else len(attachment["content"].encode())
    return {**{name: attachment[name] for name in ("type", "name", "media_type") if name in attachment}, "bytes": size}


def infos(item: Attached | None) -> list[AttachmentInfo] | None:
    """The attachments as the other connections get them."""
    return [AttachmentInfo.model_validate(summary) for summary in item.summaries] if item else None


def without_images(outcome: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An outcome as the model reads it, and the images of its result, of which there may be a few."""
    result = outcome.get("result")
    raw_images = result.get(IMAGES) if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(raw_images, list):
        return outcome, []
    captions: list[str] = []
    images: list[dict[str, Any]] = []
    for image in raw_images:
        problem = image_problem(image)
        if problem is None and len(images) < _RESULT_IMAGES:
            images.append({"type": "image", "media_type": image["media_type"], "data": image["data"]})
            captions.append(f"shown below: {image['media_type']}")
        else:
            captions.append(f"left out: {problem or f'more than {_RESULT_IMAGES} images'}")
    return {**outcome, "result": {**result, IMAGES: captions}}, images


class AttachmentView(Protocol):
    """How attachments are shown.

    `contents` are the large ones that were read, by digest. `images`: the model takes images. The texts of one message
    have at most `max_chars` characters.
    """

    @property
    def contents(self) -> Mapping[str, Any]: ...
    @property
    def images(self) -> bool: ...
    @property
    def max_chars(self) -> int: ...


def parts(text: str, item: Attached | None, view: AttachmentView, *, is_cut: bool) -> str | list[dict[str, Any]]:
    """A message's content for the model: `text`, then its attachments; only named if `is_cut` or not read."""
    if item is None:
        return text
    content = item.content
    contents = view.contents.get(content.digest) if isinstance(content, Reference) else content
    if contents is None or is_cut:
        return "\n\n".join([text, *(_mention(summary, "not shown any more") for summary in item.summaries)])
    texts, pictures = [text], []
    for attachment, summary in zip(contents["attachments"], item.summaries, strict=True):
        if attachment["type"] == "text":
            excerpt = head_and_tail(attachment["content"], view.max_chars // len(item.summaries))
            texts.append(f"# Attached: {attachment.get('name', 'text')}\n{fenced(excerpt)}")
        elif view.images:
            url = f"data:{attachment['media_type']};base64,{attachment['data']}"
            pictures.append({"type": "image_url", "image_url": {"url": url}})
        else:
            texts.append(_mention(summary, "this model takes no images"))
    full_text = "\n\n".join(filter(None, texts))
    return [{"type": "text", "text": full_text}, *pictures] if pictures else full_text


def join_contents(
    content: str | list[dict[str, Any]], addition: str | list[dict[str, Any]]
) -> str | list[dict[str, Any]]:
    """The contents of two messages in one."""
    if isinstance(content, str) and isinstance(addition, str):
        return f"{content}\n\n{addition}"
    return [*_as_parts(content), *_as_parts(addition)]


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _mention(summary: Mapping[str, Any], reason: str) -> str:
    name = f" {summary['name']}" if "name" in summary else ""
    return f"[Attached {summary['type']}{name}: {reason}]"
