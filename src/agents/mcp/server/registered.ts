/**
 * Tools that an McpServer registers, by whichever way: the SDK itself reads the arguments of `tool()` and `registerTool()`, and what
 * it made of them (schema, annotations) is what the guard goes by. A tool may change later: `update()` keeps its guard right.
 */
import { configError } from "../../../core/errors.ts";
import { requireKey } from "../../tool/fields.ts";
import type { Guarding } from "../../tool/options.ts";
import { passesInProgram, type ToolHints } from "../hints.ts";
import { requireAnnotations } from "./annotations.ts";
import { type Args, type GuardedCall, guardCall, type McpGuardOptions } from "./call.ts";
import type { McpExtra } from "./scope.ts";
import type { Connection } from "./turn.ts";

export type Callback = (...args: never[]) => unknown;

/** What `experimental.tasks.registerToolTask` takes in place of a callback. */
export interface TaskHandler {
  createTask: Callback;
  readonly [name: string]: unknown;
}

export type Handler = Callback | TaskHandler;

/** What a tool is registered with, and what the SDK keeps of it. */
export interface ToolConfig {
  readonly inputSchema?: unknown;
  readonly annotations?: ToolHints | undefined;
}

/** What registering returns: the same in both SDKs but for the callback's name, which older versions of 1.x call so. */
export interface RegisteredTool extends ToolConfig {
  readonly handler?: unknown;
  readonly callback?: unknown;
  update(updates: Updates): unknown;
  remove?(): unknown;
}

interface Updates {
  readonly name?: string | null;
  readonly paramsSchema?: unknown;
  readonly annotations?: ToolHints;
  readonly callback?: Handler;
}

/** The options of a tool by its name; null: it is left alone. `named`: they are for this very tool. */
export type OptionsOf = (name: string) => (McpGuardOptions & { readonly named: boolean }) | null;

export function isTaskHandler(handler: unknown): handler is TaskHandler {
  return typeof handler === "object" && handler !== null && "createTask" in handler;
}

/** One tool's handler under its guard: it goes by the tool's name, schema, hints and handler of the moment. */
export class GuardedHandler {
  readonly #nt: Guarding;
  readonly #optionsOf: OptionsOf;
  readonly #where: string;
  readonly #connection: Connection | undefined;
  #name: string;
  #handler: Handler;
  #takesArgs = false;
  #guarded: GuardedCall | null = null;

  constructor(
    nt: Guarding,
    where: string,
    optionsOf: OptionsOf,
    name: string,
    handler: Handler,
    connection?: Connection,
  ) {
    this.#connection = connection;
    this.#nt = nt;
    this.#where = where;
    this.#optionsOf = optionsOf;
    this.#name = name;
    this.#handler = handler;
  }

  /** Null: it passes as it is. */
  static #guardOf(one: GuardedHandler, name: string, handler: Handler, tool: ToolConfig): GuardedCall | null {
    const options = one.#optionsOf(name);
    if (options === null) return null;
    const { named, ...own } = options;
    if (passesInProgram(own.readOnly, tool.annotations, { named })) return null;
    const where = `${one.#where}: tool ${JSON.stringify(name)}`;
    if (tool.inputSchema === undefined) requireAnnotations(tool.annotations, where);
    requireKey(tool.inputSchema, own, where);
    const connection = one.#connection;
    return guardCall(one.#nt, name, own, { isTask: isTaskHandler(handler), ...(connection && { connection }) });
  }

