/** What the library says about an option, in the words of the command line: --run-at, not runAt. */
const OTHERWISE: Readonly<Record<string, string>> = {
  "on-doubt": "doubt",
  "resend-within": "doubt: resendWithin",
  attempts: "retry: attempts",
  backoff: "retry: backoff",
  "max-backoff": "retry: max",
};
// A flag has one form; that an option takes an object as well helps nobody here.
const OTHER_FORM = / Or: \w+: doubt takes (?:an object; got "[^"]*"|"hold", "retry"; got an object)\./;

/** `flags`: those of the command. */
export function inFlags(message: string, flags: Iterable<string>): string {
  let said = message
    .replace(OTHER_FORM, "")
    .replaceAll("Write a number of milliseconds, or a number with a unit", "Write a number with a unit")
    .replace(' takes a list of names, such as ["title"]', " takes names that are not blank");
  for (const flag of flags) {
    const option = OTHERWISE[flag] ?? flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const named = new RegExp(`(^|Or: )(?:nevertwice )?[\\w()]+: ${option}(?=:? )`, "g");
    said = said.replace(named, `$1--${flag}`);
  }
  return said.replace(/^nevertwice mcp: /, "");
}
