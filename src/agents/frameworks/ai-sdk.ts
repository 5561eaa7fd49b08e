/** Tools of the AI SDK (`ai` 6 and 7): `execute` is wrapped; types, schemas, approval and model output stay as they are. */
import { configError } from "../../core/errors.ts";
import { type Answer, guardTool, refusalError } from "../guard-tool.ts";
import { requireKey } from "../tool/fields.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  type Guarding,
  type GuardOptions,
  type InputsOf,
  lifted,
  requireScope,
  requireWhose,
  type ToolsOptions,
} from "../tool/options.ts";
import { guardEach } from "../tool/set.ts";
import type { Turn } from "../tool/turns.ts";
import { requireFramework } from "./version.ts";

/** What `execute` gets as its second argument; `context` is `experimental_context` in version 6. */
export interface AiCall {
  readonly toolCallId: string;
  readonly messages: readonly unknown[];
  readonly abortSignal?: AbortSignal;
  // biome-ignore lint/suspicious/noExplicitAny: the program's own object, of a type that only the program knows
  readonly context?: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly experimental_context?: any;
}

type Execute = (input: unknown, options: AiCall) => unknown;
type ToModelOutput = (given: { toolCallId: string; input: unknown; output: unknown }) => unknown;

/** A tool by shape: what `tool()` and `dynamicTool()` return. Provider tools have no `execute` and pass. */
export type AiTool = object;

/**
 * All tools of a record, for `generateText({ tools })` and its kin:
 * `guardAiTools(nt, tools, { scope, tools: { send_mail: { key: ["to"], errors: "not-done" } } })`. `errors: "not-done"` only for
 * a tool whose errors mean that nothing happened.
 */
export function guardAiTools<T extends Readonly<Record<string, AiTool>>>(
  nt: Guarding,
  tools: T,
  options: ToolsOptions<AiCall, InputsOf<NoInfer<T>>> = {},
): T {
  return guardEach<AiTool, AiCall>(tools, options as ToolsOptions<AiCall>, {
    where: "guardAiTools",
    guard: (tool, own, name) => guardAiTool(nt, name, tool, own),
  }) as T;
}

/** One tool; `name` is the one it has in the record. */
export function guardAiTool<T extends AiTool>(
  nt: Guarding,
  name: string,
  tool: T,
  options: AnyToolOptions & GuardOptions<AiCall> = {},
): T {
  if (typeof tool !== "object" || tool === null) {
    throw configError(`guardAiTool(${JSON.stringify(name)}): the third argument must be a tool, as tool() returns it.`);
  }
  const { execute, toModelOutput } = tool as { execute?: Execute; toModelOutput?: ToModelOutput };
  const where = `guardAiTool(${JSON.stringify(name)})`;
  requireWhose(options, where);
  if (execute === undefined || options.readOnly === true) return tool;
  requireScope(options, where, "({ context }) => context.userId");
  requireFramework("ai", where);
  requireKey((tool as { inputSchema?: unknown }).inputSchema, options, where);
  const { scope, tenant, agent, turn = turnOf, ...rest } = options;
  const notes = new Notes();
  const guarded = guardTool<AnyInput, Streaming, unknown>(
    nt,
    {
      ...rest,
      scope: typeof scope === "function" ? (extra: Streaming) => scope(extra.call) : (scope as string | null),
      ...(tenant !== undefined && { tenant: lifted(tenant, callIn) }),
      ...(agent !== undefined && { agent: lifted(agent, callIn) }),
      name,
      turn: ({ call }) => turn(call),
    },
    (input, { call, yielded }) => lastOf(execute.call(tool, input, call), yielded),
  );
  const answer = async (input: unknown, call: AiCall, yielded: (value: unknown) => void) => {
    const given = await guarded.answer(input as AnyInput, { call, yielded });
    const result = resultOf(given, name);
    if (given.kind !== "result" || given.note === null) notes.drop(input, result);
    else notes.keep(input, result, given.note);
    return result;
  };
  const plain = (input: unknown, call: AiCall) => answer(input, call, () => {});
  return {
    ...tool,
    execute: isGenerator(execute) ? streaming(answer) : plain,
    toModelOutput: notes.tell(toModelOutput?.bind(tool)),
  };
}

interface Streaming {
  readonly call: AiCall;
  readonly yielded: (value: unknown) => void;
}

function callIn({ call }: Streaming): AiCall {
  return call;
}

interface Part {
  readonly type?: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
}

