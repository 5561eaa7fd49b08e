/** One line per event: who, and what happened. Colour only helps; every word stands without it. */
const COLUMNS = 80;
const WHO = 14;
const coloured = process.stdout.isTTY === true && !process.env.NO_COLOR;
const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 };

// Piped into `head`, say: nobody reads on, so the story ends, and its processes with it.
process.stdout.on("error", () => process.exit(1));

export function paint(colour, text) {
  return coloured && colour in CODES ? `\x1b[${CODES[colour]}m${text}\x1b[0m` : text;
}

export function print(text = "") {
  process.stdout.write(`${text}\n`);
}

export function heading(text) {
  print(`\n${paint("bold", text)}`);
}

export function chapter(text) {
  print(`\n${paint("bold", text)}\n${"=".repeat(text.length)}`);
}

export function say(who, text, colour) {
  const [first, ...rest] = wrap(text, COLUMNS - WHO - 2);
  print(`  ${paint("dim", who.padEnd(WHO))}${paint(colour, first)}`);
  for (const line of rest) print(`  ${" ".repeat(WHO)}${paint(colour, line)}`);
}

export function paragraph(text) {
  for (const line of wrap(text, COLUMNS)) print(line);
}

function wrap(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line !== "" && line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines;
}
