/** The guards of one MCP server's tools, made as the calls come: what the proxy's transports share. */
import { createHash, createHmac } from "node:crypto";
import { classify } from "../../core/classify.ts";
import { DOUBT_REASON, isNevertwiceError, messageOf } from "../../core/errors.ts";
import { soundsLikeMoney } from "../../core/money-name.ts";
import type { Absent, Outcome } from "../../core/outcome.ts";
import { untilDelivered } from "../../core/policy.ts";
import { unstorableIn } from "../../core/storable-text.ts";
import type { Store } from "../../core/store.ts";
import { isUnclassified } from "../../core/way-out.ts";
import { currentAttempt } from "../../engine/context.ts";
import type { ProbeContext, Verdictish } from "../../engine/definition.ts";
import { type Answer, type AttemptOf, type GuardedTool, guardTool } from "../guard-tool.ts";
import { OBSERVE_ONLY, saidObserving } from "../observe.ts";
import { ONCE_MORE_TOOL, type OnceMoreAsking, type OnceMoreTool, onceMoreTool } from "../once-more-tool.ts";
import { STATUS_TOOL, type StatusTool, statusTool } from "../status-tool.ts";
import { OF_PROXY } from "../tool/action.ts";
import { isControlFlowError } from "../tool/control-flow.ts";
import type { Guarding, ToolOptions } from "../tool/options.ts";
import { Callers } from "./callers.ts";
import { DEFAULT_WINDOW, limitOf, type ProxyConfig, type ProxyGuard, type ProxyToolConfig } from "./config.ts";
import { Deliveries, type Delivery, NO_DELIVERY } from "./delivery.ts";
import { Elicitations } from "./elicitation.ts";
import { passesByHint } from "./hints.ts";
import { HttpFailure } from "./http/failure.ts";
import { Judged } from "./judged.ts";
import { type Ask, type Opened, ProxiedTasks, type TaskOf, taskIn } from "./proxied-tasks.ts";
import { mcpErrorMeaning, mcpResult, type ToolResult } from "./result.ts";
import {
  CancelledUnsent,
  INVALID_PARAMS,
  isRefusedUnrun,
  type RpcError,
  RpcFailure,
  type RpcMessage,
  type ToolCall,
  type ToolInfo,
} from "./rpc.ts";
import { deferred } from "./tasks.ts";
import { spelledLike } from "./tool-name.ts";
import { type CallTool, verifyCall } from "./verify.ts";

/** One call as a transport makes it. */
export interface ProxyCall {
  readonly message: ToolCall;
  /** Who calls, where the transport knows. */
  readonly principal?: string | undefined;
  /** The session or connection it came by, where there are several. */
  readonly client?: string | undefined;
  /** The client has taken it back. */
  isCancelled?(): boolean;
  /** What the user answered to its questions: the transport tells. */
  readonly asked?: Elicitations;
  /** The client waits for no answer: it has taken the call back, or its connection is closed. */
  isLeft?(): boolean;
  /** Sends the call on and gives the server's answer; throws an RpcFailure for an error answer. `of`: its attempt, if it is one. */
  forward(message: ToolCall, of: AttemptOf | null): Promise<ToolResult>;
}

export interface McpGuardOptions {
  readonly nt: Guarding & OnceMoreAsking & { readonly store: Store };
  readonly config: ProxyConfig;
  /** Its name in the ledger. */
  readonly server: string;
  /** What tells this server from another of the same name: the command line, the URL. */
  readonly identity: string;
  /** Makes the digests of identity and principal, which stand in every record, useless for guessing credentials. */
  readonly secret?: string | undefined;
  /** Nothing of a call is to lie in the ledger unsealed: the ids of its tasks are not kept. */
  readonly sealed?: boolean;
  /** For the person who wrote the config. */
  readonly note?: (text: string) => void;
}

/** What a client gets, and the way to say whether it has arrived. */
export type Proxied = Answer<ToolResult> & { readonly delivery: Delivery };

type Arguments = Readonly<Record<string, unknown>>;

/** One call on its way through its guard, and what becomes of its place among the identical ones of its connection. */
interface Run extends Pick<TaskOf, "ask" | "asked" | "scope"> {
  readonly call: ProxyCall;
  readonly place: { isFree(): boolean };
  opened(opened: Opened): void;
}

