// A stand-in for a chat model of LangChain.
import { AIMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";

let count = 0;

/** Each turn is a list of tool calls [name, args]; after the last one the model has finished. */
export class ScriptedModel extends FakeListChatModel {
  constructor(turns) {
    super({ responses: ["Finished."] });
    this.turns = [...turns];
  }

  bindTools() {
    return this;
  }

  async _generate() {
    const turn = this.turns.shift();
    count += 1;
    const tool_calls = (turn ?? []).map(([name, args], i) => ({
      name,
      args,
      id: `call_${count}_${i}`,
      type: "tool_call",
    }));
    return { generations: [{ text: "", message: new AIMessage({ content: turn ? "" : "Finished.", tool_calls }) }] };
  }
}
