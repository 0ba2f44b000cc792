/* Where the focus is, and goes, while calls wait for a decision. */

/** Whether a card that appears may have the focus: not while somebody writes, or does anything else that has it. */
export function mayTakeFocus(): boolean {
  const has = document.activeElement;
  if (document.querySelector('dialog[open]')) return false;
  if (has?.id === 'message') return (has as HTMLTextAreaElement).value === '';
  return !has || has === document.body;
}

/** Give the focus of a card that no longer asks to the next one, or to the message field: a touch would open the keyboard there. */
export function focusNext(from?: HTMLElement): void {
  const next = [...document.querySelectorAll<HTMLElement>('.call.asking')].find((one) => one !== from);
  if (next) next.focus();
  else if (!matchMedia('(hover: none)').matches) document.getElementById('message')?.focus();
}

/** Whether somebody writes: on some keyboards, Alt makes letters. */
export function isWriting(): boolean {
  const has = document.activeElement;
  if (has instanceof HTMLTextAreaElement && has.id === 'message') return has.value !== '';
  return has !== null && (has.matches('input, textarea, select') || has.shadowRoot !== null);
}

/** Whether keys decide about this card: the one that has the focus, else the first that waits. */
export function isCurrent(card: HTMLElement): boolean {
  if (document.querySelector('dialog[open]')) return false;
  const cards = [...document.querySelectorAll('.call.asking')];
  return (cards.find((one) => one.contains(document.activeElement)) ?? cards[0]) === card;
}

/** Whether a card's question and its buttons can be seen, or as much of them as there is room for. */
export function isInView(card: HTMLElement): boolean {
  const { top, bottom } = card.closest('.scroller')!.getBoundingClientRect();
  const own = card.getBoundingClientRect();
  return own.bottom > top && own.bottom <= bottom + 1;
}
