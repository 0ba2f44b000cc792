import { afterAll, expect, test, vi } from 'vitest';

vi.stubGlobal('navigator', { language: 'en' });
vi.stubGlobal('document', { documentElement: {} });
const { counted, language } = await import('../src/i18n/index.ts');
const { en } = await import('../src/i18n/en.ts');
afterAll(() => {
  language.value = 'en';
  vi.unstubAllGlobals();
});

/** The words around a number: English for 1 and for others; Russian for 1, 2 and 5. */
const FORMS = {
  'more': [['Show # more character', 'Show # more characters'], ['Показать ещё # символ', 'Показать ещё # символа', 'Показать ещё # символов']],
  'act.lines': [[', # line', ', # lines'], [', # строка', ', # строки', ', # строк']],
  'turn.calls': [['# request', '# requests'], ['# запрос', '# запроса', '# запросов']],
  'subagent.calls': [['# call', '# calls'], ['# вызов', '# вызова', '# вызовов']],
  'waiting': [['# decision waits', '# decisions wait'], ['Ждёт # решение', 'Ждут # решения', 'Ждут # решений']],
  'proposed.steps': [['# step', '# steps'], ['# шаг', '# шага', '# шагов']],
  'meter.tokens': [['# token in this session', '# tokens in this session'], ['# токен в этой сессии', '# токена в этой сессии', '# токенов в этой сессии']],
  'menu.options': [['# suggestion', '# suggestions'], ['# вариант', '# варианта', '# вариантов']],
  'together.look': [['Look at # more change', 'Look at # more changes'], ['Посмотреть ещё # изменение', 'Посмотреть ещё # изменения', 'Посмотреть ещё # изменений']],
  'together.approve': [['Approve this # change', 'Approve these # changes'], ['Одобрить # изменение', 'Одобрить # изменения', 'Одобрить # изменений']],
  'call.written': [['being written, # line', 'being written, # lines'], ['пишется, # строка', 'пишется, # строки', 'пишется, # строк']],
  'call.added': [['# line added', '# lines added'], ['Добавлена # строка', 'Добавлены # строки', 'Добавлено # строк']],
  'call.removed': [['# line removed', '# lines removed'], ['Удалена # строка', 'Удалены # строки', 'Удалено # строк']],
  'review.decided': [['7 of # change decided', '7 of # changes decided'], ['Решено 7 из # изменения', 'Решено 7 из # изменений', 'Решено 7 из # изменений']],
  'files.found': [['# match', '# matches'], ['# совпадение', '# совпадения', '# совпадений']],
  'inspector.tokens': [['About # token:', 'About # tokens:'], ['Около # токена:', 'Около # токенов:', 'Около # токенов:']],
  'inspector.n.frames': [['# frame', '# frames'], ['# кадр', '# кадра', '# кадров']],
  'inspector.n.gaps': [['# gap', '# gaps'], ['# пропуск', '# пропуска', '# пропусков']],
  'inspector.n.repeats': [['# repeat', '# repeats'], ['# повтор', '# повтора', '# повторов']],
  'inspector.n.connections': [['# connection', '# connections'], ['# соединение', '# соединения', '# соединений']],
} as const;

/** Which of the Russian forms a number has. */
const RUSSIAN = { 0: 2, 1: 0, 2: 1, 5: 2, 11: 2, 12: 2, 21: 0, 22: 1, 101: 0, 111: 2 };

test('every text with a number is in this table', () => {
  const counting = Object.keys(en).flatMap((key) => (key.endsWith('.few') ? [key.slice(0, -'.few'.length)] : []));
  expect(Object.keys(FORMS).sort()).toEqual(counting.sort());
});

test.each(Object.entries(FORMS))('%s is declined in both languages', (key, [english, russian]) => {
  for (const [text, form] of Object.entries(RUSSIAN)) {
    const told = (name: typeof language.value) => {
      language.value = name;
      return counted(key as keyof typeof FORMS, Number(text), { m: 7 });
    };
    expect(told('en')).toBe(english[text === '1' ? 0 : 1].replace('#', text));
    expect(told('ru')).toBe(russian[form as 0 | 1 | 2]!.replace('#', text));
  }
});
