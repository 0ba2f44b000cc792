import { useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useId } from 'preact/hooks';
import { counted, t } from '../i18n/index.ts';
import { type Beginning, beginning } from './suggestions.ts';

/** What can stand in place of what is being written. */
export interface Option {
  label: string;
  detail: string;
  pick(): void;
}

/**
 * The menu above a text field, for what is being written before its caret. The focus stays in the field: arrows move
 * the choice, Enter and Tab take it, Escape closes the menu.
 */
export function useMenu(area: RefObject<HTMLTextAreaElement | null>, optionsOf: (begun: Beginning) => readonly Option[]) {
  const id = useId();
  const begun = useSignal<Beginning | undefined>(undefined);
  const chosen = useSignal(0);
  const isClosed = useSignal(true);
  const options = begun.value && !isClosed.value ? optionsOf(begun.value) : [];
  const isOpen = options.length > 0;
  const index = Math.min(chosen.value, options.length - 1);

  /** The text or the caret has changed. Only what is typed opens the menu. */
  const look = (isTyped = false) => {
    const { value, selectionStart, selectionEnd } = area.current!;
    const next = selectionStart === selectionEnd ? beginning(value.slice(0, selectionStart)) : undefined;
    const before = begun.peek();
    if (next?.kind !== before?.kind || next?.start !== before?.start) isClosed.value = !isTyped;
    if (next?.text !== before?.text) chosen.value = 0;
    begun.value = next;
  };
  const close = () => {
    isClosed.value = true;
  };
  /** Whether the menu has taken the key. */
  const press = (event: KeyboardEvent): boolean => {
    if (!isOpen || event.isComposing || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === 'ArrowDown') chosen.value = (index + 1) % options.length;
    else if (event.key === 'ArrowUp') chosen.value = (index || options.length) - 1;
    else if (event.key === 'Enter' || event.key === 'Tab') options[index]!.pick();
    else if (event.key === 'Escape') close();
    else return false;
    event.preventDefault();
    return true;
  };
  const place = (at: number) => `${id}-${at}`;
  useEffect(() => {
    if (isOpen) document.getElementById(place(index))?.scrollIntoView({ block: 'nearest' });
  }, [isOpen, index]);
  const field = {
    'aria-autocomplete': 'list',
    'aria-haspopup': 'listbox',
    ...(isOpen && { 'aria-controls': id, 'aria-activedescendant': place(index) }),
  } as const;
  const list = (
    <>
      <span class="hidden" role="status">
        {isOpen ? counted('menu.options', options.length) : ''}
      </span>
      {isOpen && (
        <ul class="menu" id={id} role="listbox" aria-label={t(`menu.${begun.value!.kind}`)}>
          {options.map((option, at) => (
            <li
              key={`${option.label} ${option.detail}`}
              id={place(at)}
              role="option"
              aria-selected={at === index}
              onPointerDown={(event) => event.preventDefault() /* the field keeps the focus */}
              onClick={() => option.pick()}
            >
              <bdi>{option.label}</bdi>
              {option.detail && <small dir="auto">{option.detail}</small>}
            </li>
          ))}
        </ul>
      )}
    </>
  );
  return { list, field, look, press, close, begun: isClosed.value ? undefined : begun.value };
}
