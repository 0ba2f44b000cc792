import katex from 'katex';

/**
 * TeX as MathML, which browsers draw without styles of a library: the page's policy allows none. undefined if it is not TeX.
 */
export function mathOf(tex: string, isDisplayed: boolean): Node | undefined {
  const made = document.createElement('span');
  try {
    katex.render(tex, made, {
      output: 'mathml',
      displayMode: isDisplayed,
      trust: false,
      strict: 'ignore',
      maxExpand: 300,
      maxSize: 20,
      // These two would write style attributes. A new object each time: a text must not define macros for the next one.
      macros: { '\\fcolorbox': '\\@secondoftwo{#1}{\\colorbox{#2}{#3}}', '\\pmb': '\\boldsymbol{#1}' },
    });
  } catch {
    return undefined;
  }
  return made.querySelector('math') ?? undefined;
}
