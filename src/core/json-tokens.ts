/** Where the tokens of a text end that JSON.parse has accepted. */

const BACKSLASH = 0x5c;

export function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
  return text.length;
}

/** As it reads: "\u006dethod" is the name method. */
export function nameOf(quoted: string): string {
  return quoted.includes("\\") ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
}

export function endOfNumber(text: string, start: number): number {
  let end = start + 1;
  while (end < text.length && "0123456789+-.eE".includes(text[end] as string)) end += 1;
  return end;
}
