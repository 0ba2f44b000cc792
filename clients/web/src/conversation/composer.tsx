import { signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { n, t } from '../i18n/index.ts';
import { type Live, link, live, send, sendInstead } from '../live.ts';
import { Icon } from '../shell/icon.tsx';
import { stored } from '../shell/stored.ts';
import { folder, pathsOf, version } from '../workspace/open.ts';
import { type Command, commandsFor, commandsOf } from './commands.ts';
import type { Attached } from './entries.ts';
import { type Option, useMenu } from './menu.tsx';
import { visibleLine } from './safe.ts';
import { type Beginning, matching, mentionOf } from './suggestions.ts';

export const draft = signal('');
/** The earlier message in whose place the draft is sent. */
const editing = signal<{ key: string; sessionId: string } | undefined>(undefined);

/** What the names of images end with. */
const IMAGE_TYPES: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' };
const IMAGE_BYTES = 5_000_000;
const TEXT_CHARS = 200_000;
const MOST_ATTACHED = 8;

/** Have the user write an earlier message anew. */
export function edit(entry: { key: string; text: string; attached: readonly Attached[] }): void {
  const sessionId = live.value?.session.sessionId;
  if (!sessionId) return;
  editing.value = { key: entry.key, sessionId };
  draft.value = entry.text;
  attached.value = entry.attached;
  document.getElementById('message')?.focus();
}

interface Undone {
  sessionId: string;
  callId: string;
  paths: readonly string[];
}

/** Undone calls that are kept until a message of their sessions tells them. */
const MOST_UNDONE = 50;

/** What the user has undone since the last message. The next one says so, unless the user takes that out. */
const undone = stored<readonly Undone[]>('undone', [], (value) => (Array.isArray(value) ? value.filter(isUndone) : []));

function isUndone(value: unknown): value is Undone {
  const { sessionId, callId, paths } = (value ?? {}) as Record<string, unknown>;
  return [sessionId, callId, ...(Array.isArray(paths) ? paths : [undefined])].every((one) => typeof one === 'string');
}

/** Have the next message tell the agent that the changes of a call are undone. */
export function tellUndone(callId: string, paths: readonly string[]): void {
  const sessionId = live.value?.session.sessionId;
  if (sessionId) undone.value = [...undone.value, { sessionId, callId, paths }].slice(-MOST_UNDONE);
}

/** What is sent with the draft. */
const attached = signal<readonly Attached[]>([]);

export function Composer({ live: here }: { live: Live }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  /** The message that the draft is, counted back from the newest; -1: it is a new one. */
  const recalled = useRef(-1);
  const problem = useSignal('');
  /** The session to which the draft is sent as soon as it is connected; empty: none. */
  const sendsTo = useSignal('');
  const notice = useSignal('');
  const { conversation, session } = here;
  const isEditing = editing.value?.sessionId === session.sessionId;
  const limits = (conversation.info.value?.limits ?? {}) as Record<string, unknown>;
  const most = typeof limits['user_message_chars'] === 'number' ? limits['user_message_chars'] : 10_000;
  const info = conversation.info.value;
  const takesImages = info?.models.find((model) => model.name === info.model)?.images === true;
  const told = isEditing ? [] : undone.value.filter((one) => one.sessionId === session.sessionId);
  const toldText = told.map(({ paths }) => `\n\n${t('undone.told', { paths: paths.join(', ') })}`).join('');
  const isLong = [...draft.value, ...toldText].length > most;
  const isRunning = conversation.status.value !== 'idle' && conversation.status.value !== 'error';
  const online = link.value.state === 'online';
  const isComplete = !isLong && draft.value.trim() !== '';
  const canSend = online && isComplete;
  const waits = isComplete && !online && link.value.state !== 'ended' && sendsTo.value === session.sessionId;

  useLayoutEffect(() => {
    const element = area.current!;
    element.style.height = 'auto';
    element.style.height = `${Math.min(element.scrollHeight, 240)}px`;
  }, [draft.value]);

  const submit = () => {
    sendsTo.value = online ? '' : session.sessionId;
    if (!canSend) return;
    const [text, files, instead] = [draft.value + toldText, attached.value, isEditing ? editing.value : undefined];
    if (instead) {
      void sendInstead(instead.key, text, files).catch((error: Error) => {
        problem.value = error.message;
        draft.value ||= text;
      });
    } else {
      send(text, files);
      undone.value = undone.value.filter((one) => one.sessionId !== session.sessionId);
    }
    clear();
    area.current!.focus();
  };
  const clear = () => {
    draft.value = '';
    attached.value = [];
    problem.value = notice.value = '';
    editing.value = undefined;
    recalled.current = -1;
  };
  const suggested = useSignal<readonly string[]>([]);
  /** Put a text in place of what is being written, and the caret behind it. */
  const put = (begun: Beginning, text: string) => {
    const rest = draft.value.slice(area.current!.selectionStart);
    const behind = begun.start + text.length;
    draft.value = draft.value.slice(0, begun.start) + text + rest;
    area.current!.value = draft.value;
    area.current!.setSelectionRange(behind, behind);
    area.current!.focus();
    menu.look(true);
  };
  const run = (command: Command) => {
    clear();
    menu.look();
    const failed = (error: Error) => (problem.value = error.message);
    void Promise.resolve(command.run!()).then((text) => (notice.value = text ?? ''), failed);
  };
  const optionsOf = (begun: Beginning): Option[] => {
    if (begun.kind === 'file') return matching(suggested.value, begun.text).map((path) => ({ ...nameAndPlace(path), pick: () => mention(begun, path) }));
    const { before, commands } = commandsFor(commandsOf(here, () => chooser.current!.click()), begun.text);
    return commands.map((command) => ({
      label: `/${before}${command.name}`,
      detail: command.text,
      pick: () => (command.choices ? put(begun, `/${command.name} `) : run(command)),
    }));
  };
  const menu = useMenu(area, optionsOf);
  const mention = (begun: Beginning, path: string) => {
    put(begun, `${mentionOf(path)} `);
    const type = IMAGE_TYPES[/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? ''];
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (type && takesImages) void folder.value?.bytes(path).then((body) => attach([new File([body], name, { type })]));
  };
  const mentions = menu.begun?.kind === 'file';
  useEffect(() => {
    if (mentions && folder.value) void pathsOf(folder.value).then((paths) => (suggested.value = paths));
  }, [mentions, folder.value, version.value]);
  useEffect(() => {
    // On a telephone, it would open the keyboard.
    if (document.activeElement === document.body && matchMedia('(hover: hover)').matches) area.current!.focus();
  }, [session]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
      const target = event.target as HTMLElement;
      if (target !== document.body && (target.matches('input, select') || !target.closest('.conversation'))) return;
      if (target instanceof HTMLTextAreaElement && target !== area.current) return;
      if (editing.peek()?.sessionId === session.sessionId) clear();
      else if (!['idle', 'error'].includes(conversation.status.peek())) void session.cancel(); // as it is now, drawn or not
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });
  /** Put an earlier message into the field: `back` is 1 for the one before. Gives whether there is one. */
  const recall = (back: 1 | -1): boolean => {
    const said = conversation.entries.value.flatMap((entry) => (entry.kind === 'user' && entry.isWhole ? [entry.text] : [])).reverse();
    const isOwn = recalled.current >= 0 && draft.value === said[recalled.current];
    if (draft.value !== '' && !isOwn) return false;
    const next = (isOwn ? recalled.current : -1) + back;
    if (next < -1 || next >= said.length) return false;
    recalled.current = next;
    draft.value = said[next] ?? '';
    return true;
  };
  const attach = async (files: readonly File[]) => {
    problem.value = '';
    for (const file of files) {
      const isImage = /^image\/(png|jpeg|gif|webp)$/.test(file.type);
      if (attached.value.length === MOST_ATTACHED) problem.value = t('composer.many', { n: MOST_ATTACHED });
      else if (isImage && !takesImages) problem.value = t('composer.noimages');
      else if (file.size > (isImage ? IMAGE_BYTES : 4 * TEXT_CHARS)) problem.value = t('composer.large', { name: visibleLine(file.name) });
      else if (isImage) attached.value = [...attached.value, { name: file.name, url: await dataUrl(file) }];
      else {
        const text = await file.arrayBuffer().then((body) => new TextDecoder('utf-8', { fatal: true }).decode(body)).catch(() => '\0');
        if (!text || text.includes('\0') || text.length > TEXT_CHARS) problem.value = t('composer.notext', { name: visibleLine(file.name) });
        else attached.value = [...attached.value, { name: file.name.slice(0, 255), text }];
      }
    }
  };
  useEffect(() => {
    if (!online) return;
    if (sendsTo.value === session.sessionId) submit();
    sendsTo.value = '';
  }, [online, session]);
  const paste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    void attach(files);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {menu.list}
      {isEditing && (
        <p class="note editing">
          {t('composer.editing')}
          <button type="button" class="quiet" onClick={clear}>
            {t('cancel')}
          </button>
        </p>
      )}
      {told.map((one) => (
        <p key={one.callId} class="note told">
          {t('undone.told', { paths: one.paths.join(', ') })}
          <button
            type="button"
            class="icon"
            aria-label={t('undone.untold')}
            title={t('undone.untold')}
            onClick={() => (undone.value = undone.value.filter((other) => other !== one))}
          >
            <Icon name="close" />
          </button>
        </p>
      ))}
      {attached.value.length > 0 && (
        <div class="images">
          {attached.value.map((one, index) => (
            <figure key={index} class={'url' in one ? '' : 'file'}>
              {'url' in one ? <img src={one.url} alt={t('composer.image', { n: index + 1 })} /> : <span class="badge">{visibleLine(one.name)}</span>}
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
      )}
      <textarea
        id="message"
        ref={area}
        rows={1}
        value={draft.value}
        dir="auto"
        aria-label={t('composer.label')}
        placeholder={t(matchMedia('(width < 40rem)').matches ? 'composer.hint.short' : 'composer.hint')}
        aria-invalid={isLong}
        onInput={(event) => {
          draft.value = event.currentTarget.value;
          sendsTo.value = notice.value = '';
          menu.look(true);
        }}
        {...menu.field}
        onKeyUp={() => menu.look()}
        onClick={() => menu.look()}
        onBlur={menu.close}
        onPaste={paste}
        onKeyDown={(event) => {
          if (menu.press(event)) return;
          // With an input method, Enter only ends the composition.
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit();
          } else if ((event.key === 'ArrowUp' || event.key === 'ArrowDown') && !event.shiftKey && !event.isComposing) {
            if (recall(event.key === 'ArrowUp' ? 1 : -1)) event.preventDefault();
          }
        }}
      />
      <div class="actions">
        <span class="problem" role="status">
          {isLong ? t('composer.long', { n: n([...draft.value, ...toldText].length), max: n(most) }) : waits ? t('composer.waits') : problem.value}
        </span>
        <span class="note" role="status">
          {notice.value}
        </span>
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            const files = [...(event.currentTarget.files ?? [])];
            event.currentTarget.value = '';
            void attach(files);
          }}
        />
        <button type="button" class="icon" aria-label={t('composer.attach')} title={t('composer.attach')} onClick={() => chooser.current!.click()}>
          <Icon name="plus" />
        </button>
        {isRunning && (
          <button type="button" class="round" aria-label={t('composer.stop')} title={t('composer.stop')} onClick={() => session.cancel()}>
            <Icon name="stop" />
          </button>
        )}
        <button type="submit" class="round primary" aria-label={t('composer.send')} title={t('composer.send')} disabled={!canSend}>
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}

function nameAndPlace(path: string): { label: string; detail: string } {
  const end = path.lastIndexOf('/');
  return { label: path.slice(end + 1), detail: path.slice(0, Math.max(0, end)) };
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