type Guard = GuardedTool<Arguments, Run, ToolResult>;

const MOST_UNLISTED = 1_000;
const MOST_JOINS = 10;

export class McpGuard {
  readonly #options: McpGuardOptions;
  readonly #callers = new Callers();
  readonly #guards = new Map<string, Guard>();
  readonly #status;
  readonly #noted = new Set<string>();
  readonly #deliveries = new Deliveries();
  readonly #tasks: ProxiedTasks;

  constructor(options: McpGuardOptions) {
    this.#options = options;
    this.#tasks = new ProxiedTasks(options.sealed === true ? null : options.nt.store);
    this.#status = statusTool(options.nt);
    if (options.config.mode === "observe" && !saidObserving(options.nt)) options.note?.(OBSERVE_ONLY);
  }

  /** Hand it back to `learn` with a list that is asked for now. */
  get epoch(): number {
    return this.#callers.epoch;
  }

  /** From the server's own list, as it passes by; a page that is not its last leaves the rest to be asked for. */
  learn(tools: unknown, isLast = true, principal = "", since = this.epoch): void {
    if (!Array.isArray(tools) || since !== this.epoch) return;
    const caller = this.#callers.of(this.#scope(principal));
    for (const tool of tools as ToolInfo[]) if (typeof tool?.name === "string") caller.tools.set(tool.name, tool);
    if (!isLast) return;
    caller.listed = true;
    this.#noteUnknown(caller.tools);
    this.#noteMoney([...caller.tools.keys()], principal);
  }

