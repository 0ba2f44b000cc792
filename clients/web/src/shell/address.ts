/** The session that an address's fragment names. Anybody may have made the link, so it may be anything. */
export function sessionIn(hash: string): string | undefined {
  const escaped = /^#\/s\/((?:[A-Za-z0-9_.:-]|%[0-7][0-9A-Fa-f]){1,384})$/.exec(hash)?.[1];
  return /^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,128}$/.exec(decodeURIComponent(escaped ?? ''))?.[0];
}
