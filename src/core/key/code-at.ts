const { charCodeAt } = String.prototype;

/**
 * `text.charCodeAt(at)` for loops that run in every call. Strings come in more kinds than V8 tells apart in one place, and
 * it then looks the method up for each character.
 */
export function codeAt(text: string, at: number): number {
  return charCodeAt.call(text, at);
}
