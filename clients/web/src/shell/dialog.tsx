import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { t } from '../i18n/index.ts';
import { Icon } from './icon.tsx';

/** A modal dialog. Escape and the button close it. */
export function Dialog({ title, onClose, wide, children }: { title: string; onClose(): void; wide?: boolean; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = element.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog ref={element} class={wide ? 'wide' : ''} aria-label={title} onCancel={(event) => (event.preventDefault(), onClose())}>
      <div class="head">
        <h2>{title}</h2>
        <button type="button" class="icon" aria-label={t('close')} onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      {children}
    </dialog>
  );
}
