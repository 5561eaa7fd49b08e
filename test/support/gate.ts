/** A promise that the test opens. */
export interface Gate<T = void> {
  readonly opened: Promise<T>;
  open(value: T): void;
  fail(error: unknown): void;
}

export function gate<T = void>(): Gate<T> {
  let open!: (value: T) => void;
  let fail!: (error: unknown) => void;
  const opened = new Promise<T>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  opened.catch(() => {});
  return { opened, open, fail };
}

/** Waits until the condition holds, or fails after a generous while. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what = "the condition",
  mostMs = 20_000,
): Promise<void> {
  const end = performance.now() + mostMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what} did not come about`);
    await new Promise((done) => setTimeout(done, 2));
  }
}
