import { type Attachment, type OwnTool, ToolError } from "@codelab/client";
import { visibleLine } from "../../web/src/conversation/safe.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

/** An `@` before a path, in which blanks have a backslash. */
const MENTION = /(?<=^|\s)@((?:\\.|[^\s\\@'"])+)(?=[\s.,;:!?)]|$)/g;
export const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
/** How each kind of image begins, whatever its file is called. `.` is any byte. */
const KINDS = [
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF.{4}WEBP/s],
] as const;
const NAME_CHARS = 255;
/** The largest image that the agent sees in a result, and how many of one (docs/protocol.md, "Attachments"). */
const MOST_BYTES = 5_000_000;
const MOST_IMAGES = 4;

/** An image as frames have it: its type, and its bytes in base64. */
export interface Image {
  media_type: (typeof KINDS)[number][0];
  data: string;
}

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
    const { media_type, data } = imageOf(path, await files.bytes(path));
    images.push({ type: "image", name: visibleLine(path.split("/").at(-1)!).slice(0, NAME_CHARS), media_type, data });
  }
  return images;
}

/** The tool with which the agent looks at an image of the folder. */
export function imageTool(files: WorkspaceFiles): OwnTool {
  return {
    name: "view_image",
    description: "See an image of the workspace: PNG, JPEG, GIF or WebP. read_file reads texts only.",
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
    read_only: true,
    trusted: true,
    execute: async ({ path }) => {
      const name = String(path);
      const { size } = await files.stat(name);
      if (size > MOST_BYTES) throw new ToolError("FILE_TOO_LARGE", `${name} has ${size} bytes; an image may have ${MOST_BYTES}`);
      return { images: [imageOf(name, await files.bytes(name))], size };
    },
  };
}

/** The images of a call's result, whoever has executed it: those that the model saw. */
export function imagesOf(result: unknown): Image[] {
  const { images } = Object(result) as { images?: unknown };
  return Array.isArray(images) ? images.filter(isImage).slice(0, MOST_IMAGES) : [];
}

function isImage(image: unknown): image is Image {
  const { media_type: kind, data } = Object(image) as Partial<Record<keyof Image, unknown>>;
  if (typeof data !== "string" || data.length > MOST_BYTES * 1.4 || data.length % 4 || !/^[A-Za-z0-9+/]+={0,2}$/.test(data)) return false;
  return KINDS.some(([name, begins]) => name === kind && begins.test(atob(data.slice(0, 64))));
}

function imageOf(path: string, bytes: Uint8Array): Image {
  let data = "";
  // In pieces: a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8_192) data += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  const kind = KINDS.find(([, begins]) => begins.test(data))?.[0];
  if (!kind) throw new Error(`${path} is no PNG, JPEG, GIF or WebP image`);
  return { media_type: kind, data: btoa(data) };
}
