import { signal, useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { counted } from '../i18n/index.ts';
import type { Change } from '../workspace/changes.ts';
import { focusNext } from './focus.ts';
import { visibleLine } from './safe.ts';

/** A click decides only if the user has had time to see the question (milliseconds): cards move while text arrives. */
export const LOOK_MS = 500;

/** A call that waits, of which the page shows all that it changes. */
interface Waiting {
  card: RefObject<HTMLElement | null>;
  changes: readonly Change[];
  approve(): void;
}

/** Those that may be approved together, by their id, in the order in which they came; and whether the end of each card was on the screen. */
const waiting = signal<ReadonlyMap<string, Waiting & { isSeen: boolean }>>(new Map());

/** Offer a call to be approved with others, as long as it is `offered`. Gives the reference of the card's end. */
export function useTogether(callId: string, offered: Waiting | undefined): RefObject<HTMLSpanElement | null> {
  const end = useRef<HTMLSpanElement>(null);
  const newest = useRef(offered);
  newest.current = offered;
  const changes = offered?.changes;
  useEffect(() => {
    if (!changes) return;
    const put = (isSeen: boolean) => {
      // A card may be seen in the moment in which it is no longer offered.
      if (!newest.current) return;
      const { card } = newest.current;
      waiting.value = new Map(waiting.peek()).set(callId, { card, changes, isSeen, approve: () => newest.current?.approve() });
    };
    put(false);
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      watch.disconnect();
      put(true);
    });
    watch.observe(end.current!);
    return () => {
      watch.disconnect();
      waiting.value = new Map([...waiting.peek()].filter(([id]) => id !== callId));
    };
  }, [callId, changes]);
  return end;
}

/** Where several changes of files wait: leads through those that were not on the screen, then approves all of them. */
export function ApproveTogether() {
  return waiting.value.size > 1 ? <Bar /> : null;
}

function Bar() {
  const calls = waiting.value;
  const bar = useRef<HTMLDivElement>(null);
  const mayApprove = useSignal(false);
  const unseen = [...calls.values()].filter((call) => !call.isSeen);
  useEffect(() => {
    mayApprove.value = false;
    const timer = setTimeout(() => (mayApprove.value = true), LOOK_MS);
    return () => clearTimeout(timer);
  }, [calls]);
  useLayoutEffect(() => {
    const own = bar.current!;
    return () => own.contains(document.activeElement) && focusNext();
  }, []);
  const act = () => {
    if (unseen.length) unseen[0]!.card.current!.scrollIntoView({ block: 'end' });
    else if (mayApprove.value) for (const { approve } of calls.values()) approve();
  };
  return (
    <div class="together" ref={bar}>
      <p>{[...calls.values()].flatMap(({ changes }) => changes.map((change) => visibleLine(change.path))).join(', ')}</p>
      <button type="button" aria-disabled={!unseen.length && !mayApprove.value} onClick={act}>
        {unseen.length ? counted('together.look', unseen.length) : counted('together.approve', calls.size)}
      </button>
    </div>
  );
}