  /** What is wrong with the tool's options is thrown here, before anything changes. */
  set({ name = this.#name, handler = this.#handler }: { name?: string; handler?: Handler }, tool: ToolConfig): void {
    this.#guarded = GuardedHandler.#guardOf(this, name, handler, tool);
    this.#takesArgs = tool.inputSchema !== undefined;
    this.#name = name;
    this.#handler = handler;
  }

  get passes(): boolean {
    return this.#guarded === null;
  }

  /** What is registered in the handler's place. */
  stand(handler: Handler = this.#handler): Handler {
    if (!isTaskHandler(handler)) return ((...given: unknown[]) => this.#call(given, false)) as unknown as Callback;
    const own =
      (name: string) =>
      (...given: unknown[]) => {
        const current = this.#handler as unknown as Record<string, (...args: unknown[]) => unknown>;
        return current[name]?.(...given);
      };
    return {
      createTask: ((...given: unknown[]) => this.#call(given, true)) as unknown as Callback,
      getTask: own("getTask"),
      getTaskResult: own("getTaskResult"),
    };
  }

  async #call(given: readonly unknown[], asTask: boolean): Promise<unknown> {
    const bare = this.#bare();
    if (this.#guarded === null) return bare(...given);
    // A tool without an input schema gets the context alone.
    const takesArgs = given.length > 1 || this.#takesArgs;
    const [args, extra] = takesArgs ? given : [{}, given[0]];
    return this.#guarded((args ?? {}) as Args, {
      extra: (extra ?? {}) as McpExtra,
      run: (own, context) => (takesArgs ? bare(own, context) : bare(context)),
      asTask,
    });
  }

  #bare(): (...args: unknown[]) => unknown {
    const handler = this.#handler;
    const bare = isTaskHandler(handler) ? handler.createTask.bind(handler) : handler;
    return bare as unknown as (...args: unknown[]) => unknown;
  }
}

/** The tools of one server. */
export class GuardedTools {
  readonly #nt: Guarding;
  readonly #optionsOf: OptionsOf;
  readonly #connection: Connection;
  readonly #adopted = new WeakSet<object>();

  constructor(nt: Guarding, optionsOf: OptionsOf, connection: Connection) {
    this.#connection = connection;
    this.#nt = nt;
    this.#optionsOf = optionsOf;
  }

  /** Whether its calls go through a guard of these. */
  has(tool: unknown): boolean {
    return typeof tool === "object" && tool !== null && this.#adopted.has(tool);
  }

  /** A tool that is there already. */
  adopt(name: string, tool: RegisteredTool): void {
    const handler = (tool.handler ?? tool.callback) as Handler;
    const guarded = this.#handlerOf(name, handler);
    guarded.set({}, tool);
    tool.update({ callback: guarded.stand() });
    this.#follow(tool, guarded);
  }

  /** `target[method]` registers a tool: its name comes first, its handler last. */
  intercept(target: Record<string, unknown>, method: string): void {
    const register = (target[method] as (...args: unknown[]) => unknown).bind(target);
    target[method] = (name: string, ...rest: unknown[]) => {
      const handler = rest.at(-1) as Handler;
      // What is no handler is the SDK's to refuse.
      if (typeof handler !== "function" && !isTaskHandler(handler)) return register(name, ...rest);
      const guarded = this.#handlerOf(name, handler);
      const tool = register(name, ...rest.slice(0, -1), guarded.stand()) as RegisteredTool | undefined;
      if (typeof tool?.update !== "function") throw notUnderstood(`${method}() returned no registered tool`);
      try {
        guarded.set({}, tool);
      } catch (error) {
        tool.remove?.();
        throw error;
      }
      this.#follow(tool, guarded);
      return tool;
    };
  }

  #handlerOf(name: string, handler: Handler): GuardedHandler {
    return new GuardedHandler(this.#nt, "guardMcpServer", this.#optionsOf, name, handler, this.#connection);
  }

  #follow(tool: RegisteredTool, guarded: GuardedHandler): void {
    this.#adopted.add(tool);
    const { update } = tool;
    tool.update = (updates) => {
      const { name, callback, paramsSchema = tool.inputSchema, annotations = tool.annotations } = updates;
      // A tool that is removed keeps its guard: it may be called still.
      const change = {
        ...(typeof name === "string" && { name }),
        ...(callback !== undefined && { handler: callback }),
      };
      guarded.set(change, { inputSchema: paramsSchema, annotations });
      return update.call(tool, callback === undefined ? updates : { ...updates, callback: guarded.stand() });
    };
  }
}

export function notUnderstood(what: string): Error {
  return configError(
    `guardMcpServer: ${what}. It guards McpServer and Server of @modelcontextprotocol/sdk 1.x and @modelcontextprotocol/server 2.x; this one is older or newer than what it knows (the versions are the peer dependencies of nevertwice). Nothing is guarded.`,
  );
}
