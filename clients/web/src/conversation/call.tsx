import { useSignal, useSignalEffect } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { type ActingMode, type Answer, type CallPart, type CallState, ToolError } from '@codelab/client';
import { counted, n, t } from '../i18n/index.ts';
import { executes, live } from '../live.ts';
import { DiffView, StatedView } from '../review/diff.tsx';
import { review } from '../review/state.ts';
import { difference } from '../review/difference.ts';
import { statedChanges } from '../review/stated.ts';
import { Icon } from '../shell/icon.tsx';
import { showFile } from '../shell/panes.ts';
import { type Change, changesOf } from '../workspace/changes.ts';
import { Changed as FileChanged, viewOf } from '../workspace/expectations.ts';
import type { Folder } from '../workspace/folder.ts';
import { folder } from '../workspace/open.ts';
import { LOOK_MS, useTogether } from './approve_together.tsx';
import { focusNext, isCurrent, isInView, isWriting, mayTakeFocus } from './focus.ts';
import { Long } from './markdown.tsx';
import { Explanation, linesOf, ModeChoice, proposedPlan, Steps, StepsForm } from './proposed_plan.tsx';
import { visible, visibleJson, visibleLine } from './safe.ts';
import { isHere, takeBack } from './take_back.ts';

const SETTLED: ReadonlySet<CallState> = new Set(['completed', 'failed', 'rejected', 'expired', 'cancelled']);
const REVIEWED = ['write_file', 'edit_file', 'apply_patch'];

/** A tool call: what it does, what became of it and, while it waits for a human, the decision. */
export function CallCard({ part }: { part: CallPart }) {
  const { call, state, output, outcome, shown, decision, feedback, diff } = part;
  const changes = diff as readonly Change[] | undefined;
  const title = useId();
  const card = useRef<HTMLElement>(null);
  const asking = state === 'asking';
  const args = call.arguments ?? {};
  const subject = subjectOf(args);
  const result = outcome ? resultText(outcome) : shown;
  const plan = proposedPlan(call);
  return (
    <article class={`call ${state}`} aria-labelledby={title} ref={card} tabIndex={-1} onKeyDown={asking ? typesOn : undefined}>
      <header id={title}>
        <Icon name="tool" />
        {plan ? <b>{t('plan')}</b> : <code class="tool">{visible(call.tool_name)}</code>}
        {subject && (
          <bdi class="subject" title={subject}>
            {subject}
          </bdi>
        )}
        {!asking && changes && <Counts changes={changes} />}
        {!asking && decision === 'edit' && <span class="badge">{t('call.byyou')}</span>}
        <span class="state">{t(plan && state === 'completed' ? 'proposed.accepted' : `call.${state}`)}</span>
      </header>
      {call.reason && <p class="note">{t('call.rule')}: {visible(call.reason)}</p>}
      {!asking && decision === 'edit' && !plan && <p class="note">{t('call.edited')}</p>}
      {!asking && feedback && <p class="note">{t('call.feedback')}: {visible(feedback)}</p>}
      {asking && <Asked part={part} card={card} />}
      {!asking && changes && <Changed part={part} changes={changes} />}
      {SETTLED.has(state) && !changes && <StatedChanges tool={call.tool_name} args={args} isExecuted={state === 'completed' || state === 'failed'} />}
      {!asking && plan && (
        <details open={state !== 'completed'}>
          <summary>{counted('proposed.steps', plan.steps.length)}</summary>
          <Explanation text={plan.explanation} />
          <Steps steps={plan.steps} />
        </details>
      )}
      {!asking && !plan && (
        <details>
          <summary>{t('call.arguments')}</summary>
          <pre dir="ltr" tabIndex={0}>
            <Long text={visible(JSON.stringify(args, null, 2))} inline />
          </pre>
        </details>
      )}
      {output && (
        <pre class="output" dir="ltr" tabIndex={0} aria-label={t('call.output')}>
          {visible(output)}
        </pre>
      )}
      {result !== undefined && !plan && (
        <details>
          <summary>{t('call.result')}</summary>
          <pre dir="ltr" tabIndex={0}>
            <Long text={visible(result)} inline />
          </pre>
        </details>
      )}
    </article>
  );
}

/** Who begins to write, on a card that has taken the focus, writes a message. */
function typesOn(event: KeyboardEvent): void {
  const isLetter = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey && event.key !== ' ';
  if (isLetter && event.target === event.currentTarget) document.getElementById('message')?.focus();
}

