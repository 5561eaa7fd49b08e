import { describe, expect, it } from "vitest";
import { windowsSpawning } from "./windows.ts";

const FILES = [
  "C:\\nodejs\\node.exe",
  "C:\\nodejs\\npx.cmd",
  "C:\\nodejs\\npx",
  "C:\\shop\\server.bat",
  "C:\\py\\uvx.exe",
];
const place = {
  env: { PATH: '"C:\\nodejs";C:\\py\\', PATHEXT: ".EXE;.CMD;.BAT", comspec: "C:\\Windows\\cmd.exe" },
  cwd: "C:\\shop",
  isFile: (path: string) => FILES.includes(path),
};
const line = (...words: string[]) => windowsSpawning(words, place);

/** What cmd.exe makes of its line: carets go, and nothing that stood behind one acts. null: something else would act. */
function asCmdReads(text: string): string | null {
  if (/(?<!\^)[&|<>%"()]/.test(text.replace(/\^\^/g, ""))) return null;
  return text.replace(/\^(.)/g, "$1");
}

/** The argument vector that a C program makes of its line. */
function asProgramsRead(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\(?!\\*")|\\\\)*)"/g)].map(([, word = ""]) =>
    word.replace(/(\\+)$/, (all) => all.slice(all.length / 2)),
  );
}

describe("a command on Windows", () => {
  it("npx is npx.cmd, run by cmd.exe", () => {
    expect(line("npx", "-y", "mail-server")).toEqual({
      file: "C:\\Windows\\cmd.exe",
      args: ["/d", "/s", "/c", '"^"C:\\nodejs\\npx.cmd^" ^"-y^" ^"mail-server^""'],
      windowsVerbatimArguments: true,
    });
  });

  it("a program is started as it is, without cmd.exe; one that is not found is left to the error of spawn", () => {
    expect(line("node", 'a "b" %c% & d')).toEqual({ file: "C:\\nodejs\\node.exe", args: ['a "b" %c% & d'] });
    expect(line("uvx", "x")).toEqual({ file: "C:\\py\\uvx.exe", args: ["x"] });
    expect(line("nothing", "x")).toEqual({ file: "nothing", args: ["x"] });
  });

  it("a batch file in the working folder is taken by its path only", () => {
    expect(line("server").file).toBe("server");
    expect(line(".\\server", "a").args[3]).toBe('"^"C:\\shop\\server.bat^" ^"a^""');
    expect(line("C:\\shop\\server.bat").file).toBe("C:\\Windows\\cmd.exe");
  });

  it.each([
    "a&calc.exe",
    "%PATH%",
    "postgres://u:p%40ss@host/db?a=1&b=2",
    "a|b>c<d",
    "^caret^",
    "(paren)",
    "!bang!",
    "C:\\folder with spaces\\",
    "back\\\\slashes\\\\",
    "",
  ])("%j reaches the program as one argument, and nothing in it acts", (word) => {
    const [text = ""] = line("npx", "server", word, "last").args.slice(3);
    const read = asCmdReads(text.slice(1, -1));
    expect(read).not.toBeNull();
    expect(asProgramsRead(read as string)).toEqual(["C:\\nodejs\\npx.cmd", "server", word, "last"]);
  });

  it.each(['say "hi"', "two\nlines", "nul\0"])("%j is refused for a batch file", (word) => {
    expect(() => line("npx", word)).toThrow(/cannot be handed to it safely/);
  });
});
