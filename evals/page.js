'use strict';
const { runs, told } = JSON.parse(document.getElementById('data').textContent);
const wordOf = (run) => (run.error ? 'failed' : run.solved ? 'solved' : 'lost');
const idOf = (run) => [run.label, run.task, run.attempt].map(encodeURIComponent).join('/');

function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}

function choice(name, title, values) {
  const list = make('select', { name, 'aria-label': title }, make('option', { value: '' }, title));
  for (const value of [...new Set(values)].sort()) list.append(make('option', { value }, value));
  return list;
}

const filters = make(
  'form',
  {},
  choice('label', 'all agents', runs.map((run) => run.label)),
  choice('kind', 'all kinds', runs.map((run) => run.kind)),
  choice('word', 'all results', runs.map(wordOf)),
  make('input', { name: 'text', type: 'search', placeholder: 'search', 'aria-label': 'search' }),
);
const count = make('p', { class: 'quiet', role: 'status' });
const list = make('ul', { 'aria-label': 'attempts' });
const reading = make('article', { 'aria-live': 'polite' });

function part(title, text, kind = '') {
  const body = make('pre', { tabindex: '0' });
  body.append(text);
  return make('section', { class: kind }, make('h3', {}, title), body);
}

function difference(text) {
  const all = text.replace(/\n$/, '').split('\n');
  // A removed line that begins with -- looks like the name of a file, which only stands before +++.
  const named = (n) => all[n]?.startsWith('--- ') && all[n + 1]?.startsWith('+++ ');
  const lines = all.map((line, n) => {
    const kind = named(n) || named(n - 1) || line.startsWith('@@') ? 'place' : line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : '';
    return make('span', { class: kind }, line + '\n');
  });
  const found = part('difference', '');
  found.lastChild.append(...lines);
  return found;
}

function shown(event) {
  switch (event.kind) {
    case 'call':
      return part(['call of ' + event.tool, event.risk, event.decision].filter(Boolean).join(' · '), JSON.stringify(event.arguments, null, 2), 'call');
    case 'result':
      return part(event.ok ? 'result' : 'error', String(event.text), event.ok ? '' : 'wrong');
    case 'end':
      return part('the turn ended', [event.reason, event.message].filter(Boolean).join('\n'));
    default:
      return part(String(event.kind), String(event.text));
  }
}

const textOf = (event) => event.text ?? event.message ?? `${event.tool} ${JSON.stringify(event.arguments, null, 2)}`;
const textsOf = (run) =>
  [run.label, run.task, run.end, run.error, run.answer, run.diff, run.grader, ...run.events.map(textOf)].join('\n');

function read(run) {
  const about = `${wordOf(run)} · ended: ${run.end} · ${run.seconds} s · ${run.requests} requests · ${run.prompt_tokens} + ${run.completion_tokens} tokens`;
  reading.replaceChildren(
    make('h2', {}, `${run.task}, ${run.label}, attempt ${run.attempt + 1}`),
    make('p', { class: wordOf(run) }, about),
    ...(run.error ? [part('error of the harness', run.error, 'wrong')] : []),
    ...run.events.map(shown),
    ...(run.answer && !run.events.some((event) => event.text === run.answer) ? [part('the answer', run.answer)] : []),
    ...(run.diff ? [difference(run.diff)] : [make('p', { class: 'quiet' }, 'It changed no file.')]),
    ...(run.restored.length ? [part('not taken over by the grader', run.restored.join('\n'))] : []),
    part('the grader', run.grader || '(nothing)'),
    ...(run.notes.length ? [part('the environment', run.notes.join('\n'))] : []),
  );
}

let chosen = [];
let current;

function choose() {
  const wanted = Object.fromEntries(new FormData(filters));
  const text = wanted.text.toLowerCase();
  chosen = runs.filter(
    (run) =>
      (!wanted.label || run.label === wanted.label) &&
      (!wanted.kind || run.kind === wanted.kind) &&
      (!wanted.word || wordOf(run) === wanted.word) &&
      (!text || textsOf(run).toLowerCase().includes(text)),
  );
  count.textContent = `${chosen.length} of ${runs.length} attempts`;
  list.replaceChildren(
    ...chosen.map((run) =>
      make('li', {}, make('a', { href: '#' + idOf(run) }, make('span', { class: `word ${wordOf(run)}` }, wordOf(run)), `${run.task} · ${run.label} · ${run.attempt + 1}`)),
    ),
  );
  follow();
}

function follow() {
  const wanted = location.hash.slice(1);
  const run = chosen.find((each) => idOf(each) === wanted) ?? chosen[0];
  current = run;
  for (const link of list.querySelectorAll('a')) {
    const is = run !== undefined && link.getAttribute('href') === '#' + idOf(run);
    if (is) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
    if (is) link.scrollIntoView({ block: 'nearest' });
  }
  if (run) read(run);
  else reading.replaceChildren();
}

function step(by) {
  const next = chosen[Math.min(chosen.length - 1, Math.max(0, chosen.indexOf(current) + by))];
  if (next) location.hash = idOf(next);
}

addEventListener('hashchange', follow);
addEventListener('keydown', (event) => {
  if (event.target.closest('input, select') || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'j') step(1);
  if (event.key === 'k') step(-1);
});
// Elsewhere the arrows scroll.
list.addEventListener('keydown', (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  step(by);
  list.children[Math.max(0, chosen.findIndex((run) => '#' + idOf(run) === location.hash))].firstChild.focus();
});
filters.addEventListener('input', choose);
filters.addEventListener('submit', (event) => event.preventDefault());
const [first, ...more] = told.split('\n\n');
const table = (text) => make('pre', { tabindex: '0' }, text);
const rest = make('details', {}, make('summary', {}, 'by kind, calls and comparisons'), table(more.join('\n\n')));
document.body.prepend(
  make('header', {}, make('h1', {}, 'Evaluation'), table(first), rest, make('p', { class: 'quiet' }, 'j and k go from attempt to attempt, and so do the arrows in the list.')),
  make('main', {}, make('nav', {}, filters, count, list), reading),
);
choose();