/** How many lines are added and removed. */
function Counts({ changes }: { changes: readonly Change[] }) {
  const [added, removed] = useMemo(() => {
    const lines = changes.flatMap((change) => difference(change).lines);
    return [lines.filter((line) => line[0] === '+').length, lines.filter((line) => line[0] === '-').length] as const;
  }, [changes]);
  return (
    <span class="counts">
      <span class="hidden">{`${counted('call.added', added)}, ${counted('call.removed', removed)}`}</span>
      <span class="added" aria-hidden="true">+{n(added)}</span>
      <span class="removed" aria-hidden="true">−{n(removed)}</span>
    </span>
  );
}

/** What a call says that it changes, if the page does not know what the files had: it was opened since, or another client has executed it. */
function StatedChanges({ tool, args, isExecuted }: { tool: string; args: Record<string, unknown>; isExecuted: boolean }) {
  const stated = useMemo(() => statedChanges(tool, args), [tool, args]);
  if (!stated.length) return null;
  return (
    <details open>
      <summary>{t('call.changes')}</summary>
      {isExecuted && stated.some((one) => !one.deletes) && <p class="note">{t('call.unknown')}</p>}
      {stated.map((one, index) => (
        <StatedView key={index} stated={one} />
      ))}
    </details>
  );
}

/** What a call has changed, or would have. What this page has changed can be looked at and taken back. */
function Changed({ part, changes }: { part: CallPart; changes: readonly Change[] }) {
  const problem = useSignal('');
  const here = live.value;
  const made = here?.conversation.made.value.get(part.id);
  const undo = async () => {
    problem.value = '';
    try {
      await takeBack(here!, part);
    } catch (error) {
      problem.value = t('call.undo.changed', { why: visible(error instanceof FileChanged ? error.why : (error as Error).message) });
    }
  };
  return (
    <>
      <details open>
        <summary>{t('call.changes')}</summary>
        {changes.map((change) => (
          <DiffView key={change.path} change={change} />
        ))}
      </details>
      <p class="problem" role="alert">
        {problem.value}
      </p>
      {made && !made.folder && <p class="note">{t('call.undone')}</p>}
      {here && isHere(here, part) && (
        <div class="buttons">
          {changes.filter((change) => change.after !== null).map((change) => (
            <button key={change.path} type="button" class="quiet" onClick={() => showFile(change.path)}>
              {t('call.open', { path: visibleLine(change.path) })}
            </button>
          ))}
          <button type="button" class="quiet" onClick={undo}>
            {t('call.undo')}
          </button>
        </div>
      )}
    </>
  );
}

