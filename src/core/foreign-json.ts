/**
 * JSON from outside: files, flags, other programs. JSON.parse reads any depth, but what walks the value afterwards
 * (JSON.stringify, a comparison) recurses and ends with a stack overflow. So the depth is counted in the text first.
 */
export const DEEPEST_JSON = 256;

/** Throws a SyntaxError for what is not JSON, and a RangeError for what is nested too deeply. */
export function parseForeignJson(text: string): unknown {
  if (isTooDeep(text)) throw new RangeError(`it is nested more than ${DEEPEST_JSON} levels deep`);
  return JSON.parse(text);
}

/** What to say of it: too deep, or not JSON. */
export function whyNotJson(error: unknown): string {
  return error instanceof RangeError ? error.message : "it is not JSON";
}

const [QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

export function isTooDeep(text: string): boolean {
  // Each level takes two characters: a short text cannot be too deep.
  if (text.length <= 2 * DEEPEST_JSON) return false;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (quoted) {
      if (code === BACKSLASH) at += 1;
      else if (code === QUOTE) quoted = false;
    } else if (code === QUOTE) quoted = true;
    else if (code === OPEN_LIST || code === OPEN) {
      depth += 1;
      if (depth > DEEPEST_JSON) return true;
    } else if (code === CLOSE_LIST || code === CLOSE) depth -= 1;
  }
  return false;
}
