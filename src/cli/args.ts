/** What a command line gave to a command: operands, and the values of flags. */
import { UsageError } from "./term/exit.ts";
import { oneLine } from "./term/text.ts";

export class Args {
  readonly operands: readonly string[];
  /** Those of them that stand behind "--": another program's command line. */
  readonly behindDashes: readonly string[];
  readonly #values: ReadonlyMap<string, readonly string[]>;

  constructor(
    operands: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    behindDashes: readonly string[] = [],
  ) {
    this.operands = operands;
    this.behindDashes = behindDashes;
    this.#values = values;
  }

  /** Those that were given. */
  get flags(): Iterable<string> {
    return this.#values.keys();
  }

  on(flag: string): boolean {
    return this.#values.has(flag);
  }

  /** The last one wins, as everywhere on a command line. */
  text(flag: string): string | undefined {
    return this.#values.get(flag)?.at(-1);
  }

  /** Given several times, each as it is. */
  all(flag: string): readonly string[] {
    return this.#values.get(flag) ?? [];
  }

  /** Given several times, or with commas. */
  list(flag: string): string[] {
    const given = this.#values.get(flag) ?? [];
    return given.flatMap((text) => text.split(",")).map((text) => text.trim());
  }

  count(flag: string): number | undefined {
    const text = this.text(flag);
    if (text === undefined) return undefined;
    const count = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(count) && count > 0) return count;
    throw new UsageError(`--${flag} ${oneLine(text)}: it takes a whole number above zero, for example --${flag} 50.`);
  }
}