function Asked({ part, card }: { part: CallPart; card: RefObject<HTMLElement | null> }) {
  const { call, isDeciding: decided = false } = part;
  const args = call.arguments as Record<string, unknown> | undefined;
  const mode = useSignal<'ask' | 'edit' | 'reject' | 'always'>('ask');
  const feedback = useSignal('');
  const problem = useSignal('');
  const plan = proposedPlan(call);
  const edited = useSignal(plan ? linesOf(plan.steps) : visibleJson(args ?? {}));
  const chosenMode = useSignal<ActingMode | undefined>(undefined);
  const changes = useSignal<Change[] | string | undefined>(undefined);
  const looking = useRef<Promise<unknown>>(Promise.resolve());
  const seen = useSignal(false);
  const gone = useSignal(false);

  useEffect(() => {
    seen.value = false;
    const timer = setTimeout(() => (seen.value = true), LOOK_MS);
    return () => clearTimeout(timer);
  }, [JSON.stringify(args)]);

  useSignalEffect(() => {
    // If another client executes the call, the page's folder does not tell what it will change.
    const from = executes.value ? folder.value : undefined;
    if (!from || !args) return;
    const shown = shownChanges(from, call.call_id, call.tool_name, args);
    looking.current = shown.catch(() => {});
    shown.then(
      (found) => (changes.value = found),
      (error: unknown) => (changes.value = error instanceof ToolError ? error.message : String(error)),
    );
  });

  const answer = (given: Answer) => {
    gone.value = !live.value?.session.openCalls.get(call.call_id)?.requires_approval;
    if (gone.value || !seen.value) return;
    const from = live.value;
    if (!from) return;
    const { source } = from.conversation;
    if (Array.isArray(changes.value) && changes.value.length) source.dispatch({ type: 'diffed', callId: call.call_id, diff: changes.value });
    source.dispatch({ type: 'decided', callId: call.call_id, answer: given });
    // The call must not be released before it is known what was shown.
    void looking.current.then(() => source.answer(call.call_id, given));
  };
  const actingMode = chosenMode.value ?? live.value?.conversation.actingMode.value ?? 'code';
  const approve = () => answer({ decision: 'approve', ...(plan && { mode: actingMode }) });
  const isReviewed = REVIEWED.includes(call.tool_name) && Array.isArray(changes.value) && changes.value.length > 0;
  const openReview = () => {
    if (!Array.isArray(changes.value) || !seen.value) return;
    review.value = { tool: call.tool_name, args: args ?? {}, changes: changes.value, answer };
  };
  useEffect(() => {
    if (mayTakeFocus()) card.current!.focus();
  }, []);
  // Decided: the next question has the focus, or the message field.
  useLayoutEffect(() => {
    const own = card.current!;
    return () => own.contains(document.activeElement) && focusNext(own);
  }, []);
  // At once: what is typed next belongs there.
  useLayoutEffect(() => {
    if (mode.value !== 'ask') card.current!.querySelector<HTMLElement>('.asked form :is(input, textarea), .asked .buttons button')?.focus();
  }, [mode.value]);
  const { remember } = call;
  const mayBeTogether = isReviewed && remember != null && seen.value && !decided && mode.value === 'ask';
  const end = useTogether(call.call_id, mayBeTogether ? { card, changes: changes.value as Change[], approve } : undefined);
  const choose = (next: 'edit' | 'reject' | 'always') => {
    if (seen.value) mode.value = next;
  };
  const deeds: Record<string, (() => void) | undefined> = {
    KeyY: args && approve,
    KeyE: isReviewed ? openReview : args && (() => choose('edit')),
    KeyN: () => choose('reject'),
    KeyA: remember ? () => choose('always') : undefined,
  };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const deed = deeds[event.code];
      if (!event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !deed || isWriting() || !isCurrent(card.current!)) return;
      event.preventDefault();
      if (event.repeat || decided || mode.value !== 'ask') return;
      // Nobody decides about what is not on the screen.
      if (isInView(card.current!)) deed();
      else card.current!.scrollIntoView({ block: 'nearest' });
      card.current?.focus({ preventScroll: true });
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });
  const common = { type: 'button', disabled: decided, 'aria-disabled': !seen.value } as const;
  return (
    <div
      class="asked"
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || mode.value === 'ask') return;
        event.preventDefault(); // It takes back the choice, and does not stop the turn.
        mode.value = 'ask';
        card.current!.focus();
      }}
    >
      {gone.value && (
        <p class="problem" role="alert">
          {t('call.gone')}
        </p>
      )}
      {!args && <p class="note">{t('call.too_large', { n: n(call.payload_bytes ?? 0) })}</p>}
      {plan && <Explanation text={plan.explanation} />}
      {plan && mode.value !== 'edit' && <Steps steps={plan.steps} />}
      {args && plan && <Arguments args={args} but={['steps', 'explanation']} />}
      {args && !plan && mode.value !== 'edit' && <Preview tool={call.tool_name} args={args} changes={changes.value} />}
      {plan && (mode.value === 'ask' || mode.value === 'edit') && <ModeChoice mode={actingMode} onChoice={(choice) => (chosenMode.value = choice)} />}
      {plan && mode.value === 'edit' && (
        <StepsForm
          steps={plan.steps}
          text={edited}
          onAccept={(steps) => answer({ decision: 'edit', arguments: { ...args, steps }, mode: actingMode })}
          onCancel={() => (mode.value = 'ask')}
        />
      )}
      {!plan && mode.value === 'edit' && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            try {
              const given: unknown = JSON.parse(edited.value);
              if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new Error('{ … }');
              answer({ decision: 'edit', arguments: given as Record<string, unknown> });
            } catch (error) {
              problem.value = t('call.badjson', { why: (error as Error).message });
            }
          }}
        >
          <textarea
            class="json"
            aria-label={t('call.arguments')}
            dir="ltr"
            spellcheck={false}
            rows={Math.min(16, edited.value.split('\n').length + 1)}
            value={edited.value}
            onInput={(event) => (edited.value = event.currentTarget.value)}
          />
          <p class="problem" role="alert">
            {problem.value}
          </p>
          <div class="buttons">
            <button type="submit" class="primary">
              {t('call.approve')}
            </button>
            <button type="button" onClick={() => (mode.value = 'ask')}>
              {t('cancel')}
            </button>
          </div>
        </form>
      )}
      {mode.value === 'reject' && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            answer({ decision: 'reject', ...(feedback.value.trim() && { feedback: feedback.value.trim() }) });
          }}
        >
          <input
            type="text"
            maxLength={10_000}
            aria-label={t('call.reject.why')}
            placeholder={t('call.reject.why')}
            value={feedback.value}
            onInput={(event) => (feedback.value = event.currentTarget.value)}
          />
          <div class="buttons">
            <button type="submit" class="danger">
              {t('call.reject')}
            </button>
            <button type="button" onClick={() => (mode.value = 'ask')}>
              {t('cancel')}
            </button>
          </div>
        </form>
      )}
      {mode.value === 'always' && remember && (
        <div>
          <p>
            {t('call.always.rule', { rule: '' })}
            <code>
              {visible(call.tool_name)}: {visible(remember.rule)}
            </code>
          </p>
          <div class="buttons">
            {remember.scopes.map((scope) => (
              <button key={scope} type="button" onClick={() => answer({ decision: 'approve', remember: { scope } })}>
                {t(`call.always.${scope}`)}
              </button>
            ))}
            <button type="button" onClick={() => (mode.value = 'ask')}>
              {t('cancel')}
            </button>
          </div>
        </div>
      )}
      {mode.value === 'ask' && (
        <div class="buttons">
          <button {...common} class="primary" disabled={decided || !args} aria-keyshortcuts="Alt+Y" onClick={approve}>
            {t(plan ? 'proposed.accept' : 'call.approve')}
            <Keys letter="Y" />
          </button>
          {isReviewed ? (
            <button {...common} aria-keyshortcuts="Alt+E" onClick={openReview}>
              {t('call.review')}
              <Keys letter="E" />
            </button>
          ) : (
            <button {...common} disabled={decided || !args} aria-keyshortcuts="Alt+E" onClick={() => choose('edit')}>
              {t('call.edit')}
              <Keys letter="E" />
            </button>
          )}
          <button {...common} aria-keyshortcuts="Alt+N" onClick={() => choose('reject')}>
            {t('call.reject')}
            <Keys letter="N" />
          </button>
          {remember ? (
            <button {...common} aria-keyshortcuts="Alt+A" onClick={() => choose('always')}>
              {t('call.always')}
              <Keys letter="A" />
            </button>
          ) : (
            !plan && <small>{t('call.never')}</small>
          )}
        </div>
      )}
      <span ref={end} />
    </div>
  );
}

