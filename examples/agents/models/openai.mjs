// A stand-in for a model of the OpenAI Agents SDK.
import { Usage } from "@openai/agents";

let count = 0;

/** Each turn is a list of tool calls [name, input]; after the last one the model has finished. */
export function scriptedModel(turns) {
  const left = [...turns];
  return {
    async getResponse() {
      const turn = left.shift();
      count += 1;
      const calls = (turn ?? []).map(([name, input], i) => ({
        type: "function_call",
        callId: `call_${count}_${i}`,
        name,
        status: "completed",
        arguments: JSON.stringify(input),
      }));
      const content = [{ type: "output_text", text: "Finished." }];
      return {
        usage: new Usage(),
        output: turn === undefined ? [{ type: "message", role: "assistant", status: "completed", content }] : calls,
      };
    },
  };
}
