import { randomBytes } from "node:crypto";

/** Random ids at a counter's price: one draw of 96 random bits per process, one number per claim. */
export function holderIds(): () => string {
  const prefix = `${randomBytes(12).toString("base64url")}.`;
  let count = 0;
  return () => {
    count += 1;
    return prefix + count.toString(36);
  };
}

/**
 * An option of an action: what the ids of its holders end with. A claim and who made it are written at once, so there is no
 * moment in which a record is held and nobody can tell by which process.
 */
export const HOLDER_NOTE = Symbol("note in the holder's id");

const BEFORE_NOTE = "@";

export function withNote(holder: string, note: string | undefined): string {
  return note === undefined ? holder : holder + BEFORE_NOTE + note;
}

/** Null: there is none. */
export function noteIn(holder: string | null): string | null {
  const at = holder?.indexOf(BEFORE_NOTE) ?? -1;
  return at < 0 ? null : (holder as string).slice(at + 1);
}
