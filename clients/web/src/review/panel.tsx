import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { visible, visibleLine } from '../conversation/safe.ts';
import { counted, n, t } from '../i18n/index.ts';
import { Dialog } from '../shell/dialog.tsx';
import type { Question } from '../workspace/dialogue.ts';
import type { MergeEditor } from '../workspace/editor.ts';
import { reviewedArguments } from './arguments.ts';
import { DiffView, Notes } from './diff.tsx';
import { difference, spelledOut } from './difference.ts';
import { type Review, review } from './state.ts';

/** The changes of a call in the merge view: each hunk is accepted or rejected, and the text can be edited. */
export function ReviewPanel({ given }: { given: Review }) {
  const after = useRef(new Map<string, string | null>());
  /** The lines of the hunks about which nothing is decided, by path; empty until the editor is loaded. */
  const undecided = useSignal<ReadonlyMap<string, readonly number[]>>(new Map());
  /** How many hunks there were. */
  const total = useSignal(0);
  const isNamed = useSignal(false);
  const editors = useRef<MergeEditor[]>([]);
  const place = useRef<HTMLDivElement>(null);

  useEffect(() => {
    let gone = false;
    void import('../workspace/editor.ts').then(({ mergeEditor }) => {
      if (gone) return;
      const first = new Set<string>();
      editors.current = given.changes.filter((change) => change.after !== null).map((change) => {
        const host = place.current!.querySelector<HTMLElement>(`[data-path="${CSS.escape(change.path)}"]`)!;
        return mergeEditor(host, change, t('review.title', { path: change.path }), (text, lines) => {
          after.current.set(change.path, text);
          if (!first.has(change.path)) total.value += lines.length;
          first.add(change.path);
          undecided.value = new Map([...undecided.value, [change.path, lines]]);
          isNamed.value = false;
        });
      });
    });
    return () => {
      gone = true;
      for (const editor of editors.current) editor.end();
    };
  }, [given]);

  const close = () => (review.value = undefined);
  const open = [...undecided.value].filter(([, lines]) => lines.length);
  const places = open.map(([path, lines]) => t('review.undecided.place', { path: visibleLine(path), lines: lines.join(', ') })).join('; ');
  const left = open.reduce((sum, [, lines]) => sum + lines.length, 0);
  const apply = () => {
    if (left && !isNamed.value) {
      isNamed.value = true;
      return;
    }
    const args = reviewedArguments(given.tool, given.args, given.changes, after.current);
    if (args === null) given.answer({ decision: 'reject', feedback: 'The user rejected every change' });
    else if (args === undefined) given.answer({ decision: 'approve' });
    else given.answer({ decision: 'edit', arguments: args });
    close();
  };
  return (
    <Dialog wide title={t('review.title', { path: given.changes.map((change) => visibleLine(change.path)).join(', ') })} onClose={close}>
      <p class="note">{t('review.help')}</p>
      <div class="merge" ref={place}>
        {given.changes.map((change) => (
          <section key={change.path}>
            {given.changes.length > 1 && <h3>{visibleLine(change.path)}</h3>}
            <Notes notes={change.after === null ? [] : difference(change).notes} />
            {change.after === null ? <p>{t('call.deletes', { path: visibleLine(change.path) })}</p> : <div class="host" data-path={change.path} />}
          </section>
        ))}
      </div>
      <p class="note" role="status">
        {total.value > 0 && counted('review.decided', Math.max(total.value, left), { m: n(Math.max(0, total.value - left)) })}
      </p>
      <p class="problem" role="alert">
        {isNamed.value && left ? t('review.undecided', { places }) : ''}
      </p>
      <div class="buttons">
        <button type="button" class="primary" onClick={apply}>
          {t(isNamed.value && left ? 'review.applyall' : 'review.apply')}
        </button>
        <button
          type="button"
          disabled={!left}
          onClick={() => {
            for (const editor of editors.current) editor.acceptAll();
          }}
        >
          {t('review.acceptall')}
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            given.answer({ decision: 'reject' });
            close();
          }}
        >
          {t('review.rejectall')}
        </button>
      </div>
    </Dialog>
  );
}

/** What a tool asks: one of several actions, or the chunks of a diff. */
export function QuestionPanel({ question }: { question: Question }) {
  const selected = useSignal<ReadonlySet<number>>(
    new Set(question.kind === 'review' ? question.files.flatMap((file) => file.hunks).map((_, index) => index + 1) : []),
  );
  let number = 0;
  return (
    <Dialog wide={question.kind !== 'choose'} title={t(question.kind === 'review' ? 'review.choose' : 'prompt.title')} onClose={() => question.answer(undefined as never)}>
      <p dir="auto">{visible(question.message)}</p>
      {question.kind === 'confirm' && question.changes.map((change) => <DiffView key={change.path} change={change} />)}
      {question.kind === 'confirm' ? (
        <div class="buttons">
          <button type="button" class="primary" onClick={() => question.answer(true)}>
            {t('call.approve')}
          </button>
          <button type="button" class="danger" onClick={() => question.answer(false)}>
            {t('call.reject')}
          </button>
        </div>
      ) : question.kind === 'choose' ? (
        <div class="buttons">
          {question.actions.map((action) => (
            <button key={action} type="button" onClick={() => question.answer(action)}>
              {visible(action)}
            </button>
          ))}
        </div>
      ) : (
        <>
          <div class="chunks">
            {question.files.map((file) => (
              <section key={file.to ?? file.from}>
                <h3>
                  <bdi>{visible(file.to ?? file.from ?? '')}</bdi>
                </h3>
                {file.hunks.map((hunk) => {
                  const own = ++number;
                  return (
                    <label key={own} class="chunk">
                      <input
                        type="checkbox"
                        checked={selected.value.has(own)}
                        onChange={(event) => {
                          const next = new Set(selected.value);
                          if (event.currentTarget.checked) next.add(own);
                          else next.delete(own);
                          selected.value = next;
                        }}
                      />
                      <pre dir="ltr">{spelledOut(hunk.raw).lines.join('\n')}</pre>
                    </label>
                  );
                })}
              </section>
            ))}
          </div>
          <div class="buttons">
            <button type="button" class="primary" onClick={() => question.answer(selected.value)}>
              {t('call.approve.reviewed')}
            </button>
            <button type="button" class="danger" onClick={() => question.answer(undefined)}>
              {t('review.rejectall')}
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
