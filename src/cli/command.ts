/** What a command is, and what it is given. */
import type { Readable, Writable } from "node:stream";
import type { Store } from "../core/store.ts";
import type { Args } from "./args.ts";
import type { InputFile } from "./each/input-file.ts";
import type { Paint } from "./term/paint.ts";

export interface Flag {
  /** What its value is called in the help: <name>. Without it the flag takes none. */
  readonly value?: string;
  readonly about: string;
}

export type Flags = Readonly<Record<string, Flag>>;

export interface Command {
  readonly name: string;
  /** One line, for the overview. */
  readonly summary: string;
  /** What follows the command's name, one way per line. */
  readonly usage: readonly string[];
  /** What a person needs to know before using it. */
  readonly about: string;
  readonly flags: Flags;
  /** At most this many words besides flags. */
  readonly operands: number;
  /** What that word is, default: a key. */
  readonly operand?: string;
  /** What to do instead where there are more words than that. */
  readonly beyondOperands?: (words: readonly string[]) => string;
  readonly examples: readonly (readonly [line: string, what: string])[];
  run(context: Context): Promise<number>;
}

export interface Sink {
  write(text: string): void;
  readonly isTTY: boolean;
  /** Undefined where it is not known. */
  readonly columns: number | undefined;
}

/** Everything outside: tests pass their own. */
export interface Io {
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly platform: NodeJS.Platform;
  /** The OS user's name; null where there is none. */
  readonly user: () => string | null;
  /** What is piped in, and the file that it comes from where it is one; absent where nothing is. */
  readonly stdin?: { readonly chunks: AsyncIterable<Uint8Array>; readonly file: InputFile | null };
  /** Calls back when the program is asked to end (Ctrl-C, SIGTERM); returns the way to stop listening. */
  readonly onInterrupt?: (asked: () => void) => () => void;
  /** For a command that stands between two programs: it takes input, output and signals over. */
  readonly takeOver?: () => Streams;
}

export interface Streams {
  readonly input: Readable;
  readonly output: Writable;
  onSignal(listener: (signal: NodeJS.Signals) => void): void;
}

/** A ledger to look at, or the place where one will be made at the first call. */
export type Ledger =
  | { readonly exists: true; readonly store: Store; readonly name: string; readonly why: string }
  | { readonly exists: false; readonly path: string; readonly name: string; readonly why: string };

export interface Context {
  readonly args: Args;
  readonly io: Io;
  readonly paint: Paint;
  /** The terminal's width, 80 when unknown. */
  readonly width: number;
  /** Opened at the first use, never made; closed by whoever runs the command. */
  ledger(): Ledger;
  /** A line on stdout. */
  line(text?: string): void;
  /** The one JSON document of --json. */
  json(document: object): void;
  /** A line on stderr. */
  note(text: string): void;
  /** A command to copy, with the --tenant and the --store of this call. `store`: of this ledger instead. */
  suggest(line: string, store?: string): string;
}