function Keys({ letter }: { letter: string }) {
  return <kbd aria-hidden="true">Alt+{letter}</kbd>;
}

function Preview({ tool, args, changes }: { tool: string; args: Record<string, unknown>; changes: Change[] | string | undefined }) {
  if (Array.isArray(changes) && changes.length) {
    return (
      <>
        {changes.map((change) => (
          <DiffView key={change.path} change={change} />
        ))}
        <Arguments args={args} but={['path', 'content', 'edits', 'diff']} />
      </>
    );
  }
  if (tool === 'run_command' || tool === 'run_persistent') {
    return (
      <>
      <pre class="command" dir="ltr" tabIndex={0}>
        {visible(String(args['command'] ?? ''))}
      </pre>
        <Arguments args={args} but={['command']} />
      </>
    );
  }
  return (
    <>
      {typeof changes === 'string' && <p class="problem">{t('call.nofile', { why: visible(changes) })}</p>}
      <Arguments args={args} but={[]} />
    </>
  );
}

/** All arguments of a call, but for those that are shown in another form. */
function Arguments({ args, but }: { args: Record<string, unknown>; but: readonly string[] }) {
  const shown = Object.entries(args).filter(([name]) => !but.includes(name));
  if (!shown.length) return null;
  return (
      <dl class="arguments">
        {shown.map(([name, value]) => (
          <div key={name}>
            <dt>{visible(name)}</dt>
            <dd>
              <pre dir="ltr" tabIndex={0}>
                <Long text={visible(typeof value === 'string' ? value : JSON.stringify(value, null, 2))} inline />
              </pre>
            </dd>
          </div>
        ))}
      </dl>
  );
}

/** What a call would change: the approval is about the files as they are now. */
async function shownChanges(from: Folder, callId: string, tool: string, args: Record<string, unknown>): Promise<Change[]> {
  const before = await viewOf(from, tool, args);
  try {
    return await changesOf(from, tool, args);
  } finally {
    live.peek()?.expectations.shown(callId, before, await viewOf(from, tool, args));
  }
}

function subjectOf(args: Record<string, unknown>): string {
  const found = args['path'] ?? args['command'] ?? args['query'] ?? args['from'] ?? '';
  const text = typeof found === 'string' ? visibleLine(found) : '';
  return typeof args['to'] === 'string' ? `${text} → ${visibleLine(args['to'])}` : text;
}

function resultText(outcome: NonNullable<CallPart['outcome']>): string {
  if (outcome.error) {
    return typeof outcome.error === 'string' ? outcome.error : `${outcome.error.code ?? ''} ${outcome.error.message ?? ''}`.trim();
  }
  const { result } = outcome;
  if (typeof result === 'object' && result !== null && 'content' in result && typeof result.content === 'string') return result.content;
  return JSON.stringify(result, null, 2) ?? '';
}
