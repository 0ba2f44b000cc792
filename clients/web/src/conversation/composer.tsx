import { signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { n, reasonOf, t } from '../i18n/index.ts';
import type { Attachment } from '@codelab/client';
import { type Live, link, live, send, sendInstead } from '../live.ts';
import { Icon } from '../shell/icon.tsx';
import { folder, pathsOf, version } from '../workspace/open.ts';
import { AttachedView, attach, attached, imageType } from './attachments.tsx';
import { type Command, commandsFor, commandsOf } from './commands.ts';
import { type Option, useMenu } from './menu.tsx';
import { type Beginning, matching, mentionOf } from './suggestions.ts';
import { visibleLine } from './safe.ts';
import { changesBy, madeSince, takeAllBack } from './take_back.ts';
import { undoneText, undoneTold, UndoneView } from './undone.tsx';

export const draft = signal('');
/** The earlier message in whose place the draft is sent. */
const editing = signal<{ id: string; sessionId: string } | undefined>(undefined);

/** Have the user write an earlier message anew. */
export function edit(message: { id: string; text: string; attachments: readonly Attachment[] }): void {
  const sessionId = live.value?.session.sessionId;
  if (!sessionId) return;
  editing.value = { id: message.id, sessionId };
  draft.value = message.text;
  attached.value = message.attachments;
  document.getElementById('message')?.focus();
}

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
  const since = isEditing ? madeSince(here, editing.value!.id) : [];
  const takesFiles = useSignal(false);
  const limits = (conversation.info.value?.limits ?? {}) as Record<string, unknown>;
  const most = typeof limits['user_message_chars'] === 'number' ? limits['user_message_chars'] : 10_000;
  const info = conversation.info.value;
  const takesImages = info?.models.find((model) => model.name === info.model)?.images === true;
  const told = isEditing ? '' : undoneText(session.sessionId);
  const length = [...draft.value, ...told].length;
  const isLong = length > most;
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
    const [text, files, instead] = [draft.value + told, attached.value, isEditing ? editing.value : undefined];
    if (instead) {
      const calls = takesFiles.value ? since : [];
      const before = async () => {
        const left = await takeAllBack(here, calls);
        return left.length ? t('composer.files.left', { paths: left.join(', ') }) : '';
      };
      void sendInstead(instead.id, text, files, before).catch((error: unknown) => {
        problem.value = reasonOf(error);
        draft.value ||= text;
      });
    } else {
      send(text, files);
      undoneTold(session.sessionId);
    }
    clear();
    area.current!.focus();
  };
  const clear = () => {
    draft.value = '';
    attached.value = [];
    problem.value = notice.value = '';
    editing.value = undefined;
    takesFiles.value = false;
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
    const typed = draft.value;
    clear();
    menu.look();
    const failed = (error: unknown) => {
      problem.value = reasonOf(error);
      if (command.keeps) draft.value ||= typed;
    };
    void Promise.resolve(command.run!()).then((text) => (notice.value = text ?? ''), failed);
  };
  const optionsOf = (begun: Beginning): Option[] => {
    if (begun.kind === 'file') return matching(suggested.value, begun.text).map((path) => ({ ...nameAndPlace(path), pick: () => mention(begun, path) }));
    const { before, commands } = commandsFor(commandsOf(here, () => chooser.current!.click()), begun.text);
    return commands.map((command) => ({
      label: `/${before}${command.name}`,
      detail: command.text,
      pick: () => (command.choices ?? command.take ? put(begun, `/${command.name} `) : run(command)),
    }));
  };
  const menu = useMenu(area, optionsOf);
  const mention = (begun: Beginning, path: string) => {
    put(begun, `${mentionOf(path)} `);
    const type = imageType(path);
    if (type && takesImages) void folder.value?.bytes(path).then((body) => take([new File([body], nameAndPlace(path).label, { type })]), conversation.failed);
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
      else if (!['idle', 'error'].includes(conversation.source.state.status)) void session.cancel().catch(conversation.failed); // as it is now, drawn or not
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });
  /** Put an earlier message into the field: `back` is 1 for the one before. Gives whether there is one. */
  const recall = (back: 1 | -1): boolean => {
    const said = conversation.messages.value.flatMap((message) => (message.role === 'user' && message.isWhole ? [message.text] : [])).reverse();
    const isOwn = recalled.current >= 0 && draft.value === said[recalled.current];
    if (draft.value !== '' && !isOwn) return false;
    const next = (isOwn ? recalled.current : -1) + back;
    if (next < -1 || next >= said.length) return false;
    recalled.current = next;
    draft.value = said[next] ?? '';
    return true;
  };
  const take = async (files: readonly File[]) => {
    problem.value = await attach(files, takesImages);
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
    void take(files);
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
      {since.length > 0 && (
        <label class="check editing">
          <input type="checkbox" checked={takesFiles.value} onChange={(event) => (takesFiles.value = event.currentTarget.checked)} />
          {t('composer.files', { paths: [...new Set(since.flatMap(changesBy).map((change) => visibleLine(change.path)))].join(', ') })}
        </label>
      )}
      {!isEditing && <UndoneView sessionId={session.sessionId} />}
      <AttachedView />
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
          {isLong ? t('composer.long', { n: n(length), max: n(most) }) : problem.value}
        </span>
        <span class="note" role="status">
          {waits ? t('composer.waits') : notice.value}
        </span>
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            const files = [...(event.currentTarget.files ?? [])];
            event.currentTarget.value = '';
            void take(files);
          }}
        />
        <button type="button" class="icon" aria-label={t('composer.attach')} title={t('composer.attach')} onClick={() => chooser.current!.click()}>
          <Icon name="plus" />
        </button>
        {isRunning && (
          <button type="button" class="round" aria-label={t('composer.stop')} title={t('composer.stop')} onClick={() => void session.cancel().catch(conversation.failed)}>
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

