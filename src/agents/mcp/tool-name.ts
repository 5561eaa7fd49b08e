/** Names of tools: which are none, and which differ only in how they are written. */

/** No control characters (a NUL ends a name in many a store), no halves of surrogate pairs, not blank. */
export function isName(name: string): boolean {
  return name.trim() !== "" && !/\p{Cc}|\p{Cs}/u.test(name);
}

/** The same for all spellings that a lenient server may take for one name: case, width, composed or not, invisible characters. */
function folded(name: string): string {
  return name
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[\p{Default_Ignorable_Code_Point}\p{White_Space}]/gu, "")
    .normalize("NFKC");
}

/** The known tool that this name, unknown itself, may be taken for; null: there is none. */
export function spelledLike(name: string, known: Iterable<string>): string | null {
  const fold = folded(name);
  for (const one of known) if (one !== name && folded(one) === fold) return one;
  return null;
}
