import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { visibleLine } from '../conversation/safe.ts';
import { reasonOf, t } from '../i18n/index.ts';
import { Dialog } from '../shell/dialog.tsx';
import { Problem } from '../shell/problem.tsx';
import { folder, version } from '../workspace/open.ts';
import { keptNotes, notesVersion } from './kept.ts';
import { MOST_CHARS, type Note, type Scope } from './notes.ts';

/** What agents are to keep in mind: listed, written, changed, exported, taken away. */
export function NotesDialog({ onClose }: { onClose(): void }) {
  const notes = useSignal<readonly Note[] | undefined>(undefined);
  const changing = useSignal<Note | undefined>(undefined);
  const scope = useSignal<Scope>('user');
  const text = useSignal('');
  const problem = useSignal('');
  const look = async () => {
    const complaints: string[] = [];
    notes.value = await keptNotes().listed((error) => complaints.push(reasonOf(error)));
    if (complaints.length) problem.value = complaints.join('. ');
  };
  useEffect(() => void look(), [notesVersion.value, version.value, folder.value]);
  const act = async (work: Promise<void>) => {
    problem.value = '';
    const isDone = await work.then(
      () => true,
      (error: unknown) => ((problem.value = reasonOf(error)), false),
    );
    await look();
    return isDone;
  };
  const place = (of: Scope) => t(of === 'user' ? 'notes.user' : 'notes.project');
  return (
    <Dialog title={t('notes')} onClose={onClose}>
      <p class="note">{t('notes.text')}</p>
      {notes.value?.length === 0 && <p class="note">{t('notes.none')}</p>}
      <ul class="notes">
        {(notes.value ?? []).map((note) => (
          <li key={`${note.scope} ${note.line} ${note.text}`}>
            {changing.value === note ? (
              <Changing note={note} onEnd={() => (changing.value = undefined)} onText={(next) => act(keptNotes().change(note, next))} />
            ) : (
              <>
                <span dir="auto">{visibleLine(note.text)}</span> <small>{place(note.scope)}</small>
                <span class="buttons">
                  <button type="button" aria-label={t('notes.change.of', { note: visibleLine(note.text) })} onClick={() => (changing.value = note)}>
                    {t('notes.change')}
                  </button>
                  <button type="button" aria-label={t('notes.remove.of', { note: visibleLine(note.text) })} onClick={() => void act(keptNotes().change(note))}>
                    {t('notes.remove')}
                  </button>
                </span>
              </>
            )}
          </li>
        ))}
      </ul>
      <form
        class="fields"
        onSubmit={async (event) => {
          event.preventDefault();
          if (await act(keptNotes().add(folder.value ? scope.value : 'user', text.value))) text.value = '';
        }}
      >
        <label>
          {t('notes.new')}
          <input type="text" dir="auto" maxLength={2 * MOST_CHARS} required value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
        </label>
        <label>
          {t('notes.where')}
          <select value={scope.value} onChange={(event) => (scope.value = event.currentTarget.value as Scope)}>
            <option value="user">{place('user')}</option>
            {folder.value && <option value="project">{place('project')}</option>}
          </select>
        </label>
        <div class="buttons">
          <button type="submit" class="primary">
            {t('notes.keep')}
          </button>
          <button type="button" disabled={!notes.value?.some((note) => note.scope === 'user')} onClick={() => void act(exported())}>
            {t('notes.export')}
          </button>
        </div>
      </form>
      <Problem text={problem.value} />
    </Dialog>
  );
}

function Changing({ note, onEnd, onText }: { note: Note; onEnd(): void; onText(text: string): Promise<boolean> }) {
  const text = useSignal(note.text);
  return (
    <form
      class="rename"
      onSubmit={async (event) => {
        event.preventDefault();
        if (await onText(text.value)) onEnd();
      }}
    >
      <label>
        {t('notes.change')}
        <input type="text" dir="auto" maxLength={2 * MOST_CHARS} required value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
      </label>
      <button type="submit">{t('save')}</button>
      <button type="button" onClick={onEnd}>
        {t('cancel')}
      </button>
    </form>
  );
}

/** Save the user's notes as the file that the terminal reads. */
async function exported(): Promise<void> {
  const content = await keptNotes().places.user!.read();
  const url = URL.createObjectURL(new Blob([content], { type: 'text/markdown' }));
  Object.assign(document.createElement('a'), { href: url, download: 'notes.md' }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
