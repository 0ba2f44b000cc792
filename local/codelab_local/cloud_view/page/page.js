// Everything that is shown may be hostile, such as a model's answer in a log line: it only ever becomes text.

const EVERY_MS = 1000;
/** How long a fault waits for the press that confirms it. */
const SURE_MS = 5000;
const by = (id) => document.getElementById(id);
const status = by('status');

function say(text, isBad = false) {
  if (status.textContent !== text) status.textContent = text;
  status.className = isBad ? 'bad' : '';
}

async function ask(path, body) {
  const options = body && { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  const answer = await fetch(path, options);
  const text = await answer.text();
  const value = text ? JSON.parse(text) : {};
  if (!answer.ok) throw Object.assign(new Error(value.message), { isRefusal: true });
  return value;
}

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function button(text, label, action) {
  const pressed = async () => {
    try {
      await action();
      await look();
    } catch (error) {
      say(error.message, true);
    }
  };
  return make('button', { type: 'button', textContent: text, ariaLabel: label, onclick: pressed });
}

/** A button for what disturbs the system. The first press asks, a second one does it and tells `done()`. */
function fault(text, label, done, action) {
  let timer;
  const ask = (isSure) => {
    clearTimeout(timer);
    if (isSure) timer = setTimeout(() => ask(false), SURE_MS);
    Object.assign(made, { textContent: isSure ? `${text}?` : text, ariaLabel: isSure ? `${label}: press again` : label, className: isSure ? 'fault sure' : 'fault' });
  };
  const made = button(text, label, async () => {
    if (!made.classList.contains('sure')) {
      ask(true);
      return;
    }
    ask(false);
    await action();
    by('done').textContent = done();
  });
  made.onblur = () => ask(false);
  ask(false);
  return made;
}

/** Rows that stay the same elements while their content changes, so that none loses the focus. */
class Rows {
  #rows = new Map();
  #body;
  #begin;

  /** begin() makes the cells of a new row, and returns them with what fills them. */
  constructor(id, begin) {
    this.#body = by(id).tBodies[0];
    this.#begin = begin;
  }

  show(values, keyOf) {
    const shown = new Map();
    for (const value of values) {
      const key = keyOf(value);
      const row = this.#rows.get(key) ?? this.#made(value);
      row.fill(value);
      shown.set(key, row);
    }
    for (const [key, row] of this.#rows) if (!shown.has(key)) row.element.remove();
    this.#rows = shown;
    let next = this.#body.firstChild;
    for (const { element } of shown.values()) {
      if (element === next) next = next.nextSibling;
      else this.#body.insertBefore(element, next);
    }
  }

  #made(value) {
    const { cells, fill } = this.#begin(value);
    return { element: make('tr', {}, ...cells), fill };
  }
}

function cell(className = '') {
  return make('td', { className });
}

function put(element, text, className = element.className) {
  if (element.textContent !== text) element.textContent = text;
  if (element.className !== className) element.className = className;
}

function clock(at) {
  return `${new Date(at).toLocaleTimeString('en-GB')}.${String(at % 1000).padStart(3, '0')}`;
}

function ms(value) {
  return value === null ? '' : `${value.toLocaleString('en')} ms`;
}

const connections = new Rows('connections', (one) => {
  const session = Object.values(one.about).join(' ');
  const choose = make('button', { type: 'button', textContent: session || '…', ariaLabel: `Show ${session}`, onclick: () => choosing(session) });
  const drop = fault('Drop', `Drop the connection ${one.id}`, () => `Dropped ${one.id}.`, () => ask('drop', { connection: one.id }));
  const cells = [make('td', {}, choose), cell(), cell(), cell('text'), make('td', {}, drop)];
  return { cells, fill: (now) => [now.id, clock(now.connected_at), now.user_agent].forEach((text, n) => put(cells[n + 1], text)) };
});

const functions = new Rows('functions', ({ name }) => {
  const input = make('input', { type: 'number', min: 0, max: 600000, value: '1000', ariaLabel: `Milliseconds for ${name}` });
  const faults = make(
    'td',
    {},
    input,
    ' ms ',
    fault('Delay', `Delay ${name}`, () => `${name} begins ${ms(Number(input.value))} later.`, () => ask('delay', { function: name, ms: Number(input.value) })),
    fault('Kill next', `Kill the next ${name}`, () => `The next ${name} is killed.`, () => ask('kill', { function: name, after_ms: Number(input.value) })),
    fault('Kill now', `Kill ${name} now`, () => `Killed what ran of ${name}.`, () => ask('kill', { function: name })),
    button('Clear', `Clear the faults of ${name}`, async () => {
      await ask('delay', { function: name, ms: 0 });
      await ask('kill', { function: name, after_ms: null });
      by('done').textContent = `${name} has no faults.`;
    }),
  );
  const cells = [cell(), cell('number'), cell('number'), cell(), faults];
  const fill = (now) => {
    const armed = [now.delay_ms && `delayed ${ms(now.delay_ms)}`, now.kill_after_ms !== null && `next killed after ${ms(now.kill_after_ms)}`];
    [now.name, `${now.workers}`, `${now.open}`, armed.filter(Boolean).join(', ')].forEach((text, n) => put(cells[n], text));
  };
  return { cells, fill };
});

const invocations = new Rows('invocations', () => {
  const cells = [cell(), cell(), cell('text'), cell(), cell('number'), cell('number'), cell('text')];
  const fill = (now) => {
    const start = now.cold === null ? '' : now.cold ? 'cold' : 'warm';
    [clock(now.at), now.function, now.text].forEach((text, n) => put(cells[n], text));
    put(cells[3], start, start);
    put(cells[4], ms(now.waited_ms));
    put(cells[5], ms(now.duration_ms));
    put(cells[6], now.error ?? now.state, `text ${now.state}`);
    cells[1].title = now.request_id;
  };
  return { cells, fill };
});

const spans = new Rows('spans', () => {
  const bar = make('div', { className: 'bar' });
  const cells = [cell(), cell('text'), cell('number'), make('td', { className: 'wide' }, bar), cell('failed')];
  const fill = (now) => {
    const part = (value) => `${now.of_ms ? (100 * value) / now.of_ms : 0}%`;
    [clock(now.at), now.name, ms(now.duration_ms)].forEach((text, n) => put(cells[n], text));
    put(cells[4], now.error);
    cells[0].title = now.trace;
    cells[1].style.paddingInlineStart = `${0.75 + Math.min(now.depth, 12) * 1.2}rem`;
    bar.style.marginInlineStart = part(now.start_ms);
    bar.style.width = part(now.duration_ms);
    bar.classList.toggle('bad', now.error !== '');
  };
  return { cells, fill };
});

const lines = new Rows('lines', (one) => {
  const cells = [cell(), cell(), cell('text')];
  [clock(one.at), one.function, one.text].forEach((text, n) => put(cells[n], text));
  return { cells, fill: () => {} };
});

function match() {
  return `?match=${encodeURIComponent(by('match').value.trim())}`;
}

function choosing(text) {
  by('match').value = text;
  void look();
  void load();
}

async function look() {
  try {
    const state = await ask(`state${match()}`);
    connections.show(state.connections, (one) => one.id);
    functions.show(state.functions, (one) => one.name);
    const shown = state.invocations.filter((one) => by('scheduled').checked || one.kind !== 'schedule');
    invocations.show(shown, (one) => one.n);
    spans.show(state.spans, (one) => `${one.trace} ${one.span}`);
    lines.show(state.lines, (one) => one.n);
    say('Live');
  } catch (error) {
    say(error.isRefusal ? error.message : 'The local cloud does not answer', true);
  }
}

async function load() {
  try {
    const { items, complete } = await ask(`items${match()}`);
    by('items').replaceChildren(
      ...items.map(({ table, partition, sort, item }) =>
        make(
          'details',
          {},
          make('summary', { textContent: `${partition} · ${sort}`, title: table }),
          make('pre', { textContent: JSON.stringify(item, null, 2) }),
        ),
      ),
    );
    put(by('loaded'), `${items.length} items at ${clock(Date.now())}${complete ? '' : ', and there are more'}.`);
  } catch (error) {
    put(by('loaded'), error.isRefusal ? error.message : 'The local cloud does not answer');
  }
}

by('load').addEventListener('click', load);
by('match').addEventListener('input', look);
by('scheduled').addEventListener('change', look);

const secret = location.hash.slice(1);
if (secret) {
  history.replaceState(null, '', '/');
  await ask('session', { secret }).catch((error) => say(error.message, true));
}
await look();
setInterval(() => {
  if (!by('paused').checked && document.visibilityState === 'visible') void look();
}, EVERY_MS);