  /** Once for each tool: what its name suggests, and how long a repeat is recognised as things are. */
  #noteMoney(tools: readonly string[], principal: string): void {
    const { config, note } = this.#options;
    if (note === undefined) return;
    for (const tool of tools) {
      const name = `money: ${tool}`;
      if (this.#noted.has(name) || !soundsLikeMoney(tool) || !this.guarded(tool, principal)) continue;
      this.#noted.add(name);
      const text = moneyNote(tool, this.#configOf(tool), config);
      if (text !== null) note(text);
    }
  }

  /** A misspelled name leaves the tool it meant with the defaults. Not an error: a server may show each client other tools. */
  #noteUnknown(tools: ReadonlyMap<string, ToolInfo>): void {
    const { config, note } = this.#options;
    const configured = Object.entries(config.tools ?? {}).flatMap(([tool, { verify }]) => [tool, verify?.tool ?? tool]);
    const known = new Set([...tools.keys(), ...this.#noted, ...(config.presetTools ?? [])]);
    const missing = [...new Set([...configured, ...(config.only ?? [])])].filter((name) => !known.has(name));
    for (const name of missing) this.#noted.add(name);
    if (missing.length === 0) return;
    note?.(
      `the config names ${missing.map((name) => JSON.stringify(name)).join(", ")}, and the server has no such tool. It has: ${[...tools.keys()].join(", ") || "none"}.`,
    );
  }

  /** Its tools may have changed: the next call asks again. */
  forget(): void {
    this.#callers.forgetTools();
  }

  /** Whether the server's list has to be asked for before a call of this tool can be judged. */
  needsList(tool: string, principal = ""): boolean {
    if (this.#options.config.only !== undefined) return false;
    return this.#configOf(tool) === undefined && !this.#callers.of(this.#scope(principal)).listed;
  }

  /** null: the call goes through untouched. */
  guarded(tool: string, principal = ""): boolean {
    const { only } = this.#options.config;
    if (only !== undefined) return only.includes(tool);
    const own = this.#configOf(tool);
    if (own?.readOnly !== undefined) return !own.readOnly;
    const { tools } = this.#callers.of(this.#scope(principal));
    return own !== undefined || !passesByHint(tools.get(tool)?.annotations);
  }

  /** What cannot be guarded, whatever the tool does; null: nothing stands against it. */
  refusal({ params: { name } }: ToolCall, principal = ""): RpcError | null {
    const { tools } = this.#callers.of(this.#scope(principal));
    const known = [...tools.keys(), ...Object.keys(this.#options.config.tools ?? {})];
    const meant = known.includes(name) ? null : spelledLike(name, known);
    if (meant !== null) {
      return invalid(`the server has no tool of that name, only ${JSON.stringify(meant)}, written differently`);
    }
    // Each name is an action of its own, for as long as the proxy runs.
    const isNew = !known.includes(name) && !this.#guards.has(name);
    if (isNew && this.#guards.size >= known.length + MOST_UNLISTED) {
      return invalid("the server lists no such tool, and too many names that it does not list were called");
    }
    return null;
  }

  /** Tasks that still work are in doubt from now on. */
  close(): void {
    this.#tasks.close();
  }

  async answer(call: ProxyCall, ask: Ask): Promise<Proxied> {
    const { name, arguments: given } = call.message.params;
    const args = given ?? {};
    const own = this.#configOf(name);
    // A client may send any text as a name, and it would be kept as the action's.
    const unstorable = unstorableIn(name);
    if (unstorable !== null)
      throw new RpcFailure({
        code: INVALID_PARAMS,
        message: `Not run: the tool's name cannot be kept: ${unstorable}.`,
      });
    const scope = this.#scope(call.principal);
    this.#callers.of(scope).ask = ask;
    const guard = this.#guards.get(name) ?? this.#guard(name);
    // Called before the server was asked for its list, or not on it.
    if (!this.#guards.has(name)) this.#noteMoney([name], call.principal ?? "");
    this.#guards.set(name, guard);
    const { asked = new Elicitations(call.message.params.inputResponses) } = call;
    const created = deferred<Opened>();
    const place = { isFree: () => call.isLeft?.() === true };
    const run = { call, place, ask: this.#askOf(scope, ask), asked, scope, opened: created.resolve };
    const input = own?.keyArgument === undefined ? args : without(args, own.keyArgument);
    const answering = this.#answer(guard, input, run).finally(() => {
      place.isFree = () => true;
    });
    const first = await Promise.race([created.promise, answering]);
    if ("task" in first) {
      // Its place is taken while the task works, whatever becomes of the connection.
      place.isFree = () => false;
      // From here on the ledger has the word. What the task came to has not arrived until the client asks for it.
      const settled = (delivery: Delivery) => {
        delivery.lost();
        this.#tasks.settled({ scope, ...first }, delivery);
      };
      answering.then(
        (answer) => settled(this.#deliveryOf(answer, run)),
        () => settled(NO_DELIVERY),
      );
      return { kind: "result", result: first.result, note: null, delivery: NO_DELIVERY };
    }
    const isTask = call.message.params.task !== undefined;
    const task = isTask ? await this.#asTask(first, guard, input, run) : null;
    return task ?? { ...first, delivery: this.#deliveryOf(first, run) };
  }

  #deliveryOf(answer: Answer<ToolResult>, { call: { client = "" }, place }: Run): Delivery {
    const { receipt } = answer;
    return receipt === undefined ? taking(place, answer) : this.#deliveries.expect(receipt, client);
  }

  /** Its caller's connection of this call, or a later one where that has ended. */
  #askOf(scope: string, ask: Ask): Ask {
    return (method, params) =>
      ask(method, params).catch((error: unknown) => {
        const latest = this.#callers.find(scope)?.ask ?? ask;
        if (error instanceof RpcFailure || latest === ask) throw error;
        return latest(method, params);
      });
  }

  /** A client that asked for a task gets one: that of the call under way, or one of the proxy's own. Null: the tool answered without. */
  async #asTask(answer: Answer<ToolResult>, guard: Guard, args: Arguments, run: Run): Promise<Proxied | null> {
    if (answer.kind === "result" && answer.note === null) return null;
    const given = (task: object): Proxied => ({ kind: "result", result: { task }, note: null, delivery: NO_DELIVERY });
    const outcome = answer.kind === "refused" ? answer.outcome : null;
    const settle = async (result: ToolResult, of: AttemptOf) => guard.settleLate(of, result);
    const same = outcome === null ? null : await this.#tasks.same(outcome, run, settle);
    if (same !== null) return given(same.task);
    const made = this.#tasks.make(run.scope);
    const end = (last: Answer<ToolResult>) => made.end(mcpResult(last), this.#deliveryOf(last, run));
    const over = outcome === null ? undefined : this.#tasks.running.over(outcome.key);
    // The server does not show the task in this session: it is waited for here.
    if (over === undefined) end(answer);
    else void over.then(() => this.#answer(guard, args, run)).then(end, () => end(answer));
    return given(made.task);
  }

  /** A request about a task, before it is passed on. */
  about(message: RpcMessage, principal = ""): ReturnType<ProxiedTasks["about"]> {
    return this.#tasks.about(message, this.#scope(principal));
  }

  /** Of the call whose task a question of the server names. */
  asker(message: RpcMessage, principal = ""): Elicitations | undefined {
    return this.#tasks.asker(message, this.#scope(principal));
  }

  /** A call that joined one which was taken back before it was sent makes its own. */
  async #answer(guard: Guard, args: Arguments, run: Run): Promise<Answer<ToolResult>> {
    const { call } = run;
    for (let joins = 0; ; joins += 1) {
      try {
        const answer = await guard.answer(args, run);
        if (!isOfUnsent(answer) || call.isCancelled?.() === true || joins === MOST_JOINS) return answer;
      } catch (error) {
        if (!(error instanceof CancelledUnsent) || call.isCancelled?.() === true || joins === MOST_JOINS) throw error;
      }
    }
  }

  /** Whether a call goes on when its client has only stopped waiting. */
  finishes(tool: string): boolean {
    const { onTimeout = this.#options.config.onTimeout } = this.#configOf(tool) ?? {};
    return onTimeout === "finish";
  }

  /** An answer that came after its call was given up. It settles what it can; a doubt that was settled meanwhile stays so. */
  settleLate(call: ProxyCall, of: AttemptOf, result: ToolResult): void {
    const { asked = new Elicitations() } = call;
    const { name } = call.message.params;
    if (asked.declined !== null && this.#configOf(name)?.declined !== "answer") return;
    const scope = this.#scope(call.principal);
    const settle = async (last: ToolResult) => this.#guards.get(name)?.settleLate(of, last);
    const created = taskIn(result);
    const ask = this.#callers.find(scope)?.ask;
    if (created === null) return void settle(result).catch(() => {});
    void this.#tasks.keep(of, created.task);
    if (ask) void this.#tasks.adopt({ scope, asked, ask, ...created }, settle).catch(() => {});
  }

  /** The answer of an added tool; null: the call is not for one. */
  async status({ params }: ToolCall, principal = ""): Promise<ToolResult | null> {
    const { config, nt } = this.#options;
    if (config.onceMoreTool === true && params.name === ONCE_MORE_TOOL) {
      // Of its own calls, as with the status tool.
      const tool = onceMoreTool(nt, { scope: this.#scope(principal) });
      return { content: [{ type: "text", text: await tool.execute(params.arguments ?? {}) }] };
    }
    if (config.statusTool !== true || params.name !== STATUS_TOOL) return null;
    return { content: [{ type: "text", text: await this.#statusOf(principal).execute(params.arguments ?? {}) }] };
  }

  /** A caller learns of its own calls only: a reference that another one was given is not known to it. */
  #statusOf(principal: string): StatusTool {
    const { nt } = this.#options;
    const status = async ({ key }: { readonly key: string }): Promise<Outcome<unknown> | Absent> => {
      const [stored] = await nt.store.read([key]);
      return stored?.record.scope === this.#scope(principal) ? nt.status({ key }) : { status: "absent", key };
    };
    return statusTool({ status });
  }

  /** What the list of tools gets in addition. */
  get addedTools(): readonly object[] {
    const { config, nt } = this.#options;
    const listed = ({ name, description, parameters }: StatusTool | OnceMoreTool, readOnlyHint: boolean) => ({
      name,
      description,
      inputSchema: parameters,
      annotations: readOnlyHint ? { readOnlyHint } : { destructiveHint: false, idempotentHint: true },
    });
    return [
      ...(config.statusTool === true ? [listed(this.#status, true)] : []),
      ...(config.onceMoreTool === true ? [listed(onceMoreTool(nt), false)] : []),
    ];
  }

  #configOf(tool: string): ProxyToolConfig | undefined {
    const { tools } = this.#options.config;
    return tools !== undefined && Object.hasOwn(tools, tool) ? tools[tool] : undefined;
  }

  #guard(tool: string): Guard {
    const { nt, config, server } = this.#options;
    const own = this.#configOf(tool);
    const askOf = (scope: string | null) => this.#callers.find(scope)?.ask ?? null;
    const options = toolOptions(own, config, askOf);
    const mode = modeOf(own, config);
    const { declined, errors = own === undefined || mode === "undelivered" ? "answer" : "doubt" } = own ?? {};
    const judged = new Judged({ declined, errors, doubts: mode === "intent" });
    return guardTool<Arguments, Run, ToolResult>(
      nt,
      {
        ...options,
        name: tool,
        action: `${server}/${tool}`,
        scope: (run) => run.scope,
        turn: ({ call, place }) => ({ call: place, turn: call.client ?? "", gone: () => place.isFree() }),
        // A task is not waited for: its repeat gets the same one.
        waits: ({ call }) => (call.message.params.task === undefined ? undefined : 0),
        ...(config.statusTool === true && { statusTool: STATUS_TOOL }),
        ...(config.onceMoreTool === true && { onceMoreTool: ONCE_MORE_TOOL }),
        ...(config.mode !== undefined && { mode: config.mode }),
        classify: (error) => {
          const said = judged.verdict(error);
          return said === "refused" ? said : (verdictOnLost(error) ?? said);
        },
        [OF_PROXY]: true,
      },
      (args, run) => {
        const { call } = run;
        const of = currentAttempt();
        // A repeat that is only observed is no attempt of the ledger's: it goes as it came.
        if (of === undefined) return call.forward(call.message, null);
        return judged.run(run.asked, async () => {
          const answered = call.forward(withKey(call.message, args, own?.keyArgument, of.key), of);
          const answer = mode === "undelivered" ? answered.catch(errorAsAnswer) : answered;
          return this.#tasks.follow(answer, { ...run, of, ended: (end) => judged.ended(end) });
        });
      },
      judged.codec,
    );
  }

  /** Whose a record is: nobody gets another's results, and a doubt is looked into with its own caller's connection. */
  #scope(principal = ""): string {
    const { config, identity, secret } = this.#options;
    return ["mcp", short(identity, secret), short(principal, secret), config.scope ?? ""].join(":");
  }
}

/** Only a call that is done, and whose answer has arrived, keeps its place: any other is made again by the next one. */
function taking(place: Run["place"], answer: Answer<ToolResult>): Delivery {
  const isDone = answer.kind === "result" && answer.result.isError !== true;
  const free = (isFree: boolean) => () => {
    place.isFree = () => isFree;
  };
  return { arrived: free(!isDone), lost: free(true) };
}

/** Null: the config says what holds. */
function moneyNote(tool: string, own: ProxyToolConfig | undefined, config: ProxyConfig): string | null {
  if (own !== undefined && (own.effect !== undefined || "scope" in config)) return null;
  const inScope =
    config.scope === undefined || config.scope === null ? "" : ` and scope ${JSON.stringify(config.scope)}`;
  const holds =
    own === undefined
      ? `Without a config of its own, ${holdsUnnamed(config)}, for one caller${inScope}`
      : "Its config gives neither an effect nor a scope, so its calls are made once for one caller (another token is another caller), and not for ever";
  const example = `{ "scope": null, "tools": { ${JSON.stringify(tool)}: { "key": ["order"], "effect": "payment" } } }`;
  return `the name of the tool ${JSON.stringify(tool)} suggests that it moves money. ${holds}: after that, or in another session, the same call pays again. Say in --config what holds, such as ${example}; if it moves no money, give it another effect, or "readOnly": true where it only looks.`;
}

function holdsUnnamed(config: ProxyConfig): string {
  const window = String(config.window ?? DEFAULT_WINDOW);
  return modeOf(undefined, config) === "intent"
    ? `its calls are made once within ${window}`
    : `a repeat of a call is recognised until its answer has arrived, within ${window}`;
}

/** Another's attempt, as the ledger remembers it: it was taken back, and nothing stands against a new one. */
function isOfUnsent(answer: Answer<ToolResult>): boolean {
  if (answer.kind !== "refused" || answer.outcome?.status !== "failed") return false;
  return messageOf(answer.outcome.error) === new CancelledUnsent().message;
}

function invalid(what: string): RpcError {
  return { code: INVALID_PARAMS, message: `Not run: ${what}.` };
}

function wasNotRun(error: unknown): boolean {
  return isRefusedUnrun(error) || (error instanceof HttpFailure && error.isUnrunRedirect);
}

/** What the proxy itself says in the place of an answer that was lost: no config of the tool is about it. */
function verdictOnLost(error: unknown): Verdictish | undefined {
  if (wasNotRun(error)) return "refused";
  const verdict = classify(error, 0);
  const isOurs = error instanceof Error && (!(error instanceof RpcFailure) || error.isLost);
  if (!isOurs || verdict.kind !== "doubt" || !isUnclassified(verdict.why)) return undefined;
  Object.assign(error, { [DOUBT_REASON]: error.message });
  return "doubt";
}

function modeOf(own: ProxyToolConfig | undefined, config: ProxyConfig): ProxyGuard {
  return own === undefined ? (config.guard ?? "undelivered") : (own.guard ?? "intent");
}

/** An error answer is an answer, which arrives like any other. What was not run leaves no record. */
function errorAsAnswer(error: unknown): ToolResult {
  if (!(error instanceof RpcFailure) || error.isLost || wasNotRun(error) || isControlFlowError(error)) throw error;
  return { isError: true, content: [{ type: "text", text: `MCP error ${error.code}: ${error.message}` }] };
}

/**
 * A configured tool is guarded as an action is. Of one without config only identical calls are repeats, for a window at most,
 * whatever the server answered; and so long a doubt about it is held.
 */
function toolOptions(
  own: ProxyToolConfig | undefined,
  config: ProxyConfig,
  askOf: (scope: string | null) => Ask | null,
): ToolOptions<Arguments, ToolResult> {
  const keep = config.window ?? DEFAULT_WINDOW;
  const passing = { keep, doubt: { holdFor: keep }, retry: { attempts: 1 }, errors: mcpErrorMeaning("answer") };
  if (own === undefined) return modeOf(own, config) === "intent" ? passing : untilDelivered(passing);
  if (own.guard !== "undelivered") return configured(own, askOf);
  const said = configured(own, askOf);
  return untilDelivered({ ...passing, ...said, ...(own.errors === undefined && { errors: passing.errors }) });
}

function configured(
  own: ProxyToolConfig,
  askOf: (scope: string | null) => Ask | null,
): ToolOptions<Arguments, ToolResult> {
  const { guard, verify, readOnly, keyArgument, onTimeout, errors, declined, doubt, limit, ...options } = own;
  const settled = typeof doubt === "object" ? doubt : {};
  const probe = (args: Arguments, { scope }: ProbeContext) => {
    const ask = askOf(scope);
    // Another caller's credentials may not see what this one has made: "not there" would make it twice.
    return ask === null ? "unknown" : verifyCall(verify as NonNullable<typeof verify>, args, toolCaller(ask));
  };
  const policy = verify === undefined ? doubt : { ...settled, probe, quietFor: verify.quietFor };
  return {
    ...options,
    ...(limit !== undefined && { limit: limitOf(limit) }),
    ...(policy !== undefined && { doubt: policy }),
    errors: mcpErrorMeaning(errors),
  };
}

function toolCaller(ask: Ask): CallTool {
  return (name, args) => ask("tools/call", { name, arguments: args });
}

function withKey(message: ToolCall, args: Arguments, keyArgument: string | undefined, key: string): ToolCall {
  if (keyArgument === undefined) return message;
  return { ...message, params: { ...message.params, arguments: { ...args, [keyArgument]: key } } };
}

function without(args: Arguments, name: string): Arguments {
  return Object.fromEntries(Object.entries(args).filter(([one]) => one !== name));
}

function short(text: string, secret: string | undefined): string {
  if (text === "") return "";
  const digest = secret === undefined ? createHash("sha256") : createHmac("sha256", secret);
  return digest.update(text).digest("base64url").slice(0, 16);
}

/** What the guard itself refused (a key that cannot be made, a store that is down): told to the model, nothing was run. */
export function refusalOfError(error: unknown): ToolResult | null {
  if (!isNevertwiceError(error)) return null;
  return { isError: true, content: [{ type: "text", text: `Not run: ${error.message}` }] };
}
