/**
 * Text that every store can hold. PostgreSQL's text has no U+0000, SQLite's drivers cut it off there, and half of a
 * surrogate pair is no character in UTF-8: it comes back as another text than was written.
 */
const UNSTORABLE = /\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const ALL_UNSTORABLE = new RegExp(UNSTORABLE, "g");

/** Why no store can hold this as a name, and where; null: all can. Names are refused, so that two never become one. */
export function unstorableIn(name: string): string | null {
  const found = UNSTORABLE.exec(name);
  if (found === null) return null;
  const what = found[0] === "\0" ? "the character U+0000" : "half of a surrogate pair";
  return `it contains ${what} (at position ${found.index}), which not every store can hold`;
}

/** Text from elsewhere, such as an error's message, is kept as well as it can be: what cannot be held becomes U+FFFD. */
export function storableText(text: string): string {
  return UNSTORABLE.test(text) ? text.replace(ALL_UNSTORABLE, "\ufffd") : text;
}
