/** Colour where a person looks at a terminal, and nowhere else. */

type Brush = (text: string) => string;

export interface Paint {
  readonly bold: Brush;
  readonly dim: Brush;
  readonly red: Brush;
  readonly green: Brush;
  readonly yellow: Brush;
  readonly cyan: Brush;
}

const plain: Brush = (text) => text;
const ansi =
  (on: number, off: number): Brush =>
  (text) =>
    text === "" ? text : `\u001b[${on}m${text}\u001b[${off}m`;

const NO_PAINT: Paint = { bold: plain, dim: plain, red: plain, green: plain, yellow: plain, cyan: plain };

const ANSI_PAINT: Paint = {
  bold: ansi(1, 22),
  dim: ansi(2, 22),
  red: ansi(31, 39),
  green: ansi(32, 39),
  yellow: ansi(33, 39),
  cyan: ansi(36, 39),
};

export function choosePaint(isTTY: boolean, env: Readonly<Record<string, string | undefined>>): Paint {
  const unwanted = (env.NO_COLOR ?? "") !== "" || env.TERM === "dumb";
  return isTTY && !unwanted ? ANSI_PAINT : NO_PAINT;
}
