/** A real SQLite ledger in a folder of its own, and the command run on it in this process. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// The built package: its store starts a thread from dist.
import { type LedgerRecord, type Nevertwice, nevertwice, type Store } from "nevertwice";
import type { Io } from "../../src/cli/command.ts";
import { run } from "../../src/cli/run.ts";
import { sampleRecord } from "../../src/testing/index.ts";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** The one JSON document on stdout. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the document should hold
  readonly json: any;
}

export interface Surroundings {
  readonly tty?: boolean;
  readonly columns?: number;
  readonly env?: Record<string, string>;
  /** Piped in. */
  readonly stdin?: string;
  /** Gets the way to ask the command to end, as Ctrl-C would. */
  readonly interrupts?: (interrupt: () => void) => void;
  /** Gets what is written to stdout, as it comes. */
  readonly written?: (text: string) => void;
}

export class CliLedger {
  readonly folder = mkdtempSync(join(tmpdir(), "nevertwice-cli-"));
  readonly path = join(this.folder, ".nevertwice", "ledger.db");
  readonly #open: Nevertwice[] = [];

  /** A program on the same ledger. */
  program(options: { tenant?: string; encrypt?: string } = {}): Nevertwice {
    const nt = nevertwice({ store: `sqlite:${this.path}`, sweep: false, ...options });
    this.#open.push(nt);
    return nt;
  }

  get store(): Store {
    return (this.#open[0] ?? this.program()).store;
  }

  /** A record as it stands, whatever led to it. */
  async put(overrides: Partial<LedgerRecord> & { key: string }): Promise<LedgerRecord> {
    const record = sampleRecord({ createdAt: Date.now(), ...overrides });
    const [result] = await this.store.write([{ record, expected: null }]);
    if (!result?.ok) throw new Error(`the record ${record.key} is there already`);
    return record;
  }

  /** As in this folder: the default ledger is found, not named. */
  async run(argv: readonly string[], around: Surroundings = {}): Promise<Ran> {
    let out = "";
    let err = "";
    const sink = (write: (text: string) => void) => ({ write, isTTY: around.tty ?? false, columns: around.columns });
    const io: Io = {
      stdout: sink((text) => {
        out += text;
        around.written?.(text);
      }),
      stderr: sink((text) => {
        err += text;
      }),
      env: around.env ?? {},
      cwd: this.folder,
      home: this.folder,
      platform: process.platform,
      user: () => "ada",
      ...(around.stdin !== undefined && { stdin: piped(around.stdin) }),
      onInterrupt: (asked) => {
        around.interrupts?.(asked);
        return () => {};
      },
    };
    const code = await run(argv, io);
    return { code, out, err, json: argv.includes("--json") ? JSON.parse(out) : undefined };
  }

  async close(): Promise<void> {
    for (const nt of this.#open) await nt.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** As a file would come: in parts that cut lines and characters anywhere. */
function piped(text: string): NonNullable<Io["stdin"]> {
  const bytes = Buffer.from(text);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
  }
  const countLines = async () => text.split("\n").filter((line) => line.trim() !== "").length;
  return { chunks: chunks(), file: { countLines, isAt: () => false } };
}

/** A well-formed key that begins with `start`. */
export function keyLike(start: string): string {
  return `nt1_${start.padEnd(51, "0")}0`;
}