/** All calls of a step are given the same list of messages. One that was approved is in it, among the calls it was made with. */
function turnOf({ toolCallId, messages }: AiCall): Turn | undefined {
  if (!Array.isArray(messages)) return undefined;
  for (const { content } of messages.toReversed() as readonly { readonly content?: unknown }[]) {
    const parts = (Array.isArray(content) ? content : []) as readonly Part[];
    const own = parts.find((part) => part.toolCallId === toolCallId && part.type?.startsWith("tool-"));
    if (own?.type === "tool-call") {
      const calls = parts.filter(({ type }) => type === "tool-call");
      return {
        call: toolCallId,
        calls: calls.map(({ toolCallId: id, toolName = "", input }) => ({ id, name: toolName, args: input })),
      };
    }
    // Answered: an earlier call with the same id.
    if (own?.type === "tool-result") break;
  }
  return { call: toolCallId, turn: messages };
}

/** A refusal is thrown: the model reads it as the tool's error, and a typed output keeps its type. */
function resultOf(answer: Answer<unknown>, name: string): unknown {
  if (answer.kind === "result") return answer.result;
  throw refusalError(answer, name);
}

// ---- tools that yield ----------------------------------------------------------------------------------------------

/** Only the last value is the result; the ones before show progress and are never stored. */
async function lastOf(value: unknown, yielded: (value: unknown) => void): Promise<unknown> {
  const awaited = isIterable(value) ? value : await value;
  if (!isIterable(awaited)) return awaited;
  let last: unknown;
  for await (const one of awaited) {
    last = one;
    yielded(one);
  }
  return last;
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

function isGenerator(execute: Execute): boolean {
  return Object.prototype.toString.call(execute) === "[object AsyncGeneratorFunction]";
}

/** As the tool was: yields while it runs. A repeat yields the first result alone. */
function streaming(answer: (input: unknown, call: AiCall, yielded: (value: unknown) => void) => Promise<unknown>) {
  return async function* (input: unknown, call: AiCall): AsyncGenerator<unknown> {
    const values: unknown[] = [];
    let wake = () => {};
    let ended = false;
    const work = answer(input, call, (value) => {
      values.push(value);
      wake();
    }).finally(() => {
      ended = true;
      wake();
    });
    work.catch(() => {});
    let shown = 0;
    while (!ended || values.length > 0) {
      if (values.length === 0) {
        await new Promise<void>((heard) => {
          wake = heard;
        });
        continue;
      }
      shown += 1;
      yield values.shift();
    }
    const result = await work;
    if (shown === 0) yield result;
  };
}

// ---- what the model is told about a repeat -------------------------------------------------------------------------

/**
 * The notes of this tool's repeats, each bound to its very call by the objects that the AI SDK hands back for it: the input that
 * `execute` got, and the output it gave. An id does not tell calls apart, since some providers count theirs from the start
 * in every conversation. The objects go with their call, and the note with them.
 */
class Notes {
  readonly #notes = new WeakMap<object, string>();

  keep(input: unknown, output: unknown, note: string): void {
    for (const one of [input, output]) if (isObject(one)) this.#notes.set(one, note);
  }

  /** A call that ran has no note, also where its objects were those of an earlier call. */
  drop(input: unknown, output: unknown): void {
    for (const one of [input, output]) if (isObject(one)) this.#notes.delete(one);
  }

  /** The output keeps its type for the program; before it, the model reads that this was done before. */
  tell(own: ToModelOutput | undefined): ToModelOutput {
    return (given) => {
      if (!isCallOf6(given)) return own === undefined ? modelOutput(given) : own(given);
      const { input, output } = given;
      const note = this.#of(output) ?? this.#of(input);
      const shown = own === undefined ? modelOutput(output) : own(given);
      if (note === undefined) return shown;
      return shown instanceof Promise ? shown.then((one) => noted(one, note)) : noted(shown, note);
    };
  }

  #of(one: unknown): string | undefined {
    return isObject(one) ? this.#notes.get(one) : undefined;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Version 5 gives the output alone. It is refused where it can be seen; bundled it cannot, and must not lose its results. */
function isCallOf6(given: unknown): boolean {
  return isObject(given) && "toolCallId" in given && "input" in given && "output" in given;
}

interface ModelOutput {
  readonly type: string;
  readonly value: unknown;
}

/** What the AI SDK itself makes of an output. */
function modelOutput(output: unknown): ModelOutput {
  if (typeof output === "string") return { type: "text", value: output };
  return { type: "json", value: output === undefined ? null : JSON.parse(JSON.stringify(output)) };
}

function noted(output: unknown, note: string): unknown {
  const { type, value } = output as ModelOutput;
  if (type === "text") return { type, value: `${note}\n${String(value)}` };
  if (type === "json") return { type, value: { note, result: value } };
  if (type === "content") return { type, value: [{ type: "text", text: note }, ...(value as unknown[])] };
  return output;
}
