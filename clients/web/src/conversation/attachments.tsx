import { signal } from '@preact/signals';
import { t } from '../i18n/index.ts';
import { Icon } from '../shell/icon.tsx';
import type { Attachment, AttachmentInfo } from '@codelab/client';
import { visibleLine } from './safe.ts';

const IMAGE_BYTES = 5_000_000;
const TEXT_CHARS = 200_000;
const MOST_ATTACHED = 8;
/** What the names of images end with. */
const IMAGE_TYPES: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' };

/** What is sent with the draft. */
export const attached = signal<readonly Attachment[]>([]);

/** The media type of an image's path; undefined for other files. */
export function imageType(path: string): string | undefined {
  return IMAGE_TYPES[/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? ''];
}

/** Attach files to the draft, as far as they can be. Gives what is wrong with the last one that cannot; empty: nothing. */
export async function attach(files: readonly File[], takesImages: boolean): Promise<string> {
  let problem = '';
  for (const file of files) {
    const made = attached.value.length === MOST_ATTACHED ? t('composer.many', { n: MOST_ATTACHED }) : await attachmentOf(file, takesImages);
    if (typeof made === 'string') problem = made;
    else attached.value = [...attached.value, made];
  }
  return problem;
}

/** A file as an attachment, or what is wrong with it. */
async function attachmentOf(file: File, takesImages: boolean): Promise<Attachment | string> {
  const name = visibleLine(file.name);
  const isImage = /^image\/(png|jpeg|gif|webp)$/.test(file.type);
  if (isImage && !takesImages) return t('composer.noimages');
  if (file.size > (isImage ? IMAGE_BYTES : 4 * TEXT_CHARS)) return t('composer.large', { name });
  if (isImage) return { type: 'image', name: file.name, media_type: file.type as Attachment['media_type'] & string, data: await base64(file) };
  const text = await file.arrayBuffer().then((body) => new TextDecoder('utf-8', { fatal: true }).decode(body)).catch(() => '\0');
  if (!text || text.includes('\0') || text.length > TEXT_CHARS) return t('composer.notext', { name });
  return { type: 'text', name: file.name.slice(0, 255), content: text };
}

/** What is attached, each with a button that removes it. */
export function AttachedView() {
  if (!attached.value.length) return null;
  return (
    <div class="images">
      {attached.value.map((one, index) => (
        <figure key={index} class={one.type === 'image' ? '' : 'file'}>
          <AttachmentView attachment={one} alt={t('composer.image', { n: index + 1 })} />
          <button
            type="button"
            class="icon"
            aria-label={t('composer.remove')}
            onClick={() => (attached.value = attached.value.filter((other) => other !== one))}
          >
            <Icon name="close" />
          </button>
        </figure>
      ))}
    </div>
  );
}

/** An image if its data are here, else its name. */
export function AttachmentView({ attachment, alt }: { attachment: Attachment | AttachmentInfo; alt: string }) {
  if ('data' in attachment) return <img src={`data:${attachment.media_type};base64,${attachment.data}`} alt={alt} />;
  return <span class="badge">{visibleLine(attachment.name ?? attachment.type)}</span>;
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^.*?,/, ''));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
