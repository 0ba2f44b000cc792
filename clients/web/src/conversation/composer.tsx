import { signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { n, t } from '../i18n/index.ts';
import { type Live, link, send } from '../live.ts';
import { Icon } from '../shell/icon.tsx';
import type { Image } from './entries.ts';

export const draft = signal('');

const IMAGE_BYTES = 5_000_000;

export function Composer({ live }: { live: Live }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const images = useSignal<readonly Image[]>([]);
  const problem = useSignal('');
  /** The session to which the draft is sent as soon as it is connected; empty: none. */
  const sendsTo = useSignal('');
  const { conversation, session } = live;
  const limits = (conversation.info.value?.limits ?? {}) as Record<string, unknown>;
  const most = typeof limits['user_message_chars'] === 'number' ? limits['user_message_chars'] : 10_000;
  const info = conversation.info.value;
  const takesImages = info?.models.find((model) => model.name === info.model)?.images === true;
  const isLong = [...draft.value].length > most;
  const isRunning = conversation.status.value !== 'idle' && conversation.status.value !== 'error';
  const online = link.value.state === 'online';
  const isComplete = !isLong && (draft.value.trim() !== '' || images.value.length > 0);
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
    send(draft.value, images.value);
    draft.value = '';
    images.value = [];
    problem.value = '';
    area.current!.focus();
  };
  useEffect(() => {
    if (!online) return;
    if (sendsTo.value === session.sessionId) submit();
    sendsTo.value = '';
  }, [online, session]);
  const paste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.match(/^image\/(png|jpeg|gif|webp)$/));
    if (!files.length) return;
    event.preventDefault();
    if (!takesImages) {
      problem.value = t('composer.noimages');
      return;
    }
    for (const file of files.filter((one) => one.size <= IMAGE_BYTES)) {
      const reader = new FileReader();
      reader.onload = () => (images.value = [...images.value, { name: file.name, url: String(reader.result) }]);
      reader.readAsDataURL(file);
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {images.value.length > 0 && (
        <div class="images">
          {images.value.map((image, index) => (
            <figure key={index}>
              <img src={image.url} alt={t('composer.image', { n: index + 1 })} />
              <button
                type="button"
                class="icon"
                aria-label={t('composer.remove')}
                onClick={() => (images.value = images.value.filter((one) => one !== image))}
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
        placeholder={t('composer.hint')}
        aria-invalid={isLong}
        onInput={(event) => {
          draft.value = event.currentTarget.value;
          sendsTo.value = '';
        }}
        onPaste={paste}
        onKeyDown={(event) => {
          // With an input method, Enter only ends the composition.
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit();
          }
        }}
      />
      <div class="actions">
        <span class="problem" role="status">
          {isLong ? t('composer.long', { n: n([...draft.value].length), max: n(most) }) : waits ? t('composer.waits') : problem.value}
        </span>
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
