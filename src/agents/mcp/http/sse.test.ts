import { describe, expect, it } from "vitest";
import { SseReader } from "./sse.ts";

const datas = (chunks: readonly string[]) => {
  const reader = new SseReader();
  return chunks.flatMap((chunk) => reader.push(chunk)).map(({ data }) => data);
};

describe("server-sent events", () => {
  // Each piece used to be searched together with all before it: 32 MB in pieces of 8 KB were 64 GB to look at.
  it("a long event in many pieces is read in one pass", () => {
    const reader = new SseReader();
    const piece = "x".repeat(8 * 1024);
    reader.push("data: ");
    for (let pieces = 0; pieces < 4 * 1024; pieces += 1) expect(reader.push(piece)).toHaveLength(0);
    const [event] = reader.push("\n\n");
    expect(event?.data.length).toBe(32 * 1024 * 1024);
    expect([reader.size, reader.rest]).toEqual([0, ""]);
  });

  it("a long event of short lines in many pieces, too", () => {
    const reader = new SseReader();
    const piece = "data: x\n".repeat(128);
    for (let pieces = 0; pieces < 8 * 1024; pieces += 1) expect(reader.push(piece)).toHaveLength(0);
    expect(reader.push("\n")[0]?.data.length).toBe(2 * 128 * 8 * 1024 - 1);
  });

  it.each([
    ["LF", "data: a\ndata: b\n\ndata: c\n\n"],
    ["CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"],
    ["CR", "data: a\rdata: b\r\rdata: c\r\r"],
    ["all of them", "data: a\r\ndata: b\n\r\ndata: c\r\n\n"],
  ])("with line ends %s are the same, wherever the stream is cut", (_, text) => {
    for (let cut = 0; cut <= text.length; cut += 1) {
      expect(datas([text.slice(0, cut), text.slice(cut)])).toEqual(["a\nb", "c"]);
    }
    expect(datas([...text])).toEqual(["a\nb", "c"]);
  });

  it("are passed on as they came, to the character", () => {
    const text = "\uFEFFid: 1\r\ndata: a\u2028b\r\n\r\r: note\n\nevent: x\ndata\n\n";
    for (let cut = 0; cut <= text.length; cut += 1) {
      const reader = new SseReader();
      const events = [...reader.push(text.slice(0, cut)), ...reader.push(text.slice(cut))];
      expect(events.map(({ raw }) => raw).join("") + reader.rest).toBe(text);
    }
  });

  it("a byte order mark, other line separators in the data, fields without a colon, and ids", () => {
    const reader = new SseReader();
    const [first, second, third] = reader.push("\uFEFFdata: a\u2028id: 9\n\nid: 7\ndata\ndata:b\n\nid\n\n");
    expect(first).toMatchObject({ data: "a\u2028id: 9", id: undefined, resumable: false });
    expect(second).toMatchObject({ data: "\nb", id: "7", resumable: true });
    expect(third).toMatchObject({ data: "", id: "" });
  });

  it("an event that never ends is given up", () => {
    const reader = new SseReader();
    const piece = "x".repeat(1024 * 1024);
    expect(() => {
      for (let pieces = 0; pieces < 100; pieces += 1) reader.push(piece);
    }).toThrow(/an event is longer than/);
  });
});
