// A stand-in for a model of the AI SDK, which Mastra takes as well.
import { MockLanguageModelV3 } from "ai/test";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
let count = 0;

/** Each turn is a list of tool calls [name, input]; after the last one the model has finished. */
export function scriptedModel(turns) {
  const left = [...turns];
  const next = () => {
    const turn = left.shift();
    count += 1;
    const calls = (turn ?? []).map(([toolName, input], i) => ({
      type: "tool-call",
      toolCallId: `call_${count}_${i}`,
      toolName,
      input: JSON.stringify(input),
    }));
    const unified = turn === undefined ? "stop" : "tool-calls";
    return {
      content: turn === undefined ? [{ type: "text", text: "Finished." }] : calls,
      finishReason: { unified, raw: unified },
    };
  };
  return new MockLanguageModelV3({
    doGenerate: async () => ({ ...next(), usage, warnings: [] }),
    doStream: async () => {
      const { content, finishReason } = next();
      const parts = content.flatMap((part) =>
        part.type === "text"
          ? [
              { type: "text-start", id: "1" },
              { type: "text-delta", id: "1", delta: part.text },
              { type: "text-end", id: "1" },
            ]
          : [part],
      );
      return {
        stream: ReadableStream.from([
          { type: "stream-start", warnings: [] },
          ...parts,
          { type: "finish", finishReason, usage },
        ]),
      };
    },
  });
}
