/** Answers that came after their attempts had ended: whoever has one waits until the ledger has been told of it. */
const settling = new WeakMap<object, Promise<unknown>>();

export function settlesLate(attempt: object | null, telling: Promise<unknown>): Promise<unknown> {
  const told = telling.catch(() => {});
  if (attempt !== null) settling.set(attempt, told);
  return told;
}

/** Of an attempt whose work has ended. */
export async function settledLate(attempt: object | null): Promise<void> {
  if (attempt !== null) await settling.get(attempt);
}
