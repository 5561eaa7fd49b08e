// A model of the AI SDK that makes the calls it is given, step by step, each [toolName, input, toolCallId], and then ends.
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 }, totalTokens: 2 };

export function calling(Model, steps) {
  const left = [...steps];
  const finish = (raw) => (Model.name.endsWith("V2") ? raw : { unified: raw, raw });
  return new Model({
    doGenerate: async () => {
      const step = left.shift();
      if (step === undefined)
        return { content: [{ type: "text", text: "finished" }], finishReason: finish("stop"), usage, warnings: [] };
      const content = step.map(([toolName, input, toolCallId]) => ({
        type: "tool-call",
        toolCallId,
        toolName,
        input: JSON.stringify(input),
      }));
      return { content, finishReason: finish("tool-calls"), usage, warnings: [] };
    },
  });
}

/** What a model of this kind was told by its tools. */
export const toldBy = (model) =>
  model.doGenerateCalls
    .at(-1)
    .prompt.filter(({ role }) => role === "tool")
    .flatMap(({ content }) => content.map(({ output }) => output));
