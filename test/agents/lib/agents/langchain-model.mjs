// A model that makes the tool calls it is given, step by step, and then ends.
import { AIMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";

export class Scripted extends FakeListChatModel {
  constructor(steps) {
    super({ responses: ["finished"] });
    this.steps = [...steps];
  }
  bindTools() {
    return this;
  }
  async _generate() {
    const tool_calls = this.steps.shift() ?? [];
    const message = new AIMessage({ content: tool_calls.length === 0 ? "finished" : "", tool_calls });
    return { generations: [{ text: "", message }] };
  }
}
