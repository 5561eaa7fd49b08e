/** Config files that people write may have comments and commas after the last entry. Both become spaces, so that positions stay. */
export function withoutComments(text: string): string {
  const blank = (part: string) => part.replace(/[^\n\r]/g, " ");
  // A string, a comment, or a comma; strings are passed over, so that "//" in a URL is none.
  const noComments = text.replace(/"(?:[^"\\]|\\.)*"?|\/\/[^\n\r]*|\/\*[\s\S]*?\*\//g, (part) =>
    part.startsWith('"') ? part : blank(part),
  );
  return noComments.replace(/"(?:[^"\\]|\\.)*"?|,(?=\s*[}\]])/g, (part) => (part === "," ? " " : part));
}
