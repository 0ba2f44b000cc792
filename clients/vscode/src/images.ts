import type { Attachment } from "@codelab/client";
import { visibleLine } from "../../web/src/conversation/safe.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

/** An `@` before a path, in which blanks have a backslash. */
const MENTION = /(?<=^|\s)@((?:\\.|[^\s\\@'"])+)(?=[\s.,;:!?)]|$)/g;
const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
/** How each kind of image begins, whatever its file is called. `.` is any byte. */
const KINDS = [
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF.{4}WEBP/s],
] as const;
const NAME_CHARS = 255;

/**
 * The images of the folder that a message mentions, as its attachments. A mention that is no file is only a text. Throws an
 * Error if one cannot be sent. `limits`: those of the server; one that names none takes no attachments.
 */
export async function mentionedImages(text: string, files: WorkspaceFiles, limits: Record<string, unknown>): Promise<Attachment[]> {
  const { attachments: most, image_bytes: mostBytes = Infinity } = limits;
  if (typeof most !== "number") return [];
  const words = [...text.matchAll(MENTION)].map(([, word = ""]) => word.replace(/[.,;:!?)]+$/, "").replace(/\\(.)/g, "$1"));
  const images: Attachment[] = [];
  for (const path of new Set(words.filter((word) => IMAGE.test(word)))) {
    if (!(await files.has(path))) continue;
    if (images.length === most) throw new Error(`The message mentions more than the ${most} images that this server takes`);
    if ((await files.stat(path)).size > Number(mostBytes)) throw new Error(`${path} has more than the ${Number(mostBytes)} bytes that this server takes`);
    images.push(imageOf(path, await files.bytes(path)));
  }
  return images;
}

function imageOf(path: string, bytes: Uint8Array): Attachment {
  let data = "";
  // In pieces: a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8_192) data += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  const kind = KINDS.find(([, begins]) => begins.test(data))?.[0];
  if (!kind) throw new Error(`${path} is no PNG, JPEG, GIF or WebP image`);
  return { type: "image", name: visibleLine(path.split("/").at(-1)!).slice(0, NAME_CHARS), media_type: kind, data: btoa(data) };
}
